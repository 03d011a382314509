"""On Korean pages what charts and the heads of tables and their rows say is Korean, but for names, ids and units."""

import json
import re
from collections.abc import Iterator

import pytest

from explorer import prose
from explorer.frame import PAGES
from kvmodel import catalog
from kvmodel.catalog import releases
from kvmodel.evidence import measured_points
from kvmodel.inputs.case import DEFAULTS
from kvmodel.memory import kv_cache
from kvmodel.simulation import simulate
from tests.helpers.visit import opened, tables

VISITS = [(page, {}) for page in PAGES] + [
    ("home", {"timeline_shown": "true", "plain": "true", "sources": "true"}),
    ("home", {"plain": "true", "decode_batch": "256", "decode_context": "32768"}),
    ("kv_size", {"model": "deepseek-v3", "gpu": "h200-sxm-141gb", "tp": "8"}),
    *(("crossover", {"view": view}) for view in ("block-size", "copy-rate", "winner-map", "preemptions", "figure19")),
    ("crossover", {"parts_blocks": "true", "preemptions": "3", "sources": "true", "copy_method": "batched"}),
    ("evidence", {"rows_kind": ""}),
]
TERMS = set(  # of the field, as Korean engineers write them; products; units
    """
    KV GPU CUDA FLOP/byte FLOP/s TFLOP/s B/s GB/s TB/s MiB GiB ms requests/s p50 p90 p99 D2H H2D PCIe V0 V1 dense fp8
    """.split()
)
METHODS = {"per-copy", "batched", "kernel"}  # of copies, as the input has them
CITED = re.compile(r"\[.*\]\(https?://")
TAG, VALUE, WORD = re.compile(r"<[^>]*>"), re.compile(r"%\{[^}]*\}"), re.compile(r"[A-Za-z][\w./+-]*", re.ASCII)


def names() -> set[str]:
    """Names and ids that stand in charts as they are, word by word."""
    models, gpus, links = catalog.model_ids(), catalog.gpu_ids(), catalog.link_ids()
    labels = [catalog.model(each).label for each in models] + [catalog.gpu(each).label for each in gpus]
    labels += [catalog.link(each).label.partition(",")[0] for each in links] + [row.label for row in releases.places()]
    labels += [f"{row.engine} {row.source}" for row in measured_points.pairs()]
    ids = {*models, *gpus, *links, *simulate.SCHEDULERS, *kv_cache.LAYOUTS, *catalog.table("workloads"), *DEFAULTS}
    ids |= {*measured_points.SAYS, *(entry.engine for entry in releases.entries())}
    return ids | {word for label in labels for word in WORD.findall(label)}


def figures(at: object) -> Iterator[tuple[dict, str]]:
    """The charts of a page and their alternative texts."""
    for element in at.get("plotly_chart"):  # type: ignore[attr-defined]
        yield json.loads(element.proto.spec), element.proto.alt


def texts(figure: dict) -> Iterator[str]:
    """Titles of axes, notes, and what is said when something is pointed at."""
    layout = figure["layout"]
    for name, axis in layout.items():
        if name.startswith(("xaxis", "yaxis")):
            yield axis.get("title", {}).get("text", "")
            yield axis.get("unifiedhovertitle", {}).get("text", "")
    yield from (note["text"] for note in layout["annotations"])
    for trace in figure["data"]:
        yield trace.get("hovertemplate", "")
        if trace["type"] == "bar":
            yield from trace.get("text", [])


def english(text: str) -> list[str]:
    """The words of a text that a Korean page should not say."""
    allowed = TERMS | METHODS | names()
    words = (word.rstrip(".,/-") for word in WORD.findall(VALUE.sub("", TAG.sub(" ", text))))
    return [word for word in words if len(word) > 1 and word not in allowed]


@pytest.mark.parametrize(("page", "query"), VISITS, ids=str)
def test_a_page_says_it_in_korean(page: str, query: dict[str, str]) -> None:
    at = opened(page, lang="ko", **query)
    assert at.title[0].value == prose.sections_in("ko", page)["title"].splitlines()[0]
    for figure, alt in figures(at):
        found = {text: english(text) for text in (alt, *texts(figure))}
        assert not {text: words for text, words in found.items() if words}
        assert re.search("[가-힣]", alt)
    for table in tables(at):
        heads = [*table.columns, *(row for row in table.iloc[:, 0] if not CITED.match(row))]
        assert not {head: english(head) for head in heads if english(head)}


@pytest.mark.parametrize("page", ["home", "scenarios", "evidence"])
def test_what_is_kept_for_other_readers_is_in_no_language(page: str) -> None:
    first, _, again = (opened(page, lang=language, plain="true") for language in ("en", "ko", "en"))
    assert list(figures(again)) == list(figures(first))
    korean = [alt for _, alt in figures(opened(page, lang="ko", plain="true"))]
    assert korean
    assert all(re.search("[가-힣]", alt) for alt in korean)
