"""Taking a chart or a link along: files on demand, and the link that holds every input.

Nothing is drawn until it is asked for: the menu has no content while it is closed, and a file is made when it is
downloaded.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import streamlit as st

from explorer import page_tables, prose
from explorer.frame import PAGE, PAGES
from explorer.page_keys import PAGE_KEYS
from kvmodel import charts, files
from kvmodel.charts import chart_files, pictures
from kvmodel.charts.series import Row
from kvmodel.inputs import addresses
from kvmodel.inputs.case import Case
from kvmodel.report import markup, memo

EMBED = "embed"  # the page of one chart, which is not in the navigation
FILES = (".svg", ".png", ".csv", ".html")
LABELS = {".svg": "svg", ".png": "png", ".csv": "csv", ".html": "html", ".md": "markdown"}
_charts_at: list[str] = []  # where the entry serves charts by address; empty where it does not


def serve_charts_at(path: str) -> None:
    """Told once by an entry that answers for charts below `path`."""
    _charts_at[:] = [path]


@functools.cache
def has_pictures() -> bool:
    """Whether this server can draw SVG and PNG; what is installed does not change while it runs."""
    return pictures.available()


def app_address() -> str:
    """Where this app runs, as the visitor's browser sees it, without the page's own path."""
    parts = urlsplit(st.context.url or addresses.APP)
    below = [part for part in parts.path.split("/") if part]
    base = below[:-1] if below and below[-1] in (*map(path_of, PAGES), EMBED) else below
    return "/".join((f"{parts.scheme}://{parts.netloc}", *base))


def path_of(page: str) -> str:
    """The last part of a page's address: its file's name; empty for the first page."""
    return "" if page == "home" else Path(PAGES[page]).stem


def page_state() -> dict[str, str]:
    """What the page keeps in the URL beside the inputs."""
    return {key: st.query_params[key] for key in PAGE_KEYS if key in st.query_params}


def copy_address(case: Case) -> None:
    """A button that opens the link, with a button to copy it."""
    box = st.popover(
        prose.label("share", "copy_link"), help=prose.detail("share", "copy_link"), on_change="rerun", key="copy_link"
    )
    if box.open:
        with box:
            st.code(
                addresses.page_address(app_address(), path_of(st.session_state[PAGE]), case, page_state()),
                language=None,
                wrap_lines=True,
            )
            st.caption(prose.text("share", "link_note"))


def popover(key: str) -> Any:
    """The closed or open menu of a chart, which says by `open` whether it is to be filled."""
    return st.popover(prose.label("share", "export"), on_change="rerun", key=f"export-{key}", type="tertiary")


def points_menu(key: str, points: list[Row]) -> None:
    """The table of a chart that no Case alone says, and its CSV."""
    box = popover(key)
    if box.open:
        with box:
            download(key, ".csv", functools.partial(files.as_csv, points), key)
            plotted(points)


def menu(name: str, case: Case, chart_data: tuple[Any, ...] | None = None, key: str | None = None) -> None:
    """The table and the export of a chart of kvmodel.charts.

    `chart_data` is what it draws, where the Case alone does not say it; `key` is the menu's on its page, else the name.
    """
    key = key or name
    box = popover(key)
    if not box.open:
        return
    with box:
        with st.container(horizontal=True):
            for suffix in FILES:
                if suffix not in pictures.SUFFIXES or has_pictures():
                    download(
                        name, suffix, functools.partial(chart_files.chart_file, name, case, suffix, chart_data), key
                    )
            download(name, ".md", markdown(name, case, chart_data), key)
        if not has_pictures():
            st.caption(prose.text("share", "no_pictures"))
        if chart_data is None:
            st.caption(prose.text("share", "embed"))
            st.code(embed_code(name, case), language=None, wrap_lines=True)
        plotted(charts.points(name, case, chart_data))


def plotted(points: list[Row]) -> None:
    """The plotted points as a table to sort."""
    st.caption(prose.text("share", "plotted"))
    columns = {name: [point.get(name) for point in points] for name in files.columns_of(points)}
    page_tables.sortable(columns, alt=prose.label("share", "plotted"))


def download(name: str, suffix: str, content: Callable[[], str | bytes], key: str) -> None:
    label = LABELS[suffix]
    st.download_button(
        prose.label("share", label), content, f"{name}{suffix}", key=f"download-{key}{suffix}",
        help=prose.detail("share", label), on_click="ignore",
    )  # fmt: skip


def markdown(name: str, case: Case, chart_data: tuple[Any, ...] | None) -> Callable[[], str]:
    """Makes the Markdown of a chart; its picture is the address where charts are served, else the file beside it."""
    app = app_address()
    by_address = _charts_at and chart_data is None and has_pictures()
    place = f"{app}{charts_path(app)}/{name}.svg?{urlencode(addresses.query(case))}" if by_address else f"{name}.svg"
    return lambda: markup.as_markdown(memo.chart_note(name, case, app, chart_data), lambda _: place)


def charts_path(app: str) -> str:
    """Where charts are served below the app's address, which holds the base path already."""
    return _charts_at[0].removeprefix(urlsplit(app).path.rstrip("/"))


def embed_code(name: str, case: Case) -> str:
    """An iframe of the chart's own page; its address escaped, as browsers read "&copy_method" as a copyright sign."""
    address = addresses.page_address(app_address(), EMBED, case, {"chart": name, "embed": "true"})
    return f'<iframe src="{html.escape(address)}" width="100%" height="560" style="border:0"></iframe>'
