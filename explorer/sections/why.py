"""The why-trace on a page: where a result comes from, in symbols, with the numbers put in, and with its unit."""

from __future__ import annotations

import re
from collections.abc import Sequence

import streamlit as st

from explorer import choice, prose, show
from kvmodel.charts import breakdown, theme
from kvmodel.explain import formula, traces
from kvmodel.explain.formula import Line, Term
from kvmodel.recovery.comparison import Comparison

# The text colours of the theme (.streamlit/config.toml), which are those of the strategies' curves and bars.
TEXT_COLOURS = {"wait": "gray", "swap": "blue", "recompute": "orange", "offload": "violet", "both": "green"}
NUMBER = re.compile(r"([\d.,]+) (?=[A-Za-zµ가-힣])")
BY_NAME = theme.Palette(
    **{name: name for name in TEXT_COLOURS}, text="", muted="", grid="", background="", font=None
)  # the parts' looks then name the strategy whose colour they have


def toggle(result: Comparison, names: Sequence[str]) -> None:
    """Behind a toggle, and drawn only while it is on: a tab for each trace (`kvmodel.explain.traces.TRACES`)."""
    if not st.toggle(prose.label("why", "toggle"), key="why", bind="query-params"):
        return
    st.caption(prose.text("why", "how_to_read"))
    if len(names) == 1:
        draw(result, names[0])
        return
    for name, tab in zip(
        names, st.tabs([choice.quiet(prose.label("why", f"trace.{name}")) for name in names]), strict=True
    ):
        with tab:
            draw(result, name)


def draw(result: Comparison, name: str) -> None:
    """One trace, line by line."""
    lines = traces.TRACES[name](result)
    st.markdown("\n\n".join(map(in_markdown, lines)) or prose.text("why", f"none.{name}"))


def in_markdown(line: Line) -> str:
    """What it is and where it is computed; symbols; numbers put in and the result."""
    where = prose.escaped(f"kvmodel.{line.computed_in}")
    title = f"**{prose.label('why', f'line.{line.name}')}** :small[:gray[{where}]]"
    symbols = f"${line.symbol} =$ {joined(line, [coloured(term, f'${formula.symbols(term)}$') for term in line.terms])}"
    numbers = joined(line, [coloured(term, unbroken(formula.numbers(term))) for term in line.terms])
    result = unbroken(formula.result(line))
    return f"{title}\\\n{symbols}\\\n= {numbers} = {f'**{result}**' if line.headline else result}"


def unbroken(words: str) -> str:
    """As plain text, in which no number is torn from its unit."""
    return prose.escaped(NUMBER.sub(show.UNTORN, words))


def joined(line: Line, terms: Sequence[str]) -> str:
    """The terms as a sum, or as the root of the sum of their squares."""
    if line.join == "root":
        return f"√({' + '.join(f'({term})²' for term in terms)})"
    return " + ".join(terms)


def coloured(term: Term, words: str) -> str:
    """Text in the colour of the part's bar; as it is where no bar shows the part."""
    look = breakdown.looks(BY_NAME).get(term.part)
    return f":{TEXT_COLOURS[look.color]}[{words}]" if look and look.color else words
