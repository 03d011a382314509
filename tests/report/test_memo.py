"""The memo for a design review, as Markdown and HTML, and the note that goes with one chart."""

import html.parser
import os
import re
from pathlib import Path

import pytest

from kvmodel import __version__, catalog, charts, files
from kvmodel.charts import pictures
from kvmodel.cli.command_line import main
from kvmodel.errors import CaseError
from kvmodel.inputs import addresses
from kvmodel.inputs.case import Case
from kvmodel.report import markup, memo

LLAMA = Case(tokens=8192, gpu="h100-sxm5-80gb", preemptions=2)


def text_of(blocks: list[memo.Block]) -> str:
    return markup.as_markdown(blocks, lambda name: f"{name}.svg")


def test_the_memo_has_all_its_parts_in_order() -> None:
    headings = [block.text for block in memo.memo(LLAMA) if isinstance(block, memo.Heading)]
    assert headings == [
        "KV recovery of Llama 3 8B on NVIDIA H100 SXM5 80 GB", "Question", "Verdict", "Break-evens", "Charts",
        "Inputs", "Assumptions", "Not modelled",
    ]  # fmt: skip


def test_the_memo_says_what_was_asked_and_what_the_shell_answers(capsys: pytest.CaptureFixture[str]) -> None:
    written = text_of(memo.memo(LLAMA))
    assert "8,192 tokens is preempted 2 times beside 32 running requests" in written
    assert main(["compare", "--tokens", "8192", "--gpu", "h100-sxm5-80gb", "--preemptions", "2"]) == 0
    shell = capsys.readouterr().out
    pair = re.search(r"swap or recompute: (.*)", shell)
    assert pair
    assert f"Swap or recompute: {pair[1]}" in written
    assert f"kvmodel {__version__}" in written
    assert "`python -m kvmodel compare --gpu h100-sxm5-80gb --tokens 8192 --preemptions 2`" in written


def test_every_assumption_has_a_source_of_the_catalog() -> None:
    tables = [block for block in memo.memo(LLAMA) if isinstance(block, memo.Table)]
    titles = {row["title"] for row in catalog.table("sources").values()}
    rows = next(table.rows for table in tables if table.header[-1] == "source")
    assert len(rows) > 10
    assert all(any(row[-1].startswith(title) for title in titles) for row in rows)


def test_the_link_opens_the_same_case() -> None:
    link = next(block for block in memo.memo(LLAMA, "https://kv.example.com/kv") if isinstance(block, memo.Address))
    assert link.address == addresses.page_address("https://kv.example.com/kv", "crossover", LLAMA)


def test_an_engine_without_swap_and_a_batch_that_does_not_fit_are_said() -> None:
    assert "swap or recompute, if this engine had swap" in text_of(memo.memo(Case(policy="vllm-v1"))).lower()
    crowded = text_of(memo.memo(Case(model="llama-2-7b", gpu="a10g")))
    assert "Note: decode\\_batch" in crowded
    assert "nan" not in crowded.lower().replace("finance", "")


def test_a_case_without_a_break_even_says_so() -> None:
    assert "No copy rate makes swap and recompute cost the same." in text_of(memo.memo(Case(survival=1.0)))


@pytest.mark.parametrize("name", charts.NAMES)
def test_a_chart_note_has_picture_sentence_inputs_sources_version_and_link(name: str) -> None:
    written = text_of(memo.chart_note(name, LLAMA, "https://kv.example.com/kv"))
    assert f"](<{name}.svg>)" in written
    for part in ("faster", "tokens 8192", "| source |", f"kvmodel {__version__}", "(<https://kv.example.com/kv/"):
        assert part in written.replace("\\", ""), part


def test_the_html_memo_is_one_file_that_asks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "memo.html"
    assert main(["report", "--tokens", "8192", "-o", str(file)]) == 0
    page = file.read_text()

    class Seen(html.parser.HTMLParser):
        tags: list[tuple[str, dict[str, str | None]]] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.tags.append((tag, dict(attrs)))

    seen = Seen()
    seen.feed(page)
    fetched = [value for _, attributes in seen.tags for key, value in attributes.items() if key in ("src", "srcset")]
    assert not fetched
    assert not [tag for tag, _ in seen.tags if tag in ("link", "iframe", "img", "object")]
    assert page.count('class="plotly-graph-div"') == len(memo.CHARTS)
    assert page.count("plotly.js v") == 1


