"""A memo's blocks as Markdown or as one HTML page that works offline."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence

from kvmodel import charts
from kvmodel.charts import pictures
from kvmodel.inputs.case import Case
from kvmodel.report import table_files
from kvmodel.report.memo import Address, Block, Bullets, Chart, Heading, Table, Text

MARKUP = re.compile(r"[\\*_\[\]<>|#]")
CODE = re.compile(r"(`[^`]*`)")
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1e2329}"
    "table{border-collapse:collapse;font-size:.875rem}td,th{border-bottom:1px solid #dcdcd4;padding:.2rem .6rem;"
    "text-align:left;vertical-align:top}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:1.6rem}"
)


def as_markdown(blocks: Sequence[Block], chart_at: Callable[[str], str]) -> str:
    """Markdown; `chart_at` says where the file of a chart is: a picture is shown, anything else is linked."""

    def block_text(block: Block) -> str:
        match block:
            case Heading():
                return f"{'#' * block.level} {escape_markdown(block.text)}"
            case Bullets():
                return "\n".join(f"- {escape_markdown(line)}" for line in block.lines)
            case Table():
                rows = [list(map(escape_markdown, row)) for row in block.rows]
                return table_files.as_markdown(list(map(escape_markdown, block.header)), rows)
            case Chart():
                place = chart_at(block.name)
                mark = "!" if place.split("?")[0].lower().endswith(pictures.SUFFIXES) else ""
                return f"{mark}[{escape_markdown(block.words)}](<{place}>)"
            case Address():
                return f"[{escape_markdown(block.words)}](<{block.address}>)"
            case Text():
                return escape_markdown(block.text)

    return "\n\n".join(map(block_text, blocks)) + "\n"


def escape_markdown(words: str) -> str:
    """Text in which Markdown acts on nothing but code in backquotes."""
    pieces = CODE.split(words)
    return "".join(piece if index % 2 else MARKUP.sub(r"\\\g<0>", piece) for index, piece in enumerate(pieces))


def as_html(blocks: Sequence[Block], case: Case) -> str:
    """One page with its charts in it, and plotly.js once."""
    with_script = True

    def block_text(block: Block) -> str:
        nonlocal with_script
        match block:
            case Heading():
                return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
            case Bullets():
                return f"<ul>{''.join(f'<li>{html_text(line)}</li>' for line in block.lines)}</ul>"
            case Table():
                head = "".join(f"<th>{html.escape(cell)}</th>" for cell in block.header)
                rows = "".join(
                    f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>" for row in block.rows
                )
                return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            case Chart():
                figure = charts.draw(block.name, case)
                chart_html = figure.to_html(full_html=False, include_plotlyjs=with_script, div_id=f"chart-{block.name}")
                with_script = False
                return f"<figure>{chart_html}<figcaption>{html.escape(block.words)}</figcaption></figure>"
            case Address():
                return f'<p><a href="{html.escape(block.address)}">{html.escape(block.words)}</a></p>'
            case Text():
                return f"<p>{html_text(block.text)}</p>"

    title = next(html.escape(block.text) for block in blocks if isinstance(block, Heading))
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = "\n".join(map(block_text, blocks))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def html_text(words: str) -> str:
    """HTML text with what stands in backquotes as code."""
    return CODE.sub(lambda match: f"<code>{match.group(1)[1:-1]}</code>", html.escape(words))
