"""Running lines of a log as two scrapes: every engine's forms, times, counters from rates, preemptions."""

import random
import time

import pytest

from kvmodel.errors import CaseError
from kvmodel.metrics import running_lines
from kvmodel.metrics.server_window import between
from kvmodel.units import MIB

V1 = (
    "(APIServer pid=1) INFO {when} [loggers.py:257] Engine {engine:03d}: Avg prompt throughput: {prompt} tokens/s, "
    "Avg generation throughput: {output} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
    "{more}GPU KV cache usage: {usage}%, Prefix cache hit rate: 92.0%"
)
V0 = (
    "INFO {when} metrics.py:351] Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {output} "
    "tokens/s, Running: 5 reqs, Swapped: 2 reqs, Pending: 3 reqs, GPU KV cache usage: 87.0%, CPU KV cache usage: 10.0%."
)
PREEMPTED = (
    "WARNING 08-20 10:18:39 scheduler.py:1141] Sequence group 147 is preempted by PreemptionMode.RECOMPUTE mode "
    "because there is not enough KV cache space. total_num_cumulative_preemption={count}"
)
DECODE = (
    "[{when}] Decode batch. #running-req: {running}, #token: 14410, token usage: 0.90, cuda graph: True, "
    "gen throughput (token/s): {output}, #queue-req: {waiting}"
)
PREFILL = (
    "[{when}] Prefill batch. #new-seq: 1, #new-token: 512, #cached-token: 256, token usage: 0.10, #running-req: 3, "
    "#queue-req: 0"
)
RETRACTED = "[{when}] KV cache pool is full. Retract requests. #retracted_reqs: {count}, #new_token_ratio: 0.7 -> 0.9"
STEP = (
    "[TRT-LLM] [I] iter = {step}, global_rank = {rank}, rank = {rank}, currank_total_requests = 7/8, "
    "host_step_time = 20.5ms, prev_device_step_time = 20.1ms, timestamp = {when}, num_scheduled_requests: {running}, "
    "states = {{'num_ctx_requests': 1, 'num_ctx_tokens': 100, 'num_generation_tokens': 7}}"
)


def v1(when: str, **given: object) -> str:
    line = {"engine": 0, "prompt": 0.0, "output": 5.4, "running": 1, "waiting": 14, "usage": 76.5, "more": ""} | given
    return V1.format(when=when, **line)


def test_two_lines_of_vllm_are_two_scrapes():
    text = "\n".join([v1("04-28 22:54:32"), v1("04-28 23:54:32", usage="80.0"), PREEMPTED.format(count=51)])
    before, after, seconds = running_lines.read(text)
    assert (before.product, seconds) == ("vllm", 3600)
    (first,), (last,) = before.engines, after.engines
    assert first.labels == {"engine": "0"}
    assert first.gauges == {"running": 1, "waiting": 14, "usage": 0.765, "hit_rate": 0.92}
    assert last.gauges["usage"] == 0.8
    assert first.counters["generation_tokens"] == 0
    assert last.counters["generation_tokens"] == pytest.approx(5.4 * 3600)
    assert (first.counters["preemptions"], last.counters["preemptions"]) == (50, 51)
    assert "51 preemptions" in after.notes[0]
    whole, _ = between(before, after, seconds)
    assert whole.increase.counters["generation_tokens"] == pytest.approx(19_440)


def test_rates_hold_from_the_line_before():
    text = "\n".join(
        [v1("04-28 22:54:32", prompt=999.0), v1("04-28 22:54:42", prompt=10.0), v1("04-28 22:55:02", prompt=100.0)]
    )
    _, after, seconds = running_lines.read(text)
    assert seconds == 30
    assert after.engines[0].counters["prompt_tokens"] == pytest.approx(10 * 10 + 100 * 20)


def test_engines_of_one_process_are_told_apart():
    text = "\n".join(
        v1(f"04-28 22:54:{second}", engine=engine, running=10 * engine) for second in (32, 42) for engine in (0, 1, 7)
    )
    _, after, _ = running_lines.read(text)
    assert [(engine.labels["engine"], engine.gauges["running"]) for engine in after.engines] == [
        ("0", 0), ("1", 10), ("7", 70),
    ]  # fmt: skip


