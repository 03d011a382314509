"""The guided path on the page: the steps, a question, and what is revealed after it."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer import controls, prose, show
from explorer.frame import PAGES
from explorer.sections import crossover, path_state, why
from explorer.sections.path_state import Guesses
from kvmodel.charts import crossover as charts
from kvmodel.charts import kv_size, theme
from kvmodel.curves import curves
from kvmodel.errors import CaseError
from kvmodel.explain import guided_path
from kvmodel.explain.guided_path import Server, Step
from kvmodel.inputs import addresses
from kvmodel.recovery import felt
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.texts import guide

GUESS_PX = 280
AFTER = ("capacity", "pressure", "diagnose", "crossover", "claims", "glossary")  # pages to go on to, where there are
CURVES = {"copy": ("swap",), "prefill": ("swap", "recompute")}  # of the chart against length
VIEWS = {"even": "winner-map", "gqa": "winner-map", "pieces": "block-size", "paper": "figure19"}
TRACES = {
    "token": "kv",
    "copy": "swap",
    "prefill": "recompute",
    "even": "even_rate",
    "gqa": "even_rate",
    "pieces": "swap",
}


def progress(step: Step, guesses: dict[str, Any]) -> None:
    """A button a step: which are answered, which is shown."""
    with st.container(horizontal=True, gap="xsmall", key="path_steps"):
        for each in guided_path.steps():
            title = {"number": str(each.number), "title": name(each)}
            st.button(
                f"✓{each.number}" if each.id in guesses else f"{each.number}",
                type="primary" if each is step else "tertiary",
                help=prose.text("path", "step_help", title),
                on_click=path_state.go,
                args=(each.number,),
                key=f"step_{each.number}",
            )


def position(step: Step) -> dict[str, str]:
    return {"number": str(step.number), "count": str(len(guided_path.steps()))}


def name(step: Step) -> str:
    return prose.label("path", f"name.{step.id}")


def result_of(step: Step, places: tuple[DeltaGenerator, DeltaGenerator, DeltaGenerator]) -> Comparison:
    """Draw the step's controls and price its Case; where that cannot be done, say so and stop."""
    answer, side, rest = places
    side.markdown(f"**{prose.label('path', 'server')}**")
    values = controls.inputs(answer, side, rest, step.controls)
    side.caption(prose.text("path", "server_note"))
    with answer:
        try:
            return compare_case(guided_path.case_of(step, values))
        except CaseError as error:
            st.warning(prose.escaped(str(error)))
            move(step, answered=False)
            st.stop()


def server_inputs(server: Server) -> None:
    """Three numbers from the reader's dashboard."""
    for place, key in zip(st.columns(len(path_state.SERVER)), path_state.SERVER, strict=True):
        st.session_state[f"path_{key}"] = getattr(server, key)
        low, high = guided_path.LIMITS[key].ends
        place.number_input(
            prose.label("path", key), min_value=low, max_value=high, key=f"path_{key}", format="%g",
            on_change=path_state.put_server_number, args=(key,),
        )  # fmt: skip


def question(step: Step, result: Comparison, guesses: Guesses, server: Server, texts: dict[str, str]) -> None:
    """The question with a form to answer it, or with the model's answer beside the reader's."""
    with st.container(border=True):
        st.markdown(f":material/help: {prose.text('path', f'ask.{step.id}', texts)}")
        if step.id not in guesses:
            ask(step)
            return
        answer = guided_path.answer(step, result, server)
        st.markdown(f":material/lightbulb: {feedback(step, guesses[step.id], answer)}")
        st.button(
            prose.label("path", "again"),
            on_click=path_state.put,
            args=(step, None),
            type="tertiary",
            icon=":material/replay:",
            key="again",
        )


