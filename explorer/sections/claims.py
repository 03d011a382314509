"""Cards of the Claims page, their filters and charts, and the tables of releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import streamlit as st

from explorer import choice, language, prose, show
from explorer.sections import crossover, scenarios
from kvmodel import catalog
from kvmodel.catalog import releases
from kvmodel.catalog.releases import Entry, Fact
from kvmodel.charts import BESIDE, home, kv_size, roofline, theme
from kvmodel.claims import ledger
from kvmodel.claims.ledger import Claim
from kvmodel.claims.numbers import texts
from kvmodel.curves import curves, roofline_points
from kvmodel.recovery import parts
from kvmodel.recovery.comparison import compare_case
from kvmodel.units import NONE
from kvmodel.words import say

COLOURS = {"holds": "green", "holds if": "blue", "differs": "red", "dated": "violet", "rule of thumb": "orange"}
Card = tuple[Claim, dict[str, str]]


def cards() -> tuple[Card, ...]:
    """Every claim with its numbers as text."""
    return cards_in(language.current())


@st.cache_resource(show_spinner=False)
def cards_in(language_code: str) -> tuple[Card, ...]:
    """The numbers depend on nothing else that a reader chooses, so they are computed once a language."""
    return tuple((entry, texts(entry.numbers, entry.digits)) for entry in ledger.ledger())


def lead() -> str:
    """How many claims there are, and how many of each verdict."""
    counts = Counter(entry.verdict for entry, _ in cards())
    each = [
        prose.text("claims", "count", {"count": str(counts[verdict]), "verdict": f"**{verdict_label(verdict)}**"})
        for verdict in ledger.VERDICTS
    ]
    return prose.text("claims", "lead", {"total": str(len(cards())), "counts": ", ".join(each)})


def verdict_label(verdict: str) -> str:
    return prose.label("claims", f"verdict.{verdict}")


def speaker_label(by: str) -> str:
    return prose.label("claims", f"speaker.{by}")


def filters() -> tuple[list[Card], bool]:
    """The filters; gives the cards they leave, and whether one was asked for by its id."""
    verdict, by, one = st.columns([2.2, 1.2, 0.8], vertical_alignment="bottom")
    with verdict:
        verdicts = filter_values("verdict", ledger.VERDICTS, verdict_label)
    with by:
        speakers = filter_values("by", ledger.SPEAKERS, speaker_label)
    with one:
        claim_id = st.selectbox(
            prose.label("claims", "filter.claim"),
            ledger.claim_ids(),
            index=None,
            placeholder=prose.label("claims", "filter.all"),
            key="claim",
            bind="query-params",
        )
    if claim_id:
        return [card for card in cards() if card[0].id == claim_id], True
    return [card for card in cards() if card[0].verdict in verdicts and card[0].by in speakers], False


def filter_values(name: str, options: Sequence[str], label: Any) -> list[str]:
    """Options chosen in a filter, all of them where none is; in the URL by id, whatever the page's language.

    (Streamlit's own binding would write the labels.)
    """
    if name not in st.session_state:
        st.session_state[name] = [option for option in st.query_params.get_all(name) if option in options]
    selection = st.pills(
        prose.label("claims", f"filter.{name}"),
        options,
        selection_mode="multi",
        format_func=lambda option: choice.quiet(label(option)),
        key=name,
        wrap=True,
    )
    if selection:
        st.query_params[name] = selection
    else:
        st.query_params.pop(name, None)
    return list(selection or options)


def show_card(card: Card, *, opened: bool) -> None:
    """One claim: what is said and the verdict, our number and the condition, a link, and on demand a chart."""
    entry, numbers = card
    with st.container(border=True):
        claim_place, answer_place = st.columns([1, 1.7], gap="medium")
        claim_place.markdown(claim_text(entry))
        with answer_place:
            st.markdown(answer_text(entry, numbers))
            with st.container(horizontal=True, vertical_alignment="center"):
                show.go_to(
                    entry.page,
                    prose.text("claims", "open", {"page": prose.label("nav", entry.page)}),
                    dict(entry.query),
                )
                with_chart = entry.chart is not None and (
                    opened or st.toggle(prose.label("claims", "chart"), key=f"chart-{entry.id}")
                )
            st.markdown(f":small[{sources_text(entry)}]")
        if with_chart:
            figure, alt = chart(entry)
            show.chart(
                figure, alt=alt, key=f"claim-{entry.id}", name=crossover.chart_name(str(entry.chart)), case=entry.case
            )


def claim_text(entry: Claim) -> str:
    """Id, verdict, who says it, and what."""
    badge = f":{COLOURS[entry.verdict]}-badge[{verdict_label(entry.verdict)}]"
    by = prose.text("claims", "said", {"by": speaker_label(entry.by)})
    return f"{badge} :small[:gray[{entry.id}, {by}]]\n\n**{prose.escaped(say(entry.says))}**"


def answer_text(entry: Claim, numbers: dict[str, str]) -> str:
    """Our number and the condition, each under its heading."""
    ours, condition = (with_bold_numbers(say(text), numbers) for text in (entry.ours, entry.condition))
    ours_heading, condition_heading = (
        f":small[:gray[{prose.label('claims', name)}]]" for name in ("ours", "condition")
    )
    return f"{ours_heading}\\\n{ours}\n\n{condition_heading}\\\n{condition}"


def with_bold_numbers(text: str, numbers: dict[str, str]) -> str:
    """A claim's text as Markdown, every computed number in bold and not torn from its unit."""
    pieces = ledger.PLACEHOLDER.split(text)
    pieces[::2] = map(prose.escaped, pieces[::2])
    pieces[1::2] = [f"**{prose.escaped(show.together(say(numbers[name])))}**" for name in pieces[1::2]]
    return "".join(pieces)


def sources_text(entry: Claim) -> str:
    citations = []
    for each in entry.sources:
        title, url = prose.escaped(ledger.source_text(each)), catalog.source(each.source).get("url")
        citations.append(f"[{title}]({url})" if url else title)
    return f"{prose.label('claims', 'sources')}: {'; '.join(citations)}"


def chart(entry: Claim) -> tuple[Any, str]:
    """The chart of the point in question, for the claim's Case, and its alternative text."""
    palette, result = theme.STREAMLIT, compare_case(entry.case)
    if entry.chart == "kv-size":
        sizes = curves.kv_by_length(result, BESIDE)
        return kv_size.kv_by_length(sizes, palette=palette), kv_size.kv_by_length_alt(sizes)
    if entry.chart == "roofline":
        line = roofline_points.roofline_of(result)
        return roofline.roofline(line, palette=palette), roofline.roofline_alt(line)
    if entry.chart == "step-time":
        step = roofline_points.step_curve(result)
        return roofline.step_time(step, palette=palette), roofline.step_time_alt(step)
    if entry.chart == "timeline":
        pieces = parts.parts(result.inputs)
        return home.timeline(pieces, palette=palette), home.timeline_alt(pieces)
    if entry.chart == "scenarios":
        return scenarios.overview()
    return crossover.draw(str(entry.chart), result)


def show_releases() -> None:
    """Where the KV goes in each engine, flags and defaults, metrics."""
    st.header(prose.label("claims", "releases"))
    st.markdown(prose.text("claims", "releases_lead"))
    names = ("place", *releases.KINDS)
    for name, tab in zip(
        names, st.tabs([choice.quiet(prose.label("claims", f"tab.{name}")) for name in names]), strict=True
    ):
        with tab:
            if name == "place":
                columns: tuple[str, ...] = ("engine", "victim", "goes", "resume")
                rows = [[say(row.label), *map(_fact, (row.victim, row.goes, row.resume))] for row in releases.places()]
            else:
                columns = ("engine", "name", "from", "gone", "default", "note", "source")
                rows = [_cells(entry) for entry in releases.entries() if entry.kind == name]
                if name == "metric":
                    columns, rows = columns[:4] + columns[5:], [row[:4] + row[5:] for row in rows]
            show.table(f"releases-{name}", [prose.label("claims", f"column.{column}") for column in columns], rows)


def _fact(fact: Fact) -> str:
    return (
        f"{prose.escaped(say(fact.text))} ([{prose.escaped(say(fact.version))}]({catalog.source(fact.source)['url']}))"
    )


def _cells(entry: Entry) -> list[str]:
    first_seen = prose.text("claims", "seen", {"version": entry.seen}) if entry.seen else NONE
    cells = [entry.since or first_seen, entry.gone, *(text and say(text) for text in (entry.default, entry.note))]
    return [entry.engine, f"`{entry.name}`", *(prose.escaped(cell or NONE) for cell in cells), _source(entry.source)]


def _source(source_id: str) -> str:
    source = catalog.source(source_id)
    return f"[{prose.escaped(source['title'])}]({source['url']})"
