"""What docs/model.md says is left out holds, and what the check would miss is told."""

import pytest

from docs import left_out

DOCUMENT = left_out.DOCUMENT.read_text(encoding="utf-8")


def test_what_is_said_to_be_left_out_is():
    """If this fails: python docs/left_out.py, then change the text or the code."""
    assert list(left_out.faults(DOCUMENT)) == []


def test_every_row_and_bullet_is_found():
    found = left_out.items(DOCUMENT)
    tables = DOCUMENT[DOCUMENT.index(left_out.SECTIONS[0]) : DOCUMENT.index("## Assumptions")].split("\n")
    rows = [
        line
        for line in tables
        if line.startswith(("| ", "- **")) and line.split(" | ")[0] not in ("| what", "| left out")
    ]
    assert len(found) == len(rows) == len(left_out.CHECKS) + len(left_out.NOT_BY_MACHINE)


@pytest.mark.parametrize(
    ("said", "instead", "fault"),
    [
        ("1.9 to 3.3 times as long", "2 to 4 times as long", "Your host: check 1 does not hold"),
        ("against .70", "against .80", "attention of short prefills: check 1 does not hold"),
        ("0.7 % at 32K tokens", "7 % at 32K tokens", "KV reads of later chunks: check 1 does not hold"),
        ("2,177 of the 2,547", "2,190 of the 2,532", "tensor parallel on PCIe: check 1 does not hold"),
        ("(`--pp`)", "(`--stages`)", "pipeline parallel, several nodes, disaggregated prefill: check 1 does not hold"),
        ("| MoE efficiency |", "| Cooking |", "Cooking: neither checked nor named as what a machine cannot check"),
        ("| loads |", "| loads of sand |", "loads: not in model.md"),
    ],
)
def test_a_false_statement_is_told(said, instead, fault):
    assert DOCUMENT.count(said) == 1
    assert fault in list(left_out.faults(DOCUMENT.replace(said, instead)))
