"""The form "measured against modelled": a reader's own times, what they imply, and the way into the inputs."""

from __future__ import annotations

import streamlit as st

from explorer import controls, prose
from kvmodel.errors import CaseError
from kvmodel.evidence import calibration
from kvmodel.evidence.calibration import CopyReading, Point, PrefillReading
from kvmodel.inputs import questions
from kvmodel.inputs.case import Case
from kvmodel.texts import evidence


def form(case: Case, numbers: dict[str, str]) -> None:
    """Times to enter for the Case, what they say, and a button that puts that into the inputs."""
    st.header(prose.label("evidence", "calibrate"))
    st.markdown(prose.text("evidence", "calibrate_lead", numbers))
    alone = calibration.model_alone(case)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(f"**{prose.label('evidence', 'prefill')}**")
        prefill = read_prefill(alone, points("prefill", case))
    with right:
        st.markdown(f"**{prose.label('evidence', 'copy')}**")
        copy = read_copy(alone, points("copy", case))
    values = calibration.case_fields(prefill, copy)
    if values:
        st.button(
            prose.label("evidence", "use"),
            help=prose.text("evidence", "use_note"),
            on_click=controls.use,
            args=(values,),
            type="primary",
            key="use_measured",
        )


def points(what: str, case: Case) -> list[Point]:
    """One or two points of a kind; the first is of the Case's length unless told otherwise. Empty without a time."""
    measurements = []
    for which in ("", "2"):
        tokens_place, time_place = st.columns(2)
        case_length = None if which else case.tokens
        with tokens_place:
            tokens = number(what, f"tokens{which}", f"{what}2_tokens", f"{case_length or ''}")
        with time_place:
            seconds = number(what, f"s{which}", f"{what}_s", "")
        if seconds is not None and (tokens or case_length):
            measurements.append(Point(int(tokens or case_length or 0), float(seconds)))
    return measurements


def number(what: str, field: str, like: str, empty: str) -> float | None:
    """A number within the limits of an input of the command line; None while nothing is entered."""
    least, greatest = questions.INPUTS[like].limits.ends
    whole = isinstance(least, int)
    return st.number_input(
        prose.label("evidence", f"field.{field}"),
        min_value=least,
        max_value=greatest,
        value=None,
        step=1 if whole else 0.01,
        format="%d" if whole else "%g",
        placeholder=empty,
        key=f"measured_{what}_{field}",
        persist_state="session",
    )


def read_prefill(case: Case, measurements: list[Point]) -> PrefillReading | None:
    """What the measured prefills imply, said in a sentence or two."""
    if not measurements:
        return None
    try:
        reading = calibration.read_prefill(case, *measurements)
    except CaseError as error:
        st.warning(prose.escaped(str(error)))
        return None
    say("prefill", reading, evidence.prefill_texts(reading), two=len(measurements) > 1)
    return reading


def read_copy(case: Case, measurements: list[Point]) -> CopyReading | None:
    """What the measured copies imply, said in a sentence or two."""
    ways = questions.INPUTS["direction"].limits.options
    direction = st.selectbox(
        prose.label("evidence", "field.direction"), ways, key="measured_direction",
        persist_state="session",
    )  # fmt: skip
    if not measurements:
        return None
    try:
        reading = calibration.read_copy(case, str(direction), *measurements)
    except CaseError as error:
        st.warning(prose.escaped(str(error)))
        return None
    say("copy", reading, evidence.copy_texts(reading), two=len(measurements) > 1)
    return reading


def say(what: str, reading: PrefillReading | CopyReading, numbers: dict[str, str], *, two: bool) -> None:
    if reading.impossible:
        first = reading.point.seconds < reading.floor_s
        st.error(prose.text("evidence", f"impossible.{what}" if first else f"impossible_second.{what}", numbers))
        return
    lines = [prose.text("evidence", f"reads.{what}", numbers)]
    if two:
        lines.append(prose.text("evidence", f"overhead.{what}", numbers))
    if reading.beyond:
        lines.append(prose.text("evidence", f"beyond.{what}"))
    st.markdown(" ".join(lines))
