"""A table as the content of a CSV or a Markdown file; its cells are Markdown, as a page or a memo shows them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from kvmodel.units import NONE

SUFFIXES = (".csv", ".md")
FORMULA_STARTS = tuple("=+-@\t\r")  # of what a spreadsheet works out in place of showing it
UNSEEN = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{WORD JOINER}": None})
LEFT, RIGHT = "---", "---:"
SPACES = re.compile(
    r"[ \t\r\n\f\v\x1c-\x1e\x85\u2028\u2029]+"
)  # all but those that hold a number and its unit together
ONE_NUMBER = r"[-+\N{MINUS SIGN}]?\d[\d,]*(\.\d+)?[^\s\d.]{0,3}( [^\s\d]{1,10})?"
NUMBERS = re.compile(rf"{ONE_NUMBER}( [–/] {ONE_NUMBER})*")
COLOURED = re.compile(r"(?<!\\):[\w-]+\[((?:\\.|[^\]\\])*)\]")
BARE_PIPE = re.compile(r"(\\.)|\|")
MARKUP = re.compile(
    r"\\(?P<escaped>[^\w\s]|_)|`(?P<code>[^`]*)`|\*\*|\[(?P<words>(?:\\.|[^\]\\])*)\]\((?P<address>[^)\s]*)\)"
)
Rows = Iterable[Sequence[str]]


def content(suffix: str, header: Sequence[str], rows: Rows, *, foreign: bool = False) -> str:
    """The file of kind `suffix` (of SUFFIXES); `foreign` where cells hold what a visitor gave."""
    return as_csv(header, rows, foreign=foreign) if suffix == ".csv" else as_markdown(header, rows)


def as_csv(header: Sequence[str], rows: Rows, *, foreign: bool = False) -> str:
    """RFC 4180, cells as they are read: no markup, ordinary spaces; no `foreign` cell is a formula."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(map(plain_text, header))
    for cells in rows:
        texts = map(plain_text, cells)
        writer.writerow(map(without_formula, texts) if foreign else texts)
    return file.getvalue()


def as_markdown(header: Sequence[str], rows: Rows) -> str:
    """A table for a file, without what only a page can show."""
    return lines(without_colours(header), [LEFT] * len(header), map(without_colours, rows))


def without_colours(cells: Sequence[str]) -> list[str]:
    return [COLOURED.sub(r"\1", cell.translate(UNSEEN)) for cell in cells]


def on_a_page(header: Sequence[str], rows: Rows) -> str:
    """A table for a page: columns of numbers to the right."""
    rows = list(rows)
    columns = zip(*(map(plain_text, cells) for cells in rows), strict=True) if rows else ((),) * len(header)
    return lines(header, [RIGHT if holds_numbers(column) else LEFT for column in columns], rows)


def holds_numbers(cells: Sequence[str]) -> bool:
    """Whether all that is in a column are numbers, with their units."""
    present = [cell for cell in cells if cell not in ("", NONE)]
    return bool(present) and all(map(NUMBERS.fullmatch, present))


def lines(header: Sequence[str], rules: Sequence[str], rows: Rows) -> str:
    """A table of GitHub's Markdown, a line a row, without a line's end after the last."""
    return "\n".join(f"| {' | '.join(map(one_cell, cells))} |" for cells in (header, rules, *rows))


def one_cell(cell: str) -> str:
    """A cell that no pipe or line break ends."""
    words = " ".join(SPACES.split(cell.strip(" \t\r\n")))
    return BARE_PIPE.sub(lambda found: found[1] or r"\|", words)


def plain_text(cell: str) -> str:
    """What a reader sees of a cell, with the address of a link after its words.

    >>> plain_text(r"**swap**, [a\\_b](https://example.org), `--flag`")
    'swap, a_b (https://example.org), --flag'
    """

    def seen(found: re.Match[str]) -> str:
        if found["words"] is not None:
            return f"{plain_text(found['words'])} ({found['address']})"
        return found["escaped"] or found["code"] or ""

    return MARKUP.sub(seen, COLOURED.sub(r"\1", cell.translate(UNSEEN)))


def without_formula(text: str) -> str:
    """Text that a spreadsheet shows as it is: an apostrophe stands before what would be worked out."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not is_number(text) else text


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
