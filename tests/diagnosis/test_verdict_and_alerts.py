"""Verdict and alerts are made of the same definitions: on every server here they say the same."""

import pytest

from kvmodel.diagnosis import causes, queues
from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.metrics import samples
from tests.helpers.promtool import firing
from tests.helpers.scrapes import FIELD, asleep, from_sources, sglang, trtllm, turned_away, vllm

OF_QUEUE = {
    queues.KV: {"KvQueueingForMemory"}, queues.PREFILL: {"KvQueueingForPrefill"},
    queues.LOAD: {"KvQueueingForLoad"}, queues.ENTRY: {"KvTurnedAway"}, queues.WAKING: {"KvAsleep"},
}  # fmt: skip
OF_VERDICT = {
    causes.STUCK: {"KvStuck"}, causes.HEAD_OF_LINE: {"KvHeadOfLine"}, causes.LIVELOCK: {"KvLivelock"},
}  # fmt: skip
FIELD_PAIRS = {
    "01-first-retraction": (600, causes.PRESSURE), "03-tp-ranks": (600, causes.HEALTHY),
    "04-stuck": (600, causes.STUCK), "05-one-holds-pool": (3600, causes.HEAD_OF_LINE),
    "07-prefill-bound": (600, causes.QUEUEING),
}  # fmt: skip
OF_SAMPLES = {
    "healthy": causes.HEALTHY, "pressure": causes.PRESSURE, "queueing": causes.QUEUEING, "prefill": causes.QUEUEING,
    "head": causes.HEAD_OF_LINE, "stuck": causes.STUCK, "priority": causes.BY_DECISION, "hot": causes.PRESSURE,
}  # fmt: skip


def alerts_of(answer):
    """The alerts that go with an answer: none where nothing is wrong or is known."""
    verdict = answer["verdict"]
    if verdict == causes.PRESSURE:
        ratio = answer["lead"]["preemptions_per_100"]
        return {"KvPreemptionPressure"} | ({"KvPreemptionSevere"} if ratio is None or ratio >= 20 else set())
    if verdict == causes.QUEUEING:
        return OF_QUEUE.get(answer["waits_for"], {"KvQueueingForBatch"})
    return OF_VERDICT.get(verdict, set())


@pytest.mark.parametrize("name", FIELD_PAIRS)
def test_scrapes_from_the_field(name, tmp_path):
    seconds, verdict = FIELD_PAIRS[name]
    before, after = ((FIELD / f"{name}-{when}.prom").read_text() for when in ("t0", "t1"))
    answer = diagnose(before, after, seconds=seconds)
    assert answer["verdict"] == verdict
    assert firing(tmp_path, before, after, seconds) == alerts_of(answer)


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_samples(name, tmp_path):
    assert set(OF_SAMPLES) == set(samples.SAMPLES)
    before, after = samples.read(name)
    answer = diagnose(
        before, after, seconds=samples.SECONDS, facts=ServerFacts({"max_num_seqs": samples.SAMPLES[name].max_num_seqs})
    )
    assert answer["verdict"] == OF_SAMPLES[name]
    assert firing(tmp_path, before, after, samples.SECONDS) == alerts_of(answer)


