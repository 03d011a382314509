"""Logs on the Diagnose page: a start is recognised, its refusal told once, and running lines are diagnosed."""

import pytest

from explorer import prose
from tests.diagnosis.test_from_logs import BUDGET, NO_MEMORY, lines
from tests.pages.test_diagnose_page import pasted, texts, verdict


@pytest.mark.parametrize(
    ("log", "badge"),
    [(BUDGET, "A start-up log"), (NO_MEMORY, "Refused to start"), (BUDGET + lines(), "Queueing for a seat")],
)
def test_a_log_is_recognised(log, badge):
    at = pasted(log)
    assert not at.error
    assert verdict(at) == badge
    assert prose.label("diagnose", "start") in [header.value for header in at.header]


def test_a_refusal_is_told_once():
    told = [text for text in texts(pasted(NO_MEMORY)) if "-2.14 GiB" in text]
    assert len(told) == 1, told


def test_a_server_that_stopped_beside_its_running_lines_says_why():
    at = pasted(BUDGET + lines() + NO_MEMORY)
    assert any("-2.14 GiB" in text for text in texts(at))


def test_several_engines_of_one_process_are_answered_by_the_smallest():
    """As on Capacity: a table a page, of the engine that decides."""
    rows = [BUDGET.replace("EngineCore pid=1", f"EngineCore_DP{rank} pid=1") for rank in (0, 1)]
    pools = "".join(
        f"(EngineCore_DP{rank} pid=1) INFO 09-16 13:51:44 [gpu_worker.py:276] Available KV cache memory: {gib} GiB\n"
        for rank, gib in ((0, 36.88), (1, 30.0))
    )
    at = pasted("".join(rows) + pools)
    assert not at.exception
    assert verdict(at) == "A start-up log"
