"""The live crossover: a chart that follows the hand, and hands the values to the controls when it is let go."""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from explorer import controls, prose, share, show
from explorer.component import component
from explorer.sections import verdict
from kvmodel.arrays import Floats
from kvmodel.charts import crossover, labels, theme
from kvmodel.curves import curves, live_terms
from kvmodel.curves.live_terms import LiveTerms
from kvmodel.curves.slider_stops import RATE, SHARE, SURVIVAL
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import Comparison
from kvmodel.units import GB, SECONDS, format_bytes, format_count, format_percent, format_tokens, significant
from kvmodel.words import say

SCRIPTS = ("live.js", "chart.js", "numbers.js")
COLORS = ("wait", "swap", "recompute", "offload", "both")  # as .streamlit/config.toml lists them
SENT_TEXTS = (
    "say.", "alt.", "mark.", "part.", "axis.", "slider.", "unit.", "given", "absent", "group", "failed",
)  # fmt: skip
KEY, VALUES = "live", "chosen"
CHART = "crossover"  # what kvmodel.charts calls the plain chart
MOST_PREEMPTIONS = 20  # that a page works out at every stop without delay
TICKS = (128, 512, 2048, 8192, 32768, 131072, 524288, 2097152)


COMPONENT = component("kv_live_crossover", "live", SCRIPTS)


def crossover_of(result: Comparison) -> None:
    """The live chart of a comparison, what its engine would do, and the plain chart for who cannot have the live one.

    For an engine without swap what it would do comes first: the live sentence is on swap against recompute.
    """
    has_swap, many = "swap" in result.inputs.available, result.case.preemptions > MOST_PREEMPTIONS
    if not has_swap:
        verdict.of_engine(result)
    if many:
        st.caption(prose.text("live", "too_many", {"most": format_count(MOST_PREEMPTIONS)}))
    else:
        fields = controls.only()[0] or controls.FIELDS
        data = payload(terms_of(result.case), turn=browser_values().get("turn"), fields=fields)
        COMPONENT(key=KEY, data=[data], on_chosen_change=take)
        st.caption(prose.text("live", "note"))
    if has_swap:
        verdict.of_engine(result)
    if st.toggle(prose.label("live", "plain"), key="plain", bind="query-params") or many:
        lengths = curves.cost_by_length(result)
        figure = crossover.cost_by_length(lengths, palette=theme.STREAMLIT)
        show.chart(figure, alt=crossover.cost_by_length_alt(lengths), key=CHART)
    else:
        share.menu(CHART, result.case)


@functools.lru_cache(maxsize=24)  # of 190 KB each
def terms_of(case: Case) -> LiveTerms:
    """Kept for what does not change the Case: a toggle, another reader of the same page."""
    return live_terms.live_terms(controls.comparison_of(case))


def take() -> None:
    """Put what the reader let go of into the controls, as a link would."""
    values = browser_values().get("values", {})
    empty = {field: None for field, value in values.items() if value is None and field in (RATE, SHARE)}
    inputs, _ = controls.valid_values({field: str(value) for field, value in values.items() if value is not None})
    controls.use(inputs | empty)


def browser_values() -> dict[str, Any]:
    """What the browser sent last: inputs by Case field, and the turn by which it knows them again."""
    state = st.session_state.get(KEY)
    return (state.get(VALUES) if state else None) or {}


def payload(live: LiveTerms, *, turn: int | None, fields: Sequence[str]) -> dict[str, Any]:
    """All that the browser needs: arrays in single precision, each once; texts; how numbers are written.

    `turn` is that of the browser's values which this answers, `fields` are the inputs that have a slider.
    """
    places: dict[bytes, int] = {}

    def packed(values: Floats) -> int:
        """The place of an array among those sent."""
        return places.setdefault(np.ascontiguousarray(values, dtype="<f4").tobytes(), len(places))

    coefficient_sliders = {term: SHARE if term == "next_token" else RATE for term in live.coefficients}
    data = {
        "turn": turn,
        "regular": list(live.regular),
        "alone": list(live_terms.ALONE),
        "terms": {
            strategy: {slider: {term: packed(rows) for term, rows in terms.items()} for slider, terms in along.items()}
            for strategy, along in live.terms.items()
        },
        "coefficients": {
            term: {"array": packed(values), "slider": coefficient_sliders[term]}
            for term, values in live.coefficients.items()
        },
        "parts": {slider: {name: packed(row) for name, row in parts.items()} for slider, parts in live.parts.items()},
        "bands": live.bands,
        "strategies": strategies(live),
        "shown": [name for name in live.sliders if name in fields],
        "sliders": {name: slider_of(live, name) for name in live.sliders},
        "kv": [format_bytes(float(size)) for size in live.kv_bytes],
        "ticks": [[tick, format_tokens(tick)] for tick in TICKS if live.lengths[0] <= tick <= live.lengths[-1]],
        "units": [list(step) for step in SECONDS],
        "rate": [GB, "GB/s"],
        "texts": {name: text for name, text in prose.sections("live").items() if name.startswith(SENT_TEXTS)},
    }
    return data | {"arrays": squeezed(list(places))}


def squeezed(arrays: Sequence[bytes]) -> dict[str, Any]:
    """Arrays in single precision as one text: first bytes of all numbers first, which halves what deflate leaves."""
    planes = np.frombuffer(b"".join(arrays), dtype=np.uint8).reshape(-1, 4).T
    deflated = base64.b64encode(zlib.compress(planes.tobytes())).decode("ascii")
    return {"lengths": [len(array) // 4 for array in arrays], "deflated": deflated}


def strategies(live: LiveTerms) -> list[dict[str, Any]]:
    """The curves: recompute and swap always, so that they can be compared; offload where the engine has it."""
    names = [name for name in live_terms.STRATEGIES if name != "offload" or name in live.available]
    return [
        {
            "name": name,
            "label": say(name),
            "letters": labels.letters(say(name)),
            "color": COLORS.index(name),
            "dash": theme.DASHES[name],
            "band": live.bands.get(name),
            "absent": name not in live.available,
        }
        for name in names
    ]


def slider_of(live: LiveTerms, name: str) -> dict[str, Any]:
    """Stops of a slider, as values of the Case, and as a reader reads them."""
    slider = live.sliders[name]
    return {
        "values": slider.values,
        "chosen": slider.case_stop,
        "given": None if slider.catalog_stop is None else slider.numbers[slider.catalog_stop],
        "texts": [stop_text(name, value) for value in slider.numbers],
    }


@functools.lru_cache(maxsize=1024)
def stop_text(name: str, value: float) -> str:
    if name in (SHARE, SURVIVAL):
        return theme.without_zeros(format_percent(value))
    if name == RATE:
        return theme.without_zeros(f"{significant(value, 3)} ").rstrip()
    return format_count(value)
