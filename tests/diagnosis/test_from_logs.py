"""A log in place of a scrape: running lines as one window with the same verdicts, and lines of a start explained."""

import pytest

from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.metrics import running_lines
from kvmodel.texts import diagnosis as texts
from kvmodel.texts import startup_log
from tests.helpers.scrapes import FIELD

START = "INFO 04-28 22:50:00 [core.py:77] Initializing a V1 LLM engine (v0.24.0) with config: max_num_seqs={seats}\n"
LINE = (
    "INFO 04-28 22:{minute:02}:00 [loggers.py:257] Engine 000: Avg prompt throughput: {prompt} tokens/s, Avg "
    "generation throughput: {made} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
    "GPU KV cache usage: {usage}%, Prefix cache hit rate: 0.0%\n"
)


def lines(minutes=10, **values):
    shown = {"prompt": 2000.0, "made": 900.0, "running": 64, "waiting": 30, "usage": 40.0} | values
    return "".join(LINE.format(minute=minute, **shown) for minute in range(minutes))


def test_one_holds_the_pool():
    answer = diagnose((FIELD / "25-running-lines.log").read_text())
    assert (answer["verdict"], answer["seconds"]) == ("head of the line", 3600)
    assert answer["state"]["before"]["usage"] == 0.765
    assert answer["over"] == "running lines of a log, over 3,600 s"
    assert "51 preemptions since the start" in " ".join(answer["notes"])


def test_stuck():
    assert diagnose(lines(made=0.0, prompt=0.0))["verdict"] == "stuck"
    assert diagnose(lines(running=0, made=0.0, prompt=0.0))["verdict"] == "stuck"


def test_what_they_wait_for():
    assert diagnose(lines(usage=97.5))["waits_for"] == "KV"
    assert diagnose(lines(prompt=30000.0, made=10.0, running=20))["waits_for"] == "prefill"
    assert diagnose(lines())["waits_for"] == "a cause not known"


def test_the_seat_limit_is_read_from_the_log():
    assert diagnose(START.format(seats=64) + lines())["waits_for"] == "a seat"
    assert (
        diagnose(START.format(seats=64) + lines(), facts=ServerFacts({"max_num_seqs": 256}))["waits_for"]
        == "a cause not known"
    )


def test_trtllm_s_own_page_is_read():
    answer = diagnose((FIELD / "24-trt-llm-metrics.json").read_text())
    state = answer["state"]
    assert (answer["engine"], state["pool_tokens"], state["running"], state["waiting"]) == (
        "tensorrt-llm",
        463_360,
        1,
        7,
    )
    assert any("/prometheus/metrics" in note for note in answer["notes"])


def test_one_line_of_calm_or_of_a_rush_is_not_the_log_s_word():
    calm, rush = {"running": 1, "waiting": 1, "usage": 3.0}, {"running": 60, "waiting": 400, "usage": 99.5}
    steady = {"running": 48, "waiting": 0, "usage": 55.0}

    def log(ends, inside):
        rows = [lines(1, **(ends if minute in (0, 59) else inside)) for minute in range(60)]
        return "".join(row.replace("22:00:00", f"22:{minute:02}:00") for minute, row in enumerate(rows))

    assert diagnose(log(calm, steady))["verdict"] == "healthy"
    assert diagnose(log({"running": 2, "waiting": 0, "usage": 5.0}, rush))["waits_for"] == "KV"


def test_the_end_of_a_log_counts():
    """An hour of work, then twelve minutes in which nothing comes out."""
    hung = lines(13, prompt=0.0, made=0.0, running=20, waiting=33).replace("22:", "23:")
    answer = diagnose(lines(60) + hung)
    assert answer["verdict"] == "stuck"
    assert answer["seconds"] == 720
    assert any("quarter of an hour" in note for note in answer["notes"])


def test_a_restart_begins_the_window_anew():
    new = lines(4, prompt=0.0, made=0.0, running=0, waiting=5).replace("22:", "23:")
    answer = diagnose(lines(60) + START.format(seats=64).replace("22:", "22:") + new)
    assert (answer["verdict"], answer["state"]["before"]["running"]) == ("stuck", 0)


def test_the_pool_of_the_start_is_the_server_s():
    assert diagnose(BUDGET + lines())["state"]["pool_tokens"] == 268_560


# --- the start ---

BUDGET = """\
(EngineCore pid=1) INFO 09-16 13:51:40 [core.py:77] Initializing a V1 LLM engine (v0.31.0) with config: \
model='Qwen/Qwen3-8B', max_seq_len=2048, max_num_seqs=64
(EngineCore pid=1) INFO 09-16 13:51:51 [kv_cache_utils.py:864] GPU KV cache size: 268,560 tokens
(EngineCore pid=1) INFO 09-16 13:51:51 [kv_cache_utils.py:868] Maximum concurrency for 2,048 tokens per request: 131.13x
"""
NO_MEMORY = """\
(EngineCore_0 pid=1) INFO 08-20 18:04:22 [gpu_worker.py:276] Available KV cache memory: -2.14 GiB
(EngineCore_0 pid=1) ERROR 08-20 18:04:22 [core.py:700] ValueError: No available memory for the cache blocks. Try \
increasing `gpu_memory_utilization` when initializing the engine.
"""
SGLANG = """\
[2026-01-05 10:00:00 TP0] KV Cache is allocated. #tokens: 367404, K size: 22.42 GB, V size: 22.42 GB
[2026-01-05 10:00:01 TP0] max_total_num_tokens=367404, chunked_prefill_size=8192, max_running_requests=2048, \
context_len=131072
"""


@pytest.mark.parametrize(
    ("log", "verdict", "figure"),
    [
        (BUDGET, "a start-up log", "tokens"),
        (NO_MEMORY, "refused to start", "pool_bytes"),
        (SGLANG, "a start-up log", "tokens"),
    ],
)
def test_a_log_of_a_start_is_recognised_and_explained(log, verdict, figure):
    for data in (log, log.encode(), log.encode("utf-16")):
        answer = diagnose(data)
        assert answer["verdict"] == verdict
        assert figure in answer["log"]["figures"]
    text = texts.diagnose(answer)
    assert text.startswith(verdict)
    assert startup_log.explain_log(answer["log"]) in text


def test_a_refused_start_is_answered_with_its_mend():
    answer = diagnose(NO_MEMORY)
    assert "-2.14 GiB" in answer["reason"]
    assert "--gpu-memory-utilization" in answer["advice"][0]["action"]


def test_a_log_of_both_is_diagnosed_and_its_start_explained():
    answer = diagnose(BUDGET + lines())
    assert answer["waits_for"] == "a seat"
    assert answer["log"]["consistent"]
    assert startup_log.explain_log(answer["log"]) in texts.diagnose(answer)
    assert diagnose(lines())["log"] is None


def test_of_a_long_log_the_last_lines_count():
    """1 MiB of a queue that is over, then twenty minutes without one."""
    before = lines(60, waiting=300, usage=99.0)
    long_log = before * (running_lines.LONGEST_TEXT // len(before) + 1) + lines(20, waiting=0, usage=30.0).replace(
        "22:", "23:"
    )
    answer = diagnose(long_log)
    assert answer["state"]["waiting"] == 0
    assert any("what comes last was read" in note for note in answer["notes"])


@pytest.mark.parametrize("text", ["hello\nworld\n", "INFO 04-28 22:50:00 [api.py:1] Started server process [1]\n"])
def test_what_is_no_log_of_an_engine_is_not_called_one(text):
    answer = diagnose(text)
    assert (answer["verdict"], "log" in answer) == ("no samples", False)
