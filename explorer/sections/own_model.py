"""A model of the reader's own, read from its config.json: pasted or uploaded, used on every page, back to the catalog.

The file stays in the session's own widgets. The Case, and so the URL, has the model's numbers and its name.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import streamlit as st

from explorer import aside, choice, controls, prose, show
from kvmodel import catalog
from kvmodel.catalog import custom_model
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.hf.config_file import Reading
from kvmodel.inputs.case import DEFAULTS, Case
from kvmodel.texts import config_reading
from kvmodel.units import MIB

SOURCES = ("paste", "upload")
UNNAMED = "config"  # a file that was pasted, or that has the name they all have
MOST_LETTERS = 80  # of a name; what is kept of it is shorter
# Session state: how the file was read, why it was not, whether the inputs are open, and the widgets.
READING, REFUSAL, OPEN = "own_model_reading", "own_model_refused", "own_model_open"
WEIGHTS = {"": "weights", "_active": "weights_active", "_unknown": "weights_unknown"}
SOURCE, TEXT, FILE, NAME, DRAFTS, ASSUME = (
    "config_source", "config_text", "config_file", "config_name", "config_drafts", "config_assume",
)  # fmt: skip


def section() -> None:
    """The inputs, an error where the file was refused, and how the model in use was read."""
    box = st.expander(prose.label("own_model", "open"), key=OPEN, on_change="rerun")
    if box.open:
        with box:
            st.markdown(prose.text("own_model", "lead"))
            form()
            if st.session_state.get(REFUSAL):
                st.error(prose.escaped(st.session_state[REFUSAL]))
    reading = st.session_state.get(READING)
    if reading is not None and reading.text == in_use():
        reading_summary(reading)


def form() -> None:
    """Where the file comes from, and what goes with it."""
    source = st.segmented_control(
        prose.label("own_model", "source"), SOURCES, key=SOURCE, required=True, label_visibility="collapsed",
        format_func=lambda name: choice.quiet(prose.label("own_model", f"source.{name}")),
        default=None if SOURCE in st.session_state else SOURCES[0],
    )  # fmt: skip
    with st.form("own_model", border=False):
        if source == SOURCES[0]:
            hint = prose.detail("own_model", "text")
            st.text_area(prose.label("own_model", "text"), height=140, placeholder=hint, key=TEXT)
        else:
            most = int(config_file.LARGEST_FILE_BYTES / MIB)
            st.file_uploader(**texts("file"), max_upload_size=most, key=FILE)
        name, drafts = st.columns([2, 1])
        name.text_input(**texts("name"), max_chars=MOST_LETTERS, key=NAME)
        drafts.number_input(**texts("drafts"), min_value=0, max_value=config_file.MOST_DRAFTS, key=DRAFTS)
        st.checkbox(**texts("assume"), key=ASSUME)
        st.form_submit_button(prose.label("own_model", "read"), on_click=read, type="primary")


def texts(name: str) -> dict[str, Any]:
    return {"label": prose.label("own_model", name), "help": prose.detail("own_model", name)}


def read() -> None:
    """The form's callback: the file becomes the model in use, or there is a sentence on why not."""
    state = st.session_state
    state[REFUSAL] = None
    try:
        reading = reading_of(*file_content())
        controls.use({"model": reading.text})
        state[READING], state[OPEN] = reading, False
    except CaseError as error:
        state[REFUSAL] = str(error)


def file_content() -> tuple[bytes | str, str]:
    """The file's text and its name, without a suffix. Raises CaseError where there is none."""
    state = st.session_state
    content: bytes | str = ""
    name = UNNAMED
    if state[SOURCE] == SOURCES[0]:
        content = str(state.get(TEXT) or "").strip()
    elif state.get(FILE) is not None:
        content, name = state[FILE].getvalue(), PurePath(state[FILE].name).stem
    if not content:
        raise CaseError(prose.text("own_model", "nothing"))
    return content, name


def reading_of(content: bytes | str, name: str) -> Reading:
    """Raises ConfigRefused, one sentence."""
    state = st.session_state
    reading = aside.of_texts(
        config_file.read_text, (content,),
        name=name, assume_defaults=bool(state[ASSUME]), draft_layers=int(state[DRAFTS] or 0),
    )  # fmt: skip
    label = (state.get(NAME) or "").strip()
    if label or reading.model.label == UNNAMED:
        return config_file.with_label(reading, label or reading.model_type)
    return reading


def in_use() -> str:
    """The model that the inputs held last."""
    return str(st.session_state.get(controls.LAST_INPUTS, DEFAULTS)["model"])


def reading_summary(reading: Reading) -> None:
    """What the file says: the model in a sentence, what was assumed, notes, and every field that was used."""
    numbers = config_reading.reading_texts(reading)
    where = prose.text("own_model", "top_level") if reading.section == "top level" else f"`{reading.section}`"
    values = {
        "section": where,
        "fixed": prose.text("own_model", "fixed", numbers) if config_reading.has_fixed_part(reading) else "",
        "weights": prose.text("own_model", WEIGHTS[config_reading.weights_known(reading)], numbers),
    }
    with st.container(border=True):
        st.markdown(prose.text("own_model", "read_as", numbers | values))
        if reading.assumed:
            fields = prose.escaped(", ".join(config_reading.default_texts(reading)))
            st.info(prose.text("own_model", "assumed", {"fields": fields}))
        if reading.notes:
            st.markdown(f"**{prose.label('own_model', 'notes')}**")
            show.bullets(map(prose.escaped, reading.notes))
        rows = config_reading.field_rows(reading)
        with st.expander(prose.text("own_model", "used", {"count": str(len(rows))})):
            header = [prose.label("own_model", "field"), prose.label("own_model", "value")]
            show.table("config", header, [[prose.escaped(cell) for cell in row] for row in rows], foreign=True)
        st.caption(prose.text("own_model", "in_use"))
        back()


def back() -> None:
    """A button to the catalog's first model."""
    first = DEFAULTS["model"]
    label = prose.text("own_model", "back", {"model": catalog.model(first).label})
    st.button(label, on_click=controls.use, args=({"model": first},), key="own_model_back")


def from_address(case: Case) -> None:
    """Where the model in use came with a link, say so: its file is not here."""
    reading = st.session_state.get(READING)
    if custom_model.is_text(case.model) and (reading is None or reading.text != case.model):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                prose.text("own_model", "from_link", {"name": catalog.model(case.model).label}), width="content"
            )
            back()
