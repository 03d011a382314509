"""How big the KV cache is, why, and what it takes to move it."""

import streamlit as st

from explorer import choice, controls, prose, show
from explorer.frame import frame, places
from explorer.sections import as_kept, own_model, why
from kvmodel.charts import kv_size, theme
from kvmodel.curves import curves, kv_table
from kvmodel.texts import tables
from kvmodel.texts.comparison import case_texts, has_fixed_part, kv_texts


def page() -> None:
    answer, side, rest = places()
    with answer:
        own_model.section()
    result = controls.comparison(answer, side, rest)
    numbers = case_texts(result) | kv_texts(result)
    with answer:
        own_model.from_address(result.case)
        st.markdown(prose.text("kv_size", "lead", numbers))
        if result.case.tp > 1:
            st.markdown(prose.text("kv_size", "split", numbers))
        if has_fixed_part(result):
            st.markdown(prose.text("kv_size", "fixed", numbers))
        as_kept.others(result.case)
        st.header(prose.label("kv_size", "formula"))
        why.draw(result, "kv")
        st.caption(prose.text("kv_size", "letters"))
        st.header(prose.label("kv_size", "chart"))
        others = controls.compared_models()
        sizes = curves.kv_by_length(result, others)
        figure, alt = kv_size.kv_by_length(sizes, palette=theme.STREAMLIT), kv_size.kv_by_length_alt(sizes)
        show.chart(figure, alt=alt, key="kv-size", chart_data=(sizes,))
    with rest:
        st.header(prose.label("kv_size", "table"))
        table = kv_table.kv_table(result.case, tables.link_columns(result.case))
        header = [prose.label("kv_size", "tokens"), prose.label("kv_size", "size"), *tables.kv_link_labels(table)]
        measured_tab, link_tab, article_tab = st.tabs(
            [choice.quiet(prose.label("kv_size", f"tab_{tab}")) for tab in ("measured", "link", "article")]
        )
        with measured_tab:
            show.table("kv-measured", header, tables.kv_rows(table, measured=True))
            st.caption(prose.text("kv_size", "table_note"))
        with link_tab:
            show.table("kv-link", header, tables.kv_rows(table, measured=False))
            st.caption(prose.text("kv_size", "table_note"))
        with article_tab:
            st.markdown(prose.text("kv_size", "article_note"))
            article_header = [prose.text("kv_size", *cell) for cell in tables.article_header()]
            show.table("kv-article", article_header, tables.article_rows())
            st.markdown(prose.text("kv_size", "article_round", tables.article_round_trip()))


frame("kv_size", page)
