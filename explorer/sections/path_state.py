"""Where a reader is on the guided path and what they answered, all of it in the URL.

`?step=3&answers=token-200_pool-skip` is read again at every run: reload, Back and a link from somebody else work
alike. A reader who comes back from another page finds the path as it was left.
"""

from __future__ import annotations

import streamlit as st

from explorer import controls, prose
from explorer.frame import PAGE
from kvmodel.errors import CaseError
from kvmodel.explain import guided_path
from kvmodel.explain.guided_path import Server, Step

Guesses = dict[str, float | str | None]  # by step; None for a question that was skipped
PATH_QUERY = "path_kept"  # session state: the path's part of the URL, for the way back from another page
EMPTY = "path_empty"  # the reader asked to check a guess without one
KEYS = ("step", "answers", "events", "finished", "wait_s")
SERVER = KEYS[2:]


def come_back() -> None:
    """Put the path into the URL as it was left, where the reader comes from another page without naming a step."""
    arriving = st.session_state.get(controls.LAST_PAGE) != st.session_state[PAGE]
    if arriving and "step" not in st.query_params and PATH_QUERY in st.session_state:
        st.query_params.update(st.session_state[PATH_QUERY])
    st.session_state[PATH_QUERY] = {key: st.query_params[key] for key in KEYS if key in st.query_params}


def current() -> Step:
    """The step that the URL names, the first where it names none that exists, with a sentence then."""
    try:
        return guided_path.step_of(st.query_params.get("step", "1"))
    except CaseError as error:
        st.warning(prose.escaped(str(error)))
        return guided_path.steps()[0]


def guesses() -> Guesses:
    """What the reader answered, with a sentence for each thing that cannot be read."""
    by_step: Guesses = {}
    for piece in filter(None, st.query_params.get("answers", "").split("_")):
        name, _, text = piece.partition("-")
        try:
            by_step[name] = guided_path.guess_of(name, text)
        except CaseError as error:
            st.warning(prose.escaped(str(error)))
    return by_step


def put(step: Step, answer: str | None) -> None:
    """A callback: write an answer into the URL, or take it out again."""
    pieces = [piece for piece in st.query_params.get("answers", "").split("_") if piece]
    others = [piece for piece in pieces if piece.partition("-")[0] != step.id]
    st.query_params.update(
        {"step": str(step.number), "answers": "_".join(others + ([f"{step.id}-{answer}"] if answer else []))}
    )


def put_guess(step: Step) -> None:
    """The form's callback: the number that stands in it."""
    guess = st.session_state[f"guess_{step.id}"]
    st.session_state[EMPTY] = guess is None
    if guess is not None:
        put(step, f"{guess:.10g}")


def go(number: int) -> None:
    st.query_params["step"] = str(number)


def server() -> Server:
    """What the reader's server counted, as the URL has it, with a sentence for each count that cannot be read."""
    default = guided_path.default_server()
    numbers = {}
    for key in SERVER:
        try:
            numbers[key] = guided_path.LIMITS[key].read(key, st.query_params.get(key, str(getattr(default, key))))
        except CaseError as error:
            st.warning(prose.escaped(str(error)))
            numbers[key] = getattr(default, key)
    return Server(**numbers)


def put_server_number(key: str) -> None:
    st.query_params[key] = f"{st.session_state[f'path_{key}']:.10g}"
