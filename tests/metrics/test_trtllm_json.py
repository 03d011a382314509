"""The JSON page of trtllm-serve: read as its Prometheus text would be, in any form; other JSON is named."""

import gzip
import json
import random

import pytest

from kvmodel.diagnosis import from_scrapes
from kvmodel.errors import CaseError
from kvmodel.metrics import trtllm_json
from kvmodel.metrics.server_state import server
from kvmodel.texts import diagnosis

FIELD = (  # of a public report
    '[{"iter":0,"kvCacheStats":{"freeNumBlocks":1745,"maxNumBlocks":7240,"tokensPerBlock":64,"usedNumBlocks":5495},'
    '"numActiveRequests":1,"numQueuedRequests":7,"inflightBatchingStats":{"numPausedRequests":0}}]'
)
NOTE = trtllm_json.PLACE


def state_of(text):
    return server(from_scrapes.read(text))


def only(text):
    (engine,) = state_of(text).engines
    return engine


def iteration(number=1, *, rank=None, running=3, queued=2, used=30, size=40, **more):
    """One iteration as release 1.4's pages have it."""
    row = {
        "timestamp": "11-30-2026 10:00:00.000001", "iter": number, "iterLatencyMS": 15.5, "numNewActiveRequests": 0,
        "numActiveRequests": running, "numQueuedRequests": queued, "numCompletedRequests": 1,
        "maxNumActiveRequests": 64, "maxBatchSizeStatic": 0, "gpuMemUsage": 76665782272,
        "kvCacheStats": {
            "maxNumBlocks": size, "freeNumBlocks": size - used, "usedNumBlocks": used, "tokensPerBlock": 32,
            "allocTotalBlocks": 3126, "reusedBlocks": 4, "missedBlocks": 3121, "cacheHitRate": 0.25,
        },
        "staticBatchingStats": {"numScheduledRequests": 0},
        "inflightBatchingStats": {"numScheduledRequests": 3, "numContextRequests": 1, "numGenRequests": 2,
                                  "numPausedRequests": 1, "microBatchId": 0},
        "specDecodingStats": None,
    }  # fmt: skip
    return row | ({} if rank is None else {"attentionDpRank": rank}) | more


def test_the_field_page():
    engine = only(FIELD)
    assert engine.pool_tokens == 463_360 == 7_240 * 64
    assert (engine.gauges["running"], engine.gauges["waiting"], engine.gauges["retracted_now"]) == (1, 7, 0)
    assert engine.usage == 5495 / 7240
    assert engine.labels == {}
    assert not engine.counters
    answer = from_scrapes.diagnose(FIELD)
    assert answer["engine"] == "tensorrt-llm"
    assert NOTE in answer["notes"]
    assert "/prometheus/metrics" in NOTE


def test_an_iteration_of_the_newest_pages():
    gauges = only(json.dumps([iteration()])).gauges
    assert gauges == {
        "running": 3, "waiting": 2, "seat_limit": 64, "retracted_now": 1,
        "pool_blocks": 40, "block_tokens": 32, "hit_rate": 0.25, "usage": 0.75,
    }  # fmt: skip


FORMS = {
    "list": json.dumps,
    "indented": lambda rows: json.dumps(rows, indent=4),
    "lines": lambda rows: "\n".join(map(json.dumps, rows)),
    "windows": lambda rows: json.dumps(rows, indent=1).replace("\n", "\r\n"),
    "head": lambda rows: "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + json.dumps(rows),
    "shell": lambda rows: "$ curl -s localhost:8000/metrics\n" + json.dumps(rows) + "\n$ ",
    "byte order mark": lambda rows: "\ufeff" + json.dumps(rows),
    "utf-16": lambda rows: json.dumps(rows).encode("utf-16"),
    "gzip": lambda rows: gzip.compress(json.dumps(rows).encode(), mtime=0),
    "breaks off": lambda rows: json.dumps([*rows, iteration(99, running=50)])[:-150],
    "begins within": lambda rows: json.dumps([iteration(0, running=50), *rows])[40:],
}


