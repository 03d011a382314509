"""Tables of a page: drawn in a frame of their own, and all of them taken along as files from one menu."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import streamlit as st

from explorer import arrow_tables, prose
from kvmodel.report import table_files


@dataclass(frozen=True)
class Table:
    """What a page shows; `name` is the stem of its files, `foreign` says that cells hold what a visitor gave."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    foreign: bool = False


_noted: ContextVar[list[Table] | None] = ContextVar("noted", default=None)


def begin() -> None:
    """No table is drawn yet in this run."""
    _noted.set([])


def show(table: Table) -> None:
    """Draw a table, and keep it for the menu of this run."""
    arrow_tables.draw(table.header, table.rows)
    noted = _noted.get()
    if noted is not None:
        noted.append(table)


def menu() -> None:
    """The files of every table drawn so far; nothing where there is none, or inside another site's page."""
    tables = _noted.get()
    if not tables or st.context.is_embedded:
        return
    box = st.popover(prose.label("share", "tables"), on_change="rerun", key="page-tables", type="tertiary")
    if not box.open:
        return
    with box:
        st.caption(prose.detail("share", "tables") or "")
        for table in tables:
            st.markdown(", ".join(table.header))
            with st.container(horizontal=True):
                for suffix in table_files.SUFFIXES:
                    download(table, suffix)


def download(table: Table, suffix: str) -> None:
    file = f"{table.name}{suffix}"
    content = functools.partial(table_files.content, suffix, table.header, table.rows, foreign=table.foreign)
    st.download_button(file, content, file, key=f"table-{file}", on_click="ignore")
