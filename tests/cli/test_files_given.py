"""Files of the command line that cannot be read or written, whatever their name: one short sentence, status 2."""

import re

import pytest

from kvmodel.cli.command_line import main


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["diagnose"], "SCRAPE"), (["rules"], "SCRAPE"), (["dashboard"], "SCRAPE"), (["explain-log"], "file"),
        (["size", "--config"], "config"), (["simulate"], "file"), (["size", "--rows"], "--rows"),
        (["pressure", "--trace"], "trace"), (["evidence"], "file"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("path", "reason"),
    [("", "no file is named"), ("x" * 5000, "File name too long"), (".", "Is a directory"), ("a\0b", "")],
)
def test_a_file_that_cannot_be_read_is_one_short_sentence(capsys, command, what, path, reason):
    assert main([*command, path]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert re.fullmatch(rf"{what}: '.{{0,220}}' (cannot be read: |given; ).*{reason}\n", written.err)


@pytest.mark.parametrize("command", [["diagnose", "-"], ["rules", "-"]])
def test_closed_standard_input_is_one_sentence(capsys, monkeypatch, command):
    monkeypatch.setattr("sys.stdin", None)
    assert main(command) == 2
    assert capsys.readouterr().err == "SCRAPE: '-' cannot be read: standard input is closed\n"


@pytest.mark.parametrize("command", [["chart", "crossover"], ["report"]])
def test_a_file_that_cannot_be_written_is_one_short_sentence(capsys, command):
    assert main([*command, "-o", "x" * 5000 + ".html"]) == 2
    assert re.fullmatch(r"-o: 'x{200}\.\.\.' cannot be written: File name too long\n", capsys.readouterr().err)
