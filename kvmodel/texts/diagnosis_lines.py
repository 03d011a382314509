"""The numbers behind a diagnosis, a line each: what, how much, from which metric, over what time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvmodel import catalog
from kvmodel.texts.metric_lines import MetricLine, metric_lines


@dataclass(frozen=True)
class Line:
    """One number; `value` None where there is none.

    `metrics` are those it was read from; where none `is_reported`, those that the engine's newest version has for it.
    `over` is "window", "state" (a gauge), "config", or "model" for what no metric holds.
    """

    what: str
    value: str | None
    metrics: tuple[str, ...]
    is_reported: bool
    over: str


def lines(answer: Mapping[str, Any]) -> list[Line]:
    """The lines of an answer of `metrics.diagnose`; of what is no engine there are none."""
    if "state" not in answer:
        return []
    kinds = kinds_of(answer["engine"])
    rows = [line(figure, answer["names"], answer["engine"], kinds) for figure in metric_lines(dict(answer))]
    return [each for each in rows if each.value is not None or each.over != "model"]


def kinds_of(product: str) -> dict[str, str]:
    """Gauge, counter, histogram or info, by meaning."""
    rows = catalog.table("metrics")[product]
    return {word: kind for kind in ("info", "histogram", "counter", "gauge") for word in rows.get(kind, {})}


def line(figure: MetricLine, names: Mapping[str, str], product: str, kinds: Mapping[str, str]) -> Line:
    """A number with the metrics it was read from, or would have been."""
    metrics = {word: names[word] for word in figure.words if word in names}
    is_reported = bool(metrics) or figure.text is not None
    if not is_reported:
        rows = catalog.table("metrics")[product]
        metrics = {word: rows[kinds[word]][word][0] for word in figure.words if word in kinds}
    types = {kinds[word] for word in metrics}
    over = "config" if types == {"info"} else "state" if types & {"gauge"} else "window" if types else "model"
    return Line(figure.name.strip(), figure.text, tuple(dict.fromkeys(metrics.values())), is_reported, over)
