"""Where swap and recompute cost the same: against length, block size, copy rate and number of preemptions."""

import streamlit as st

from explorer import controls, prose, show
from explorer.frame import frame, places
from explorer.sections import crossover, live, verdict, why
from kvmodel.charts import crossover as charts
from kvmodel.charts import theme
from kvmodel.recovery import parts
from kvmodel.texts.comparison import comparison_texts, figure19_texts


def page() -> None:
    answer, side, rest = places()
    with answer:
        crossover.presets()
    result = controls.comparison(answer, side, rest)
    numbers = comparison_texts(result) | figure19_texts(crossover.paper())
    with answer:
        view = crossover.view()
        if view == "length":
            live.crossover_of(result)
        else:
            verdict.headline(result)
            figure, alt = crossover.draw(view, result)
            show.chart(figure, alt=alt, key=f"crossover-{view}", name=crossover.chart_name(view))
            st.caption(prose.text("crossover", f"view.{view}", numbers))
        st.markdown(
            f"{prose.text('crossover', 'why_swap', numbers)} {prose.text('crossover', 'why_recompute', numbers)}"
        )
    with rest:
        st.header(prose.label("crossover", "even"))
        show.bullets(crossover.break_evens(result, numbers))
        st.header(prose.label("crossover", "parts"))
        pieces = parts.parts(result.inputs)
        with_blocks = st.toggle(prose.label("crossover", "parts_blocks"), key="parts_blocks", bind="query-params")
        show.chart(
            charts.stacked_parts(pieces, with_wait=with_blocks, palette=theme.STREAMLIT),
            alt=charts.stacked_parts_alt(pieces, with_wait=with_blocks),
            key="parts",
        )
        st.caption(prose.text("crossover", "parts_note", numbers))
        verdict.prices(result)
        why.toggle(result, ("swap", "recompute", "even_rate", "wait_for_blocks", "kv"))
        verdict.sources(result)


frame("crossover", page)