def test_newer_words_of_vllm():
    more = "Deferred: 3 reqs, Preemptions: 4, "
    text = "\n".join([v1("04-28 22:54:32", more=more), v1("04-28 22:54:42", more=more), v1("04-28 22:54:52")])
    text += ", External prefix cache hit rate: 61.7%"
    before, after, _ = running_lines.read(text)
    assert before.engines[0].gauges["deferred"] == 3
    assert after.engines[0].counters["preemptions"] == 4, "the first line's are before the window"
    assert after.engines[0].gauges["external_hit_rate"] == pytest.approx(0.617)
    assert after.engines[0].gauges["hit_rate"] == 0.92
    waiting = v1("04-28 22:54:32").replace("Waiting: 14 reqs", "Waiting: 14 reqs (deferred: 5)")
    assert running_lines.read(waiting)[0].engines[0].gauges["deferred"] == 5


def test_v0_past_new_year():
    text = "\n".join(
        [
            V0.format(when="12-31 23:59:55", prompt=1.0, output=30.0),
            PREEMPTED.format(count=1),
            V0.format(when="01-01 00:00:05", prompt=1.0, output=30.0),
            PREEMPTED.format(count=51),
        ]
    )
    before, after, seconds = running_lines.read(text)
    assert seconds == 10
    (engine,) = after.engines
    assert engine.gauges == {"running": 5, "waiting": 3, "swapped": 2, "usage": 0.87, "host_usage": 0.1}
    assert engine.counters["generation_tokens"] == pytest.approx(300)
    assert (before.engines[0].counters["preemptions"], engine.counters["preemptions"]) == (0, 51)


def test_sglang_by_rank():
    when = "2025-06-01 12:00:{:02d} DP{} TP{}"
    text = "\n".join(
        [
            DECODE.format(when=when.format(0, 0, 0), running=29, output=300.5, waiting=12),
            RETRACTED.format(when=when.format(1, 0, 0), count=3),
            RETRACTED.format(when=when.format(2, 0, 0), count=2),
            PREFILL.format(when=when.format(3, 0, 0)),
            DECODE.format(when=when.format(10, 0, 0), running=24, output=100.0, waiting=17),
            DECODE.format(when=when.format(10, 0, 1), running=99, output=100.0, waiting=99),
            DECODE.format(when=when.format(10, 1, 2), running=1, output=100.0, waiting=0),
        ]
    )
    before, after, seconds = running_lines.read(text)
    assert (after.product, seconds) == ("sglang", 10)
    zero, one = after.engines
    assert (zero.labels, one.labels) == ({"dp_rank": "0"}, {"dp_rank": "1"})
    assert zero.gauges == {"running": 24, "waiting": 17, "usage": 0.9, "hit_rate": pytest.approx(1 / 3)}
    assert zero.counters == {"prompt_tokens": 768, "cached_tokens": 256, "generation_tokens": 1000, "preemptions": 5}
    assert one.counters["preemptions"] == 0
    assert before.engines[0].gauges["running"] == 29


def test_newer_usage_of_sglang_is_the_fullest_pool():
    line = DECODE.format(when="2026-10-06 11:00:59 TP0 EP0", running=56, output=22.0, waiting=0)
    line = line.replace("token usage: 0.90", "full token usage: 0.10, #swa token: 14976, swa token usage: 0.55")
    assert running_lines.read(line)[1].engines[0].gauges["usage"] == 0.55


def test_preemptions_that_no_line_counts_are_not_zero():
    line = DECODE.format(when="2025-06-01 12:00:00", running=1, output=1.0, waiting=0)
    assert "preemptions" not in running_lines.read(line)[1].engines[0].counters
    assert "preemptions" not in running_lines.read(v1("04-28 22:54:32"))[1].engines[0].counters


def test_steps_of_tensorrt_llm():
    when = "2026-07-07 00:00:00"
    text = "\n".join(
        STEP.format(step=step, rank=rank, when=when, running=7) for step in (12, 13, 15) for rank in (0, 1)
    )
    before, after, seconds = running_lines.read(text)
    assert after.product == "tensorrt-llm"
    assert seconds == pytest.approx(3 * 0.0205), "no second passed on the clock: the steps' own times"
    (engine,) = after.engines
    assert engine.counters == {"prompt_tokens": 300, "generation_tokens": 21}
    assert engine.gauges == {"running": 7}
    assert before.engines[0].counters["prompt_tokens"] == 0
    used = text.replace("currank", "kv_cache_util = 0.125, currank")
    assert running_lines.read(used)[1].engines[0].gauges["usage"] == 0.125


