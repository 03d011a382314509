"""Ten short steps from "what is a KV cache" to one's own server: guess first, then see the model's answer."""

import streamlit as st

from explorer import prose, show, to_top
from explorer.frame import frame, places
from explorer.sections import path, path_state
from kvmodel.explain import guided_path
from kvmodel.texts import guide


def page() -> None:
    columns = places()
    answer = columns[0]
    path_state.come_back()
    with answer:
        step, guesses = path_state.current(), path_state.guesses()
        path.progress(step, guesses)
        st.caption(prose.text("path", "where", path.position(step)))
        st.header(path.name(step))
    result = path.result_of(step, columns)
    with answer:
        server = path_state.server()
        numbers = show.untorn(guide.step_texts(step, result, server))
        st.markdown(prose.text("path", f"idea.{step.id}", numbers))
        if step.id == "matter":
            path.server_inputs(server)
        path.question(step, result, guesses, server, numbers)
        if step.id in guesses:
            path.reveal(step, result, server, numbers)
        path.move(step, answered=step.id in guesses)
        if step is guided_path.steps()[-1] and step.id in guesses:
            path.ending(result)
        to_top.begin(step.number)


frame("path", page)
