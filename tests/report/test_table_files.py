"""Tables as CSV and Markdown: read back they say what was shown, and no visitor's cell is worked out."""

import csv
import io
import re

import pytest

from kvmodel.report import table_files


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def read_markdown(text: str) -> list[list[str]]:
    """Header and rows of a table of GitHub's Markdown, markup as it stands."""
    lines = [re.findall(r" ((?:\\.|[^|\\])*?) (?=\|)", line) for line in text.splitlines()]
    assert set(lines.pop(1)) == {"---"}
    return [[cell.replace(r"\|", "|") for cell in line] for line in lines]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("270\u00a0ms", "270 ms"),
        ("**swap**,\u00a02.0x", "swap, 2.0x"),
        (r"`--preemption-mode`, `vllm:num_preemptions_total`", "--preemption-mode, vllm:num_preemptions_total"),
        (r"[perf\_model.csv](https://example.org/a_b)", "perf_model.csv (https://example.org/a_b)"),
        (r"last arrived ([0.2.7](https://example.org))", "last arrived (0.2.7 (https://example.org))"),
        (":gray[not known]", "not known"),
        (r"\:gray\[x\] \*a\* http\:\/\/b", ":gray[x] *a* http://b"),
        ("2 * 3 and 4 * 5 [x] a_b_c", "2 * 3 and 4 * 5 [x] a_b_c"),
    ],
)
def test_a_cell_is_read_as_a_reader_sees_it(cell: str, text: str) -> None:
    assert table_files.plain_text(cell) == text


def test_csv_is_as_rfc_4180_has_it() -> None:
    written = table_files.as_csv(["a", "b"], [['x, "y"', "two\nlines"], ["", "+0.1\u00a0%"]])
    assert written == 'a,b\r\n"x, ""y""","two\nlines"\r\n,+0.1 %\r\n'
    assert read_csv(written) == [["a", "b"], ['x, "y"', "two\nlines"], ["", "+0.1 %"]]


@pytest.mark.parametrize("text", ["=1+2", "+cmd", "-2+3", "@SUM(A1)", "\t=1", r"\=1+2"])
def test_what_a_visitor_gave_is_no_formula(text: str) -> None:
    shown = table_files.plain_text(text)
    assert read_csv(table_files.as_csv(["a"], [[text]], foreign=True))[1] == [f"'{shown}"]
    assert read_csv(table_files.as_csv(["a"], [[text]]))[1] == [shown], "of the model's own cells none is changed"


def test_a_file_s_cells_are_the_model_s_own_unless_they_are_said_to_be_foreign() -> None:
    rows = [["=1+2"]]
    assert read_csv(table_files.content(".csv", ["a"], rows))[1] == ["=1+2"]
    assert read_csv(table_files.content(".csv", ["a"], rows, foreign=True))[1] == ["'=1+2"]


@pytest.mark.parametrize("text", ["-5", "+1.5e3", "a=b", "", "'=1"])
def test_a_number_or_a_word_of_a_visitor_stays_as_it_is(text: str) -> None:
    assert read_csv(table_files.as_csv(["a", "b"], [[text, "x"]], foreign=True))[1] == [text, "x"]


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("a|b", r"a\|b"), (r"a\|b", r"a\|b"), (r"a\\|b", r"a\\\|b"), ("`x|y`", r"`x\|y`"), ("two\nlines", "two lines"),
        ("270\u00a0ms", "270 ms"), (":gray[not known]", "not known"), ("[a](https://b)", "[a](https://b)"),
    ],
)  # fmt: skip
def test_a_cell_of_markdown_stays_one_cell(cell: str, written: str) -> None:
    table = table_files.as_markdown(["a", "b"], [[cell, "x"]])
    assert table.splitlines() == ["| a | b |", "| --- | --- |", f"| {written} | x |"]
    assert len(read_markdown(table)[1]) == 2


def test_a_table_of_a_page_keeps_its_colours_and_numbers_whole() -> None:
    shown = table_files.on_a_page(["a", "b|c"], [[":gray[x]", "270\u00a0ms"], ["two\nlines", "–"]])
    assert shown == "| a | b\\|c |\n| --- | ---: |\n| :gray[x] | 270\u00a0ms |\n| two lines | – |"


@pytest.mark.parametrize(
    "cells",
    [
        ["512", "1K", "-3"], ["64.0\u00a0MiB", "1.00\u00a0GiB"], ["5.4\u00a0ms / 11\u00a0ms"],
        ["240\u00a0ms\u00a0–\u2060\u00a0300\u00a0ms", "–"],
        ["4,096 tokens", "2.97 requests/s", ""], ["**2.0x**"], ["+0.1\u00a0%"], ["4,096토큰"],
    ],
)  # fmt: skip
def test_columns_of_numbers(cells: list[str]) -> None:
    assert table_files.holds_numbers(list(map(table_files.plain_text, cells)))


@pytest.mark.parametrize(
    "cells", [["0.11.0", "0.18.0"], ["–", ""], [], ["5 ms", "as it is"], ["3 of the 4 layers"], ["v1"]]
)
def test_columns_of_words(cells: list[str]) -> None:
    assert not table_files.holds_numbers(cells)