@pytest.mark.parametrize(
    ("first", "last", "seconds"),
    [
        ("2025-04-28 22:54:32,123", "2025-04-28 22:54:42,623", 10.5),
        ("2025-12-31 23:59:50", "2026-01-01 00:00:00", 10),
        ("04-28 22:54:32", "04-29 22:54:32", 86_400),
        ("02-29 00:00:00", "03-01 00:00:00", 86_400),
        ("Sep 18 22:23:41", "Sep 18 22:24:41", 60),
        ("04-28 22:54:32", "04-28 22:54:31", None),
        ("", "", None),
        ("99-99 22:54:32", "04-28 22:54:32", None),
    ],
)
def test_times(first: str, last: str, seconds: float | None):
    assert running_lines.read(f"{v1(first)}\n{v1(last)}")[2] == seconds


@pytest.mark.parametrize(
    "text", ["", "hello", "Running: x reqs, Waiting: 3 reqs", "Decode batch", "iter = 3", "\x00" * 99]
)
def test_no_running_lines(text: str):
    assert running_lines.read(text) is None


def test_one_line_is_a_moment():
    before, after, seconds = running_lines.read(v1("04-28 22:54:32"))
    assert before.engines[0].gauges == after.engines[0].gauges
    assert seconds is None


@pytest.mark.parametrize(
    "part",
    ["Running: 1 reqs, ", "Decode batch", "iter = ", "reqs, \n", "0", "04-28 ", "Engine 000: ", v1("04-28 1") + "\n"],
)
def test_a_mebibyte_takes_no_second(part: str):
    text = part * (2 * MIB // len(part))
    started = time.perf_counter()
    running_lines.read(text)
    assert time.perf_counter() - started < 3


def test_mutated_lines_raise_nothing():
    when = "2025-06-01 12:00:00"
    whole = "\n".join(
        (
            v1("04-28 22:54:32"),
            V0.format(when="12-31 23:59:55", prompt=1, output=2),
            PREEMPTED.format(count=3),
            DECODE.format(when=when, running=1, output=2, waiting=3),
            PREFILL.format(when=when),
            RETRACTED.format(when=when, count=2),
            STEP.format(step=1, rank=0, when=when, running=1),
        )
    )
    draw = random.Random(14)
    read, refused = 0, []
    for _ in range(300):
        start, length = draw.randrange(len(whole)), draw.randrange(1, 30)
        part = whole[start : start + length] * draw.choice((0, 2))
        try:
            read += running_lines.read(whole[:start] + part + whole[start + length :]) is not None
        except CaseError as error:
            refused.append(str(error))
    assert read + len(refused) == 300
    assert all("allowed: a share from 0 to 1" in sentence for sentence in refused), "a digit more makes no share"
    assert len(refused) < 30


def test_half_a_mebibyte_of_rows_without_a_word_takes_no_time():
    whole = "\n".join(
        (v1("04-28 22:54:32"), *("" for _ in range(running_lines.LONGEST_TEXT - 1000)), v1("04-28 23:54:32"))
    )
    began = time.process_time()
    assert running_lines.read(whole)[2] == 3600
    assert time.process_time() - began < 3  # 0.3 s; each of the rows looked at by each pattern took longer


def test_many_starts_are_passed_once():
    """A start a row, none of them followed by a running line: looking behind each of them would take minutes."""
    starts = "Model loading took 1 GiB\n" * (running_lines.LONGEST_TEXT // 26)
    whole = f"{v1('04-28 22:54:32')}\n{v1('04-28 22:55:32')}\n{starts}"[: running_lines.LONGEST_TEXT]
    began = time.process_time()
    assert running_lines.read(whole)[2] == 60
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("Running: 1 reqs, Waiting: 2 reqs, \n", "10,001 running lines given; allowed: up to 10,000"),
        ("Engine {0:05d}: Running: 1 reqs, Waiting: 2 reqs, \n", "more than 2,000 engines; allowed: fewer at a time"),
        ("DP{0} Decode batch. #running-req: 5\n", "more than 2,000 engines; allowed: fewer at a time"),
    ],
)  # fmt: skip
def test_more_lines_or_engines_than_a_log_has(line, sentence):
    count = 10_001 if "10,001" in sentence else 2_001
    with pytest.raises(CaseError, match=f"^log: {sentence}$"):
        running_lines.read("".join(line.format(number) for number in range(count)))
    assert running_lines.read("".join(line.format(number) for number in range(2_000))) is not None
