"""Running lines of a log, pasted in place of a scrape: one window, the same verdicts."""

from kvmodel.diagnosis.from_scrapes import ServerFacts, diagnose
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
