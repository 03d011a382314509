"""The live picture of the pool: one or two simulated runs that a reader plays and scrubs in the browser."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import streamlit as st

from explorer import prose
from explorer.component import component
from kvmodel.arrays import Floats
from kvmodel.charts import pressure, theme
from kvmodel.simulation import pool_film
from kvmodel.simulation.pool_film import Film
from kvmodel.simulation.results import Results
from kvmodel.units import format_count

SCRIPTS = ("pool.js", "film.js")
CATEGORIES = ("wait", "swap", "recompute", "offload", "both")  # as .streamlit/config.toml lists their colours
STATE_COLORS = {"decode": "swap", "prefill": "both", "recompute": "recompute", "kept": "offload", "new": "wait"}
USAGE_POINTS = 100
AGAIN = 0x8000  # added to a request that comes back from a preemption
FULL = 65535  # times are sent as shares of the film, blocks as shares of the pool, in 16 bits
KEY, AT, IN_URL = "pool", "at", "t"


COMPONENT = component("kv_pool", "pool", SCRIPTS)


def player(runs: Mapping[str, Results], block_tokens: int) -> None:
    """The picture of these runs; the time at which the reader leaves it goes into the URL."""
    films = {name: pool_film.film(results, block_tokens) for name, results in runs.items()}
    COMPONENT(key=KEY, data=[payload(runs, films)], on_at_change=take)
    st.caption(prose.text("pressure", "film_note"))
    names = [name for name, film in films.items() if film.goes_on]
    if names:
        numbers = {"stays": format_count(pool_film.MOST_STAYS), "schedulers": ", ".join(names)}
        st.caption(prose.text("pressure", "film_cut", numbers))


def take() -> None:
    """Keep the time in the URL, as a link would have it."""
    state = st.session_state.get(KEY)
    if state and state.get(AT) is not None:
        st.query_params[IN_URL] = f"{state[AT]:g}"


def payload(runs: Mapping[str, Results], films: Mapping[str, Film]) -> dict[str, Any]:
    """All that the browser needs."""
    looks = pressure.looks(runs, theme.STREAMLIT)
    end_s = max(film.end_s for film in films.values())
    texts = prose.sections("pressure")
    return {
        "at": begin_s(films, end_s),
        "end": round(end_s, 2),
        "colors": {state: CATEGORIES.index(name) for state, name in STATE_COLORS.items()},
        "texts": {name: text for name, text in texts.items() if name.startswith("film.")}
        | {"failed": texts["film.failed"]},
        "runs": [
            {
                "name": name,
                "color": CATEGORIES.index(pressure.STRATEGY[name]),
                "dashed": looks[name]["dash"] != "solid",
                "end": films[name].end_s,
                "cut": films[name].goes_on,
                "blocks": results.pool_blocks,
                "onHost": results.bytes_from_host > 0,
                "waitingMost": int(np.max(results.seconds.waiting, initial=1)),
                "usage": usage(results, films[name].end_s),
            }
            | packed(films[name])
            for name, results in runs.items()
        ],
    }


def begin_s(films: Mapping[str, Film], end_s: float) -> float:
    """Where the picture stands first: at the time of the link, else where the first run is under most pressure."""
    try:
        at_s = float(st.query_params.get(IN_URL, ""))
    except ValueError:
        at_s = -1.0
    if 0 <= at_s <= end_s:
        return at_s
    return round(pool_film.busiest_s(next(iter(films.values()))), 2)


def usage(results: Results, end_s: float) -> list[int]:
    """The pool in percent at times from 0 to the end."""
    seconds = results.seconds
    times = np.linspace(0, end_s, USAGE_POINTS)
    shares = np.interp(times, np.append(0.0, seconds.time_s), np.append(0.0, seconds.kv_usage))
    return np.rint(100 * shares).astype(int).tolist()


def packed(film: Film) -> dict[str, str]:
    """The columns of film.js one after another, 16 bits a number; blocks that came back are nought for the others."""
    times = [_sixteen(column, film.end_s) for column in (film.ready_s, film.admitted_s, film.decoding_s, film.left_s)]
    cached_blocks, *blocks = [
        _sixteen(column, film.pool_blocks) for column in (film.cached_blocks, film.prefill_blocks, film.left_blocks)
    ]
    stays = np.stack([film.request + AGAIN * film.again, *times, *blocks])
    return {"stays": _text(stays), "cached": _text(cached_blocks[film.again])}


def _sixteen(values: Floats, whole: float) -> Floats:
    return np.rint(np.clip(values / whole, 0, 1) * FULL)


def _text(values: Floats) -> str:
    return base64.b64encode(values.astype("<u2").tobytes()).decode("ascii")
