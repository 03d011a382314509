"""Every verdict, reason, remedy and note for a range of servers is as it was last read: words, numbers and order.

Each server is also judged with one thing changed, at and beside each limit; what differs then is kept. After a change
that is meant, write `data/kept/diagnosis.json` anew and read what differs:

    python -m tests.diagnosis.test_kept_sentences
"""

from pathlib import Path
from typing import Any

import pytest

from kvmodel.diagnosis import server_remedies
from kvmodel.diagnosis.causes import WORST_FIRST
from kvmodel.diagnosis.from_scrapes import diagnose
from kvmodel.diagnosis.queues import ENTRY, KV, LOAD, PREFILL, SEAT, WAKING
from kvmodel.diagnosis.served import ServerFacts
from kvmodel.errors import CaseError
from kvmodel.metrics import samples
from kvmodel.texts import diagnosis as texts
from tests.helpers import kept
from tests.helpers.scrapes import asleep, sglang, trtllm, turned_away, vllm

MODEL = "meta-llama/Llama-3.1-8B"
OWN = f'engine="0",model_name="{MODEL}"'
Server = dict[str, Any]  # of `pages`; what stands under "then" is what the second scrape has in its place
START = {"model": MODEL, "preemptions": 1000, "finished": 5000, "seconds": 600.0}
PRESSED = {"usage": 0.97, "running": 61, "waiting": 23, "then": {"finished": 6013, "preemptions": 1407}}
BASES: dict[str, Server] = {
    "healthy": {"usage": 0.61, "running": 9, "then": {"finished": 6013, "preemptions": 1037}},
    "pressure": PRESSED,
    "pressure, simulated": PRESSED | {
        "gpu": "a100-sxm4-80gb", "blocks": 6000, "prompt": 1500.0, "output": 400.0, "seconds": 400.0,
        "model": "meta-llama/Meta-Llama-3-8B", "version": "0.33.0", "gpu_hour": 2.37,
    },
    "a queue for KV": {"usage": 0.97, "running": 61, "waiting": 43, "then": {"finished": 6013}},
    "a queue for seats": {
        "usage": 0.31, "running": 64, "waiting": 80, "max_num_seqs": 64,
        "then": {"finished": 6013, "preemptions": 1007},
    },
    "a queue for prefill": {"usage": 0.33, "running": 20, "waiting": 57, "prompt": 6000.0, "output": 2.5,
                            "then": {"finished": 8111}},
    "a queue for loads": {"usage": 0.93, "running": 40, "waiting": 30, "deferred": 17, "then": {"finished": 7013}},
    "turned away": {"usage": 0.83, "running": 40, "waiting": 2, "turned_away": (0, 0),
                    "then": {"finished": 6013, "turned_away": (417, 33)}},
    "asleep": {"usage": 0.0, "running": 0, "waiting": 4, "awake": 0},
    "for others": {"usage": 0.71, "running": 30, "priority": 0.0,
                   "then": {"finished": 6013, "preemptions": 1150, "priority": 143.0}},
    "stuck": {"usage": 0.41, "running": 3, "waiting": 7, "finished": 500},
    "one waits and none runs": {"usage": 0.0, "running": 0, "waiting": 1, "finished": 500},
    "nothing runs": {"usage": 0.0, "running": 0, "waiting": 7, "finished": 500},
    "one holds the pool": {"usage": 0.83, "running": 1, "waiting": 14, "finished": 500, "output": 300.0,
                           "then": {"output": 360.0}},
    "livelock": {"usage": 0.99, "running": 5, "waiting": 4, "finished": 50, "prompt": 100_000.0, "output": 400.0,
                 "then": {"preemptions": 1037, "prompt": 100_001.0, "output": 402.0}, "seconds": 120.0},
    "few requests": {"usage": 0.73, "running": 8, "then": {"finished": 5020, "preemptions": 1020}},
    "two engines, one hot": {"usage": 0.97, "running": 61, "waiting": 43, "then": {"finished": 6013},
                             "other": {"usage": 0.23, "running": 5, "waiting": 0, "then": {"finished": 5613}}},
    "many engines": PRESSED | {
        "gpu": "h100-sxm5-80gb", "tp": 2, "gpu_hour": 3.1, "ranks": 12,
        "other": {"usage": 0.93, "running": 40, "waiting": 9, "then": {"finished": 6113, "preemptions": 1203}},
    },
    "sglang": {"engine": "sglang", "usage": 0.98, "running": 46, "waiting": 21, "preemptions": 17.0, "finished": 1000.0,
               "then": {"preemptions": 317.0, "finished": 2007.0, "tokens": 803_000.0, "prompt_tokens": 1_700_000.0}},
    "sglang, none retracted yet": {"engine": "sglang", "usage": 0.7, "running": 46, "waiting": 2, "preemptions": None,
                                   "finished": 1000.0, "then": {"finished": 2007.0, "tokens": 803_000.0}},
    "tensorrt-llm": {"engine": "trtllm", "usage": 0.93, "running": 31, "waiting": 19, "finished": 1000.0,
                     "then": {"finished": 2007.0, "tokens": 803_000.0, "prompt_tokens": 1_700_000.0}},
}  # fmt: skip
LATER: dict[str, Server] = {f"later {name} {value}": {"then": {name: value}} for name, values in {
    "finished": (5001, 5099, 5100), "preemptions": (1000, 1010, 1100), "running": (1,), "waiting": (1, 9),
    "usage": (0.9, 0.95), "output": (310.0,),
}.items() for value in values}  # fmt: skip
ALWAYS: dict[str, Server] = {f"{name} {value}": {name: value} for name, values in {
    "running": (0, 1, 2), "waiting": (0, 1, 2), "usage": (0.5, 0.8999, 0.9, 0.9499, 0.95), "deferred": (1, 2),
    "seconds": (None, 9.99, 10.0, 59.9, 60.0), "max_num_seqs": (1, 40), "model": ("acme/secret-7b",),
    "turned_away": ((0, 500),), "awake": (0, 1),
}.items() for value in values} | {
    "2 beside 8": {"running": 8, "waiting": 2}, "1 beside 9": {"running": 9, "waiting": 1},
    "full, 2 preempted": {"usage": 0.97, "then": {"preemptions": 1002}},
    "none waits at the end": {"waiting": 43, "then": {"waiting": 0}},
    "one waits at the end": {"waiting": 43, "then": {"waiting": 1}},
    "none waits at first": {"waiting": 0, "then": {"waiting": 43}},
    "1 beside 10": {"running": 10, "waiting": 1}, "3 beside 3": {"running": 3, "waiting": 3, "usage": 0.2},
}  # fmt: skip
SETTINGS: dict[str, Server] = {f"{name} {value}": {name: value} for name, values in {
    "blocks": (100, 300), "gpu": ("h100-sxm5-80gb",), "tp": (2, 8), "version": ("0.11.0", "0.18.0", "0.19.0"),
    "prompt": (40.0, 9000.0),
    "settings": ({"gpu_memory_utilization": "0.95"}, {"gpu_memory_utilization": "None"}, {"cache_dtype": "fp8"},
                 {"num_gpu_blocks_override": 5000}, {"kv_offloading_size": 20}, {"enable_prefix_caching": "False"}),
}.items() for value in values}  # fmt: skip
PRICED: dict[str, Server] = {f"tp {tp}": {"tp": tp} for tp in (1, 4, 8)}
NEARLY_EMPTY: dict[str, Server] = {f"usage {usage}": {"usage": usage} for usage in (0.004, 0.013)}
SOME = {about: change for about, change in ALWAYS.items() if not {"max_num_seqs", "deferred", "awake"} & set(change)}
CHANGES = dict.fromkeys(BASES, LATER | ALWAYS) | {
    **dict.fromkeys(("turned away", "asleep", "for others", "few requests", "sglang", "tensorrt-llm"), SOME),
    "two engines, one hot": LATER, "many engines": PRICED,
    "a queue for seats": LATER | ALWAYS | NEARLY_EMPTY, "sglang, none retracted yet": LATER,
    "pressure, simulated": {}, "pressure": LATER | ALWAYS | SETTINGS, "livelock": LATER | ALWAYS | SETTINGS,
}  # fmt: skip
FACTS = ("gpu", "tp", "max_num_seqs")
SENTENCES = ("verdict", "waits_for", "reason", "hot_engine", "band", "advice_rule", "against", "notes", "over")