BUSY = {"running": 60, "usage": 0.97, "prompt": 800, "output": 400}
STATES = {  # engine, what it shows first, what changes: verdict and what is waited for
    "sglang, stuck": (sglang, {"running": 0, "waiting": 9}, {}, causes.STUCK, None),
    "sglang, hung": (sglang, {"running": 12, "waiting": 9, "usage": 0.6}, {"waiting": 30}, causes.STUCK, None),
    "trtllm, stuck": (trtllm, {"running": 0, "waiting": 3}, {}, causes.STUCK, None),
    "sglang, one holds the pool": (
        sglang, {"running": 1, "waiting": 5, "usage": 0.85, "tokens": 0}, {"tokens": 9000}, causes.HEAD_OF_LINE, None,
    ),
    "trtllm, one holds the pool": (
        trtllm, {"running": 1, "waiting": 5, "usage": 0.85, "tokens": 0}, {"tokens": 9000}, causes.HEAD_OF_LINE, None,
    ),
    "vllm, a full pool and few finished": (
        vllm, BUSY | {"waiting": 20, "preemptions": 5, "finished": 500, "output": 5000},
        {"preemptions": 65, "finished": 512}, causes.PRESSURE, None,
    ),
    "sglang, a full pool and few finished": (
        sglang, {"running": 60, "usage": 0.97, "waiting": 20, "preemptions": 5, "finished": 500, "tokens": 0},
        {"preemptions": 65, "finished": 512, "tokens": 400_000}, causes.PRESSURE, None,
    ),
    "vllm, long requests wait for KV": (
        vllm, BUSY | {"waiting": 20, "finished": 500, "output": 5000}, {"finished": 512}, causes.QUEUEING, queues.KV,
    ),
    "sglang, prefill": (
        sglang, {"running": 3, "waiting": 90, "usage": 0.2, "finished": 1000, "tokens": 0, "prompt_tokens": 0},
        {"finished": 4000, "tokens": 12_000, "prompt_tokens": 24_000_000}, causes.QUEUEING, queues.PREFILL,
    ),
    "trtllm, prefill": (
        trtllm, {"running": 3, "waiting": 90, "usage": 0.2, "finished": 1000, "tokens": 0, "prompt_tokens": 0},
        {"finished": 4000, "tokens": 12_000, "prompt_tokens": 24_000_000}, causes.QUEUEING, queues.PREFILL,
    ),
    "vllm, a seat or something else": (
        vllm, {"running": 64, "waiting": 40, "usage": 0.2, "finished": 500, "prompt": 300, "output": 300},
        {"finished": 4000}, causes.QUEUEING, queues.UNKNOWN,
    ),
    "vllm, prefill beside a full pool": (
        vllm, {"running": 20, "waiting": 900, "usage": 0.95, "prompt": 6000, "output": 2, "finished": 500},
        {"finished": 3500}, causes.QUEUEING, queues.PREFILL,
    ),
    "vllm, healthy and idle": (vllm, {"running": 0, "usage": 0.0}, {}, causes.TOO_LITTLE, None),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_other_engines_and_sizes(state, tmp_path):
    engine, first, change, verdict, cause = STATES[state]
    before, after = engine(**first), engine(**first | change)
    answer = diagnose(before, after, seconds=600)
    assert (answer["verdict"], answer["waits_for"]) == (verdict, cause)
    assert firing(tmp_path, before, after, 600) == alerts_of(answer)


def given_up(reason: str, number: int) -> str:
    own = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'
    return f'vllm:request_success_total{{finished_reason="{reason}",{own}}} {number}\n'


HUNG = {"running": 4, "waiting": 20, "usage": 0.5, "finished": 500}


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_clients_that_give_up_do_not_hide_a_server_that_hangs(reason, tmp_path):
    before, after = (vllm(**HUNG) + given_up(reason, number) for number in (0, 180))
    answer = diagnose(before, after, seconds=600)
    assert answer["verdict"] == causes.STUCK
    assert firing(tmp_path, before, after, 600) == {"KvStuck"}


def deferred(number: int) -> str:
    own = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'
    return f'vllm:num_requests_waiting_by_reason{{{own},reason="deferred"}} {number}\n'


ROOM = {"running": 60, "usage": 0.6}
LONG_PROMPTS = {"running": 8, "waiting": 60, "usage": 0.3, "prompt": 8000, "output": 4}
BESIDES = {  # a page and what stands in it besides, at first and at last; what is waited for, the alerts
    "turned away, with room in the pool": (
        vllm(**ROOM, finished=5000) + turned_away(10), vllm(**ROOM, finished=6000) + turned_away(800),
        queues.ENTRY, {"KvTurnedAway"},
    ),
    "turned away, the queue as long as the limit lets it be": (
        vllm(**ROOM | {"waiting": 3}, finished=5000) + turned_away(0, 0),
        vllm(**ROOM | {"waiting": 3}, finished=6000) + turned_away(0, 300), queues.ENTRY, {"KvTurnedAway"},
    ),
    "turned away beside a full pool and a queue": (
        vllm(running=60, waiting=40, usage=0.97, finished=5000) + turned_away(10),
        vllm(running=60, waiting=40, usage=0.97, finished=6000) + turned_away(800),
        queues.KV, {"KvTurnedAway", "KvQueueingForMemory"},
    ),
    "a few are turned away": (
        vllm(**ROOM, finished=5000) + turned_away(10), vllm(**ROOM, finished=6000) + turned_away(60), None, set(),
    ),
    "asleep": (
        vllm(running=0, waiting=4, usage=0) + asleep(), vllm(running=0, waiting=9, usage=0) + asleep(),
        queues.WAKING, {"KvAsleep"},
    ),
    "asleep with those that ran": (
        vllm(running=5, waiting=1, usage=0.4) + asleep(), vllm(running=5, waiting=1, usage=0.4) + asleep(),
        queues.WAKING, {"KvAsleep"},
    ),
    "all that wait are deferred, whatever the pool": (
        vllm(running=40, waiting=30, usage=0.95, finished=1000) + deferred(30),
        vllm(running=40, waiting=30, usage=0.95, finished=3000) + deferred(30), queues.LOAD, {"KvQueueingForLoad"},
    ),
    "prompts are computed": (
        vllm(**LONG_PROMPTS, finished=1000) + from_sources(local_compute=8e6),
        vllm(**LONG_PROMPTS, finished=4000) + from_sources(local_compute=32e6),
        queues.PREFILL, {"KvQueueingForPrefill"},
    ),
    "prompts are found, or come from a prefill engine": (
        vllm(**LONG_PROMPTS, finished=1000) + from_sources(local_compute=0, local_cache_hit=1e6),
        vllm(**LONG_PROMPTS, finished=4000)
        + from_sources(local_compute=0, local_cache_hit=7e6, external_kv_transfer=18e6),
        queues.UNKNOWN, {"KvQueueingForBatch"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDES)
def test_what_few_servers_have(name, tmp_path):
    before, after, cause, alerts = BESIDES[name]
    answer = diagnose(before, after, seconds=600)
    assert answer["waits_for"] == cause
    assert answer["verdict"] == (causes.HEALTHY if cause is None else causes.QUEUEING)
    assert firing(tmp_path, before, after, 600) == alerts


@pytest.mark.parametrize("engine", [vllm, sglang, trtllm])
def test_one_scrape_suffices_for_a_queue_beside_nothing_that_runs(engine):
    answer = diagnose(engine(running=0, waiting=4, usage=0.0))
    assert answer["verdict"] == "stuck"
    assert "a second scrape a minute later proves it" in answer["reason"]
    assert answer["advice"][0]["id"] == "restart"


def test_rules_made_of_a_healthy_sglang_see_its_first_retractions(tmp_path):
    healthy = (FIELD / "02-healthy-sglang.prom").read_text()
    before, after = ((FIELD / f"01-first-retraction-{when}.prom").read_text() for when in ("t0", "t1"))
    fired = firing(tmp_path, before, after, 600, rules_from=healthy)
    assert fired == {"KvPreemptionPressure", "KvPreemptionSevere"}
    later = healthy.replace("} 12000", "} 14000").replace("} 4800000", "} 5600000")
    assert firing(tmp_path, healthy, later, 600, rules_from=healthy) == set()