def test_the_markdown_memo_has_its_charts_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "memo.md"
    assert main(["report", "-o", str(file)]) == 0
    written = file.read_text()
    suffix = ".svg" if pictures.available() else ".html"
    for name in memo.CHARTS:
        assert (tmp_path / f"memo-{name}{suffix}").stat().st_size > 1000
        assert f"](<memo-{name}{suffix}>)" in written


def test_without_a_browser_the_charts_are_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/none")
    assert main(["report", "-o", str(tmp_path / "memo.md")]) == 0
    written = (tmp_path / "memo.md").read_text()
    assert "](<memo-crossover.html>)" in written
    assert "![" not in written


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "-o: None given; allowed: a file name that ends in .md or .html"),
        (["-o", "memo.docx"], "-o: 'memo.docx' given; allowed: a file name that ends in .md or .html"),
        (["-o", "memo.md", "--app-url", "javascript:x"], "app_url: 'javascript:x' given; allowed: an address such as"),
        (["-o", "/none/memo.html"], "-o: '/none/memo.html' cannot be written"),
        (["-o", "memo.md", "--model", "llama-3-70b", "--gpu", "l4"], "model: llama-3-70b needs"),
    ],
)
def test_bad_input_gets_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    os.chdir(tmp_path)
    assert main(["report", *arguments]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_markdown_escapes_what_it_would_act_on() -> None:
    assert markup.escape_markdown("a*b_c [d](e) | f `g_h` #") == r"a\*b\_c \[d\](e) \| f `g_h` \#"


class TestPictures:
    def test_the_shell_draws_the_figure_of_the_pages(self, tmp_path: Path) -> None:
        if not pictures.available():
            pytest.skip("no kaleido, Chrome or Chromium on this machine")
        file = tmp_path / "c.svg"
        assert main(["chart", "parts", "-o", str(file)]) == 0
        drawn = file.read_text()
        assert drawn.startswith("<svg")
        labels = {note.text for note in charts.draw("parts", Case()).layout.annotations}
        assert all(re.sub(r"<[^>]+>", "", label).split("\n")[0][:12] in drawn for label in labels if "<" not in label)
        assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]+"', "", drawn)

    def test_a_missing_browser_is_one_sentence(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("BROWSER_PATH", "/none")
        assert main(["chart", "parts", "-o", str(tmp_path / "c.png")]) == 2
        told = capsys.readouterr().err
        assert "no Chrome or Chromium on PATH or at BROWSER_PATH; the .html and .csv files need neither" in told
        assert not list(tmp_path.iterdir())

    def test_a_browser_that_is_none_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not pictures.available():
            pytest.skip("no kaleido, Chrome or Chromium on this machine")
        fake = tmp_path / "chromium"
        fake.write_text("#!/bin/sh\nexit 1\n")
        fake.chmod(0o755)
        browser = pictures.Browser()
        figure = charts.draw("parts", Case()).to_dict()
        with pytest.raises(pictures.NoPictures, match="the browser gave none"):
            browser.picture(figure, ".svg", str(fake))

    def test_a_browser_closes_when_it_is_not_used(self) -> None:
        if not pictures.available():
            pytest.skip("no kaleido, Chrome or Chromium on this machine")
        browser = pictures.Browser(keep_open_s=0.2)
        figure = charts.draw("parts", Case()).to_dict()
        assert browser.picture(figure, ".svg", pictures.require()).startswith(b"<svg")
        assert browser.is_open
        for _ in range(100):
            if not browser.is_open:
                break
            import time

            time.sleep(0.1)
        assert not browser.is_open

    def test_a_file_holds_bytes_or_what_was_there(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        files.write(str(file), b"\x89PNG")
        assert file.read_bytes() == b"\x89PNG"
        with pytest.raises(CaseError):
            files.write(str(tmp_path / "none" / "f"), b"x")