def page(server: Server) -> str:
    """One scrape of it."""
    made = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}[server.get("engine", "vllm")]
    known = set(made.__kwdefaults__) - {"engine"}
    text = made(**{name: value for name, value in server.items() if name in known})
    if made is not vllm:
        return text
    if "deferred" in server:
        text += f'vllm:num_requests_waiting_by_reason{{{OWN},reason="deferred"}} {server["deferred"]}\n'
    if "priority" in server:
        text += f'vllm:num_preemptions_by_reason_total{{{OWN},reason="priority"}} {server["priority"]}\n'
    text += turned_away(*server["turned_away"], model=MODEL) if "turned_away" in server else ""
    return text + (asleep(server["awake"], model=MODEL) if "awake" in server else "")


def changed(base: Server, change: Server) -> Server:
    then = {name: value for name, value in base.get("then", {}).items() if name not in change}
    return base | change | {"then": then | change.get("then", {})}


def pages(base: Server) -> tuple[str, str]:
    first, second = page(base), page(base | base.get("then", {}))
    if "other" in base:
        others = base | base["other"]
        for rank in range(1, base.get("ranks", 2)):
            more = (page(one).replace('engine="0"', f'engine="{rank}"') for one in (others, others | others["then"]))
            first, second = (text + other for text, other in zip((first, second), more, strict=True))
    return first, second + "# later\n"