@pytest.mark.parametrize("form", FORMS)
def test_of_several_iterations_the_last_counts_in_any_form(form):
    scrape = from_scrapes.read(FORMS[form]([iteration(number, running=number) for number in (7, 8, 9)]))
    (engine,) = server(scrape).engines
    assert engine.gauges["running"] == 9
    assert NOTE in scrape.notes
    assert "3 iterations are in it; the last one counts" in scrape.notes
    assert ("the JSON breaks off; what is whole was read" in scrape.notes) is (form == "breaks off")
    assert len(scrape.notes) == 2 + (form == "breaks off")


def test_the_newest_iteration_counts_where_they_are_not_in_order():
    assert only(json.dumps([iteration(9, running=4), iteration(8, running=5)])).gauges["running"] == 4


def test_one_object_is_a_page_too():
    assert only(json.dumps(iteration())).gauges["running"] == 3


def test_each_attention_dp_rank_is_an_engine():
    rows = [
        iteration(number, rank=rank, running=rank + number, queued=5 if rank == 0 else 0)
        for number in (1, 2)
        for rank in range(4)
    ]
    state = state_of(json.dumps(rows))
    assert [engine.labels for engine in state.engines] == [{"dp_rank": str(rank)} for rank in range(4)]
    assert [engine.gauges["running"] for engine in state.engines] == [2, 3, 4, 5]
    assert [engine.gauges["waiting"] for engine in state.engines] == [5, 0, 0, 0]
    assert "2 iterations are in it; the last one counts" in state.notes


def test_what_a_backend_does_not_fill_in_is_not_zero():
    empty = iteration(kvCacheStats=None, inflightBatchingStats=None, maxNumActiveRequests=0)
    assert only(json.dumps([empty])).gauges == {"running": 3, "waiting": 2}
    zero = iteration(kvCacheStats={"maxNumBlocks": 0, "usedNumBlocks": 0, "tokensPerBlock": 0})
    engine = only(json.dumps([zero]))
    assert engine.pool_tokens is None
    assert engine.usage is None


@pytest.mark.parametrize("bad", [None, True, "3", -1, float("nan"), float("inf"), 1e300, [3], {"a": 3}, 10**400])
def test_what_is_no_count_is_not_reported(bad):
    assert only(json.dumps([iteration(numActiveRequests=bad)])).gauges.get("running") is None


def test_nothing_that_can_be_read_is_no_sample_and_no_error():
    answer = from_scrapes.diagnose('[{"numActiveRequests": null}]')
    assert answer["verdict"] == "no samples"


def test_two_pages_are_a_window():
    answer = from_scrapes.diagnose(
        json.dumps([iteration(running=2)]), json.dumps([iteration(50, running=4)]), seconds=60
    )
    assert answer["seconds"] == 60
    assert answer["engine"] == "tensorrt-llm"