def ask(step: Step) -> None:
    """The form: a number, or a button an option; and the way past it."""
    if step.options:
        for option in step.options:
            label = prose.label("path", f"option.{option}")
            st.button(label, on_click=path_state.put, args=(step, option), key=f"option_{option}")
        skip = prose.label("path", "skip")
        st.button(
            skip,
            on_click=path_state.put,
            args=(step, "skip"),
            type="tertiary",
            icon=":material/visibility:",
            key="skip",
        )
    else:
        least, most = guided_path.GUESS.ends
        with st.form(f"form_{step.id}", border=False):
            st.number_input(
                prose.label("path", f"guess.{step.unit}"), min_value=least, max_value=most, value=None,
                format="%g", key=f"guess_{step.id}", width=GUESS_PX,
            )  # fmt: skip
            with st.container(horizontal=True):
                st.form_submit_button(
                    prose.label("path", "check"), on_click=path_state.put_guess, args=(step,), type="primary"
                )
                skip = prose.label("path", "skip")
                st.form_submit_button(skip, on_click=path_state.put, args=(step, "skip"), key="skip")
    if st.session_state.pop(path_state.EMPTY, False):
        st.info(prose.text("path", "guess_missing"))


def reveal(step: Step, result: Comparison, server: Server, texts: dict[str, str]) -> None:
    """Why it is so, and the chart."""
    st.markdown(prose.text("path", f"learn.{step.id}", texts))
    if step.id == "matter":
        st.markdown(prose.text("path", f"learn.matter.{felt.matter(guided_path.shares_felt(result, server))}"))
    if step.id == "remedy":
        remedies(step, result)
    picture(step, result)
    if step.id in TRACES:
        why.toggle(result, (TRACES[step.id],))


def feedback(step: Step, guess: float | str | None, answer: float | str) -> str:
    """One sentence: the answer beside the guess, with the gap as a factor."""
    if step.options:
        texts = {"answer": prose.label("path", f"option.{answer}")}
        if guess is None:
            return prose.text("path", "skipped", texts)
        texts["guess"] = prose.label("path", f"option.{guess}")
        return prose.text("path", "right" if guess == answer else "wrong", texts)
    if guess is None:
        return prose.text("path", "skipped", {"answer": guide.IN_UNIT[step.unit](float(answer))})
    which, texts = guide.gap_texts(step, float(guess), float(answer))
    return prose.text("path", f"gap.{which}", show.untorn(texts))


def remedies(step: Step, result: Comparison) -> None:
    """Every option, best first."""
    rows = [
        [prose.label("path", f"option.{remedy}"), prose.label("path", f"price.{price}"), requests, risk]
        for remedy, price, risk, requests in guide.remedy_rows(step, result)
    ]
    columns = ("remedy", "price", "held", "risk")
    show.table("path-remedies", [prose.label("path", f"column.{column}") for column in columns], rows)


def picture(step: Step, result: Comparison) -> None:
    """The chart that a step reveals, where it has one."""
    palette = theme.STREAMLIT
    chart_data: tuple[Any, ...] | None = None
    if step.id == "token":
        chart, sizes = "kv-size", curves.kv_by_length(result, controls.COMPARED_MODELS)
        chart_data = (sizes,)
        figure, alt = kv_size.kv_by_length(sizes, palette=palette), kv_size.kv_by_length_alt(sizes)
    elif step.id in CURVES:
        chart, chart_data = "crossover", (curves.cost_by_length(result), CURVES[step.id])
        figure, alt = charts.cost_by_length(*chart_data, palette=palette), charts.cost_by_length_alt(*chart_data)
    elif step.id in VIEWS:
        chart = VIEWS[step.id]
        figure, alt = crossover.draw(chart, result)
    else:
        return
    show.chart(figure, alt=alt, key=f"path-{step.id}", name=chart, case=result.case, chart_data=chart_data)


def move(step: Step, *, answered: bool) -> None:
    """Back and next; next is what to do once the question is answered or skipped."""
    every = guided_path.steps()
    with st.container(horizontal=True):
        if step.number > 1:
            st.button(prose.label("path", "back"), on_click=path_state.go, args=(step.number - 1,), key="back")
        if step.number < len(every):
            following = {"title": name(every[step.number])}
            st.button(
                prose.text("path", "next", following),
                on_click=path_state.go,
                args=(step.number + 1,),
                key="next",
                type="primary" if answered else "secondary",
            )


def ending(result: Comparison) -> None:
    """What the reader can say now, and the pages that go on from here."""
    st.header(prose.label("path", "done"))
    st.markdown(prose.text("path", "done_lead"))
    for page in filter(PAGES.get, AFTER):
        query = addresses.inputs(result.case) if page == "crossover" else None
        show.go_to(page, prose.label("path", f"onward.{page}"), query)