def answer(server: Server, *, alone: bool = False) -> dict[str, Any]:
    facts = ServerFacts({name: server.get(name) for name in FACTS}, server.get("version"), server.get("gpu_hour"))
    first, second = pages(START | server)
    if alone:
        return diagnose(second, facts=facts)
    return diagnose(first, second, seconds=(START | server)["seconds"], facts=facts)


def sentences(found: dict[str, Any]) -> dict[str, Any]:
    """Its words: they hold the numbers too."""
    remedies = {row["id"]: "{rank}. {flag} {needs} {as_of}: {buys}".format_map(row) for row in found["advice"]}
    return {name: found[name] for name in SENTENCES} | {"advice": remedies, "matter": texts.matter(found)}


def judged(name: str) -> dict[str, kept.Flat]:
    """All of the base's answer and its page, then its words and what of them each change changes, not simulated."""
    base = BASES[name]
    whole = answer(base)
    changes = {about: (changed(base, change), False) for about, change in CHANGES[name].items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_remedies, "rows_of", not_simulated)
        words = kept.with_changes(
            lambda given: sentences(answer(given[0], alone=given[1])),
            (base, False),
            {"one scrape": (base, True)} | changes,
        )
    return kept.as_json({"whole": kept.flat(whole), "said": texts.diagnose(whole).splitlines()} | words)


def samples_judged() -> dict[str, Any]:
    """Every page and log beside the tests, and every pair of them."""
    data, logs = Path(__file__).parents[1] / "data", Path(__file__).parents[1] / "startup_log" / "field"
    paths = [*data.glob("metrics/*.prom"), *data.glob("field/*"), *data.glob("pool_logs/*.log"), *logs.glob("*.log")]
    given = {path.stem: [path.read_bytes()] for path in sorted(paths)}
    given |= {name.removesuffix("1") + "both": [given[name.removesuffix("1") + "0"][0], given[name][0]]
              for name in given if name.endswith("t1")}  # fmt: skip
    given |= {name: [page.encode() for page in samples.read(name)] for name in samples.SAMPLES}
    given = {name: pages for name, pages in given.items() if not name.endswith(("-t0", "-t1"))}
    found = {}
    for name, texts_of in given.items():
        answered = diagnose(*texts_of, seconds=None if len(texts_of) == 1 else 600.0, facts=ServerFacts({"tp": 2}))
        found[name] = {"whole": kept.flat(answered), "said": texts.diagnose(answered).splitlines()}
    return dict(kept.as_json(found))


def not_simulated(server: object, load: object, rungs: object) -> None:
    """As a simulation takes as long as hundreds of answers."""
    raise CaseError(f"{load}")


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return kept.read("diagnosis")


@pytest.mark.parametrize("name", BASES)
def test_a_server_is_judged_as_it_was_read(name: str, read: dict[str, Any]) -> None:
    assert judged(name) == read[name]


def test_a_sample_is_judged_as_it_was_read(read: dict[str, Any]) -> None:
    assert samples_judged() == read["samples"]


def test_every_verdict_and_cause_is_among_them(read: dict[str, Any]) -> None:
    assert set(read) == {*BASES, "samples"}
    seen = {(read[name]["base"]["verdict"], read[name]["base"].get("waits_for")) for name in BASES}
    assert {verdict for verdict, _ in seen} == set(WORST_FIRST)
    assert {cause for _, cause in seen} - {None} >= {KV, SEAT, PREFILL, LOAD, ENTRY, WAKING}


if __name__ == "__main__":
    kept.write("diagnosis", {name: judged(name) for name in BASES} | {"samples": samples_judged()})