OTHERS = {
    "the answer of a Prometheus server": {"status": "success", "data": {"resultType": "vector", "result": []}},
    "SGLang's /server_info": {
        "model_path": "m",
        "internal_states": [{"last_gen_throughput": 1.0}],
        "version": "0.5.23",
    },
    "SGLang's /v1/loads": {"timestamp": "t", "version": "0.5.23", "dp_rank_count": 1, "loads": [{"dp_rank": 0}]},
    "SGLang's /get_load": [{"dp_rank": 0, "num_reqs": 3, "num_waiting_reqs": 1, "num_tokens": 900}],
    "SGLang's /model_info": {"model_path": "m", "tokenizer_path": "m", "is_generation": True},
    "TensorRT-LLM's KV cache events": [{"event_id": 0, "data": {"type": "created"}, "window_size": 4096}],
    "TensorRT-LLM's /perf_metrics": [{"request_id": 1, "perf_metrics": {"first_iter": 1}}],
    "llama.cpp's /props": {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 4},
    "llama.cpp's /slots": [{"id": 0, "n_ctx": 8192, "is_processing": False}],
    "the list of an OpenAI-compatible server's models": {"object": "list", "data": [{"id": "m"}]},
    "a server's error message": {"detail": "Not Found"},
    "a server's version": {"version": "0.33.0"},
    "a model's config.json": {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096},
    "JSON": {"a": [1, 2]},
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_json_is_named(kind, indent):
    with pytest.raises(CaseError) as raised:
        from_scrapes.read(json.dumps(OTHERS[kind], indent=indent))
    assert str(raised.value) == f"SCRAPE: {kind} was given; allowed: the text of an engine's /metrics page"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[]", "an empty list of JSON, as trtllm-serve has without enable_iter_perf_stats"),
        (" [ ]\n", "an empty list of JSON"),
        ("{}", "JSON was given"),
        ('["a", "b"]', "JSON was given"),
        ('[{"kvCacheStats": {"maxNumBl', "JSON that breaks off was given"),
        ('{"a": ' * 5_000, "JSON that breaks off was given"),
        ("[" * 100_000, "JSON was given"),
        ("[" + "{}," * 100_001, "more than 100,000 objects of JSON"),
        (
            "\n".join(f'{{"attentionDpRank":{rank},"numActiveRequests":1}}' for rank in range(2_002)),
            "more than 2,000 ranks",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text, part):
    with pytest.raises(CaseError) as raised:
        from_scrapes.read(text)
    assert part in str(raised.value)
    assert "; allowed: " in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        '{__name__="vllm:num_requests_running",engine="0"} 3\n',
        "[2026-11-30 10:00:00] INFO: Started server process [1]\n",
        'x{a="kvCacheStats"} 1\n',
        'trtllm_num_requests_running{a="{\\"numActiveRequests\\": 1}"} 1\n',
    ],
)
def test_what_is_no_json_is_left_alone(text):
    assert trtllm_json.as_exposition(text, [], "SCRAPE") == text


# --- a fuzzer: whatever is done to a page, there is an answer or one sentence ---

VALUES = [None, True, "x", "", -1, 0, 1, 1e-300, 1e308, 10**30, [], {}, [[]], {"a": {}}, "٣", "\x00"]


def changed(value, rng):
    """The same JSON with places taken out, replaced, repeated or moved."""
    if rng.random() < 0.06:
        return rng.choice(VALUES)
    if isinstance(value, dict):
        parts = [(key, changed(part, rng)) for key, part in value.items() if rng.random() > 0.08]
        rng.shuffle(parts)
        return {(key if rng.random() > 0.05 else rng.choice(["iter", "data", key.lower(), ""])): p for key, p in parts}
    if isinstance(value, list):
        parts = [changed(part, rng) for part in value for _ in range(rng.choice([0, 1, 1, 1, 2]))]
        return parts if rng.random() > 0.05 else {"rows": parts}
    return value


def mutant(rng):
    rows = [
        iteration(number, rank=rank) for number in range(rng.randrange(1, 4)) for rank in range(rng.randrange(1, 4))
    ]
    page = rng.choice([rows, rows[0], json.loads(FIELD), *OTHERS.values()])
    text = json.dumps(changed(page, rng), ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
    if rng.random() < 0.4:
        start = rng.randrange(len(text))
        cut = [text[:start], text[start:], text[:start] + rng.choice('{}[]",:\\\n0-e') + text[start + 1 :], text * 2]
        text = rng.choice(cut)
    return text if rng.random() < 0.7 else text.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("seed", range(6))
def test_a_mutated_page_gives_an_answer_or_one_sentence(seed):
    """50 each; ten thousand were tried when it was written."""
    rng = random.Random(seed)
    for _ in range(50):
        page = mutant(rng)
        try:
            answer = from_scrapes.diagnose(page)
        except CaseError as error:
            said = str(error)
        else:
            said = json.dumps(answer, allow_nan=False)
            assert diagnosis.diagnose(answer), page
        assert said, page
        assert "\n" not in said, page
