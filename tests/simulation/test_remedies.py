"""The ladder of remedies: each rung changes what it says, what that buys, and in which order it is told."""

from dataclasses import replace
from math import inf, isnan, nan
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvmodel import catalog
from kvmodel.catalog import prices, releases, weights
from kvmodel.cli.command_line import run
from kvmodel.errors import CaseError, DoesNotFit
from kvmodel.inputs.case import Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import resolve
from kvmodel.simulation import remedies, remedy_rungs, simulate
from kvmodel.simulation.remedies import Row, ladder, ranking
from kvmodel.simulation.remedy_rungs import Server, all_rungs, rungs, server_on, settings_of
from kvmodel.simulation.simulate import Engine
from kvmodel.simulation.workload import by_name, workload

CHAT = by_name("chat", 300, requests_per_s=8)
SHORT = Engine(num_blocks=6000)  # of about 29,000 that the GPU of the default Case has
LOADS = (("chat", {"requests_per_s": 8}, 6000), ("retrieval", {"requests_per_s": 3}, 8000), ("real-run", {}, 2588))


def rung(name):
    return next(row for row in all_rungs() if row.id == name)


def by_id(rows):
    return {row.id: row for row in rows}


@pytest.fixture(scope="module")
def rows():
    return ladder(Case(), CHAT, engine=SHORT)


# --- what each rung changes ---

CHANGED = {  # fields of the Case and of the Engine that differ on a rung
    "max-num-seqs": ((), ("max_num_seqs",)),
    "utilization": ((), ("utilization", "num_blocks")),
    "watermark-1": ((), ("watermark",)),
    "watermark-2": ((), ("watermark",)),
    "token-budget": (("max_num_batched_tokens",), ("num_blocks",)),
    "wait": ((), ("scheduler",)),
    "offload": ((), ("scheduler",)),
    "offload-all": ((), ("scheduler",)),
    "recompute-v0": ((), ("scheduler",)),
    "swap": ((), ("scheduler",)),
    "fp8-kv": (("kv_dtype",), ("num_blocks",)),
    "weights-4bit": (("model",), ("num_blocks",)),
    "tp-2": (("tp",), ("num_blocks",)),
    "tp-4": (("tp",), ("num_blocks",)),
}


def test_every_rung_of_the_issue_is_there():
    assert {row.id for row in rungs("vllm-v1")} == set(CHANGED)


@pytest.mark.parametrize("name", CHANGED)
def test_a_rung_changes_only_what_it_says(name):
    before = Server(Case(), SHORT)
    after = server_on(rung(name), before, CHAT)
    differing = [
        tuple(key for key, value in vars(old).items() if vars(new)[key] != value)
        for old, new in ((before.case, after.case), (before.engine, after.engine))
    ]
    assert tuple(map(sorted, differing)) == tuple(map(sorted, CHANGED[name]))


def blocks(name, engine=SHORT, **case):
    return settings_of(server_on(rung(name), Server(Case(**case), engine), CHAT)).num_blocks


def test_pools_by_hand():
    """Blocks of 16 x 131,072 bytes; the A100 has 80 GiB."""
    block = 16 * 131072
    memory = catalog.gpu("a100-sxm4-80gb").memory_bytes
    assert blocks("utilization") == int(6000 + 0.03 * memory / block)
    assert blocks("fp8-kv") == 12000
    model = catalog.model("llama-3-8b")
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    freed = layers * (2 - weights.FOUR_BIT_BYTES)
    assert weights.weight_bytes(model) - freed == pytest.approx(weights.four_bit_bytes(model))
    assert blocks("weights-4bit") == int(6000 + freed / block)


def test_twice_the_gpus_hold_half_of_each_block_and_of_the_weights():
    before, after = Server(Case(), SHORT), server_on(rung("tp-2"), Server(Case(), SHORT), CHAT)
    assert simulate.block_bytes(after.case) == simulate.block_bytes(before.case) / 2
    freed = simulate.pool_bytes(after.case, SHORT) - simulate.pool_bytes(before.case, SHORT)
    assert freed > weights.weight_bytes(catalog.model("llama-3-8b")) / 2  # and some activations
    assert after.engine.num_blocks == int((6000 * 2 * 2**20 + freed) / 2**20)


@pytest.mark.parametrize("name", ["utilization", "fp8-kv", "weights-4bit", "tp-2", "tp-4", "token-budget"])
def test_a_given_pool_grows_as_the_whole_one_does(name):
    """Where the pool given is just what memory leaves, giving it changes nothing but where the null block is cut."""
    whole = settings_of(Server(Case(), Engine())).num_blocks
    assert blocks(name, Engine(num_blocks=whole)) == pytest.approx(blocks(name, Engine()), abs=8)
    assert blocks(name) > 6000


@pytest.mark.parametrize("model_id", ["llama-3-8b", "opt-13b", "deepseek-v3", "mixtral-8x7b", "gemma-3-27b"])
def test_four_bits_change_weights_and_nothing_else_of_a_model(model_id):
    model = catalog.model(model_id)
    case = server_on(
        rung("weights-4bit"), Server(Case(model=model_id, gpu="h200-sxm-141gb", tp=8), Engine()), CHAT
    ).case
    narrow = catalog.model(case.model)
    assert weights.weight_bytes(narrow) == pytest.approx(weights.four_bit_bytes(model))
    assert narrow.kv_layers == model.kv_layers
    assert weights.parameter_count(narrow) == weights.parameter_count(model)
    assert weights.expert_parameters(narrow) == weights.expert_parameters(model)
    widths = ("weight_bytes_per_parameter", "expert_weight_bytes_per_parameter")
    old, new = (vars(resolve.model_shape(one)) for one in (model, narrow))
    assert {key for key in old if old[key] != new[key]} <= set(widths)
    assert kv_cache.kv_bytes(narrow.kv_layers, 100, bytes_per_value=2) == kv_cache.kv_bytes(
        model.kv_layers, 100, bytes_per_value=2
    )


def test_max_num_seqs_is_what_the_pool_holds_to_their_end():
    """1,000 + 100 tokens: 6,000 blocks of 16 hold 87 of them."""
    even = workload(CHAT.prompt_tokens * 0 + 1000, CHAT.output_tokens * 0 + 100, CHAT.arrival_s)
    assert server_on(rung("max-num-seqs"), Server(Case(), SHORT), even).engine.max_num_seqs == 96000 // 1100
    with pytest.raises(CaseError, match=r"max_num_seqs: the pool holds 87 .* no more than 50 run; nothing to lower"):
        server_on(rung("max-num-seqs"), Server(Case(), replace(SHORT, max_num_seqs=50)), even)


ALREADY = {
    "utilization": (Case(), replace(SHORT, utilization=0.95)),
    "watermark-1": (Case(), replace(SHORT, watermark=0.01)),
    "fp8-kv": (Case(kv_dtype="fp8"), SHORT),
    "token-budget": (Case(max_num_batched_tokens=16), SHORT),
    "tp-4": (Case(tp=32), SHORT),
}


@pytest.mark.parametrize("name", ALREADY)
def test_a_rung_that_cannot_be_says_why_and_the_others_go_on(name):
    case, engine = ALREADY[name]
    found = by_id(remedies.rows(case, by_name("chat", 20), engine=engine, only=(name, "watermark-2")))
    assert found[name].problem
    assert isnan(found[name].preemptions)
    assert not found["watermark-2"].problem
    assert found["as-is"].outcome == "finished"


def test_weights_that_are_narrow_already():
    narrow = server_on(rung("weights-4bit"), Server(Case(), SHORT), CHAT)
    with pytest.raises(CaseError, match="as narrow as 4 bits already"):
        server_on(rung("weights-4bit"), narrow, CHAT)


def test_a_pool_that_weights_leave_no_room_for_is_one_sentence():
    with pytest.raises(DoesNotFit, match=r"^model: llama-3-70b needs"):
        ladder(Case(model="llama-3-70b"), CHAT)


def test_other_engines_have_rungs_of_their_own():
    assert "watermark-1" not in {row.id for row in rungs("sglang")}
    assert rung("offload").to["sglang"] == "sglang-hicache"
    assert "swap" not in {row.id for row in rungs("sglang")}
    assert rung("wait").to["trtllm-suspend"] == "trtllm-no-evict"
    for scheduler in simulate.SCHEDULERS:
        assert {row.id for row in rungs(scheduler)} >= {"utilization", "fp8-kv", "weights-4bit", "tp-2"}
        for row in rungs(scheduler):
            if row.change == "scheduler":
                assert row.to[scheduler] in simulate.SCHEDULERS
                assert row.to[scheduler] != scheduler


# --- what they buy ---


@pytest.mark.parametrize(("name", "kwargs", "pool"), LOADS)
def test_swap_does_not_lower_the_number_of_preemptions(name, kwargs, pool):
    """In one engine, V0. Single runs differ either way by their timing, so five of them are added up."""
    counts = {"vllm-v0": 0, "vllm-v0-swap": 0}
    for seed in range(5):
        load = by_name(name, 250, seed=seed, **kwargs)
        for scheduler in counts:
            engine = Engine(scheduler=scheduler, num_blocks=pool // 2)
            counts[scheduler] += simulate.simulate(Case(), load, engine).preemption_events
    assert counts["vllm-v0"] > 0
    assert counts["vllm-v0-swap"] >= 0.85 * counts["vllm-v0"]


@pytest.mark.parametrize(("name", "kwargs", "pool"), LOADS)
def test_waiting_never_preempts(name, kwargs, pool):
    found = by_id(remedies.rows(Case(), by_name(name, 200, **kwargs), engine=Engine(num_blocks=pool), only=("wait",)))
    assert found["as-is"].preemptions > 0
    assert found["wait"].preemptions == 0


@pytest.mark.parametrize(("name", "kwargs", "pool"), LOADS)
def test_more_pool_means_fewer_preemptions(name, kwargs, pool):
    grown = ("utilization", "fp8-kv", "weights-4bit", "tp-2", "tp-4")
    rows = tuple(remedies.rows(Case(), by_name(name, 300, **kwargs), engine=Engine(num_blocks=pool), only=grown))
    for row in ranking(rows, "preemptions"):
        assert row.effect != "harms", row.id
    assert by_id(rows)["fp8-kv"].preemptions < rows[0].preemptions


def test_but_not_for_every_block_more():
    """A larger pool admits more at a time, and they run into each other later: 193 preemptions with 2,400 blocks."""
    load = by_name("real-run", 300)
    fewer, more = (
        simulate.simulate(Case(), load, Engine(num_blocks=number)).preemption_events for number in (2400, 2800)
    )
    assert more > fewer


def test_the_watermark_trades_nothing_for_most_preemptions(rows):
    """As in runs of the real scheduler, where 1 and 2 % left 5 and 2 of 10."""
    found = by_id(rows)
    assert found["watermark-2"].preemptions < 0.5 * found["as-is"].preemptions
    assert found["watermark-2"].output_tokens_per_s > 0.97 * found["as-is"].output_tokens_per_s


def test_a_smaller_token_budget_shortens_the_worst_gaps(rows):
    found = by_id(rows)
    assert found["token-budget"].itl_p99_s < 0.7 * found["as-is"].itl_p99_s


def test_what_a_rung_needs(rows):
    found = by_id(rows)
    assert [found[name].gpus for name in ("as-is", "tp-2", "tp-4")] == [1, 2, 4]
    pool_gib = found["as-is"].pool_tokens * 131072 / 2**30
    assert {row.id: row.host_gib for row in rows if row.host_gib} == pytest.approx(
        dict.fromkeys(("offload", "offload-all", "swap"), 2 * pool_gib)
    )
    assert found["offload"].flag == f"--kv-offloading-size {-int(-2 * pool_gib // 1)}"


def test_host_memory_is_of_all_gpus_together():
    found = by_id(remedies.rows(Case(tp=2), by_name("chat", 10), engine=Engine(host_gib=10), only=("offload",)))
    assert found["offload"].host_gib == pytest.approx(10, abs=0.01)


def test_the_same_seed_gives_the_same_table(rows):
    again = ladder(Case(), by_name("chat", 300, requests_per_s=8), engine=SHORT)
    assert again == rows


# --- the order ---


def made(name, price="free", *, before=100.0, after=100.0, **changed):
    return Row(id=name, action=name, price=price, outcome="finished", preemptions=after, **changed)


AS_IS = made("as-is")


def placed(*rows, objective="preemptions"):
    return [row.id for row in ranking((AS_IS, *rows), objective)[1:]]


def test_cheap_before_dear_among_those_that_help():
    order = placed(made("gpus", "hardware", after=0), made("fp8", "accuracy", after=0), made("free", after=70))
    assert order == ["free", "fp8", "gpus"]


def test_within_a_kind_the_largest_gain_first():
    assert placed(made("a", after=60), made("b", after=20), made("c", after=40)) == ["b", "c", "a"]


def test_what_changes_little_comes_after_what_helps_and_harm_last():
    order = placed(
        made("harm", after=150), made("little", after=99), made("gpus", "hardware", after=10),
        replace(made("stuck", after=0), outcome="swap space is full"),
    )  # fmt: skip
    assert order == ["gpus", "little", "harm", "stuck"]


def test_a_count_of_a_hundred_is_good_to_ten():
    """Twice the root of 100: 85 is chance, 79 is not."""
    found = by_id(ranking((AS_IS, made("chance", after=85), made("real", after=79)), "preemptions"))
    assert (found["chance"].effect, found["real"].effect) == ("little", "helps")
    assert found["real"].gain == pytest.approx(0.21)


def test_swap_is_held_against_recomputing_in_the_same_engine():
    v0 = made("recompute-v0", after=30)
    swap = made("swap", "memory", after=29, beside="recompute-v0")
    last, compared = ranking((AS_IS, v0, swap), "preemptions")[1:]
    assert (last.id, last.effect, last.place) == ("swap", "little", 1)
    assert (compared.id, compared.effect, compared.place) == ("recompute-v0", "helps", None)


def test_a_server_that_gets_nowhere_gains_everything():
    stuck = replace(AS_IS, outcome="request 1 does not fit although nothing runs", preemptions=nan)
    assert by_id(ranking((stuck, made("cure")), "preemptions"))["cure"].gain == inf


@pytest.mark.parametrize("objective", remedies.OBJECTIVES)
def test_each_objective_has_an_order_of_the_same_rows(rows, objective):
    order = ranking(rows, objective)
    assert {row.id for row in order} == {row.id for row in rows}
    assert order[0].id == "as-is"
    assert [row.place for row in order if row.place] == list(range(1, len(rows) - 1))
    helped = [row for row in order if row.effect == "helps" and row.place]
    kinds = [list(prices.ORDER).index(row.price) for row in helped]
    assert kinds == sorted(kinds)


@given(st.lists(st.tuples(st.floats(1, 1000), st.sampled_from(list(prices.ORDER))), min_size=1, max_size=8))
@settings(derandomize=True, deadline=None)
def test_order_does_not_depend_on_the_order_given(values):
    given_rows = [made(f"{index}", price, after=after + index / 7) for index, (after, price) in enumerate(values)]
    assert placed(*given_rows) == placed(*reversed(given_rows))


def test_the_articles_order_stands_beside():
    places = {row.id: row.article for row in all_rungs() if row.article}
    assert places == {"max-num-seqs": 1, "utilization": 2, "weights-4bit": 3, "tp-2": 4, "tp-4": 4}


def test_unknown_objective():
    with pytest.raises(CaseError, match=r"^objective: 'speed' given; allowed: preemptions, throughput, ttft-p99"):
        ladder(Case(), CHAT, "speed")


# --- flags ---


def test_flags_are_those_of_the_release():
    load, engine = by_name("chat", 10), Engine(num_blocks=6000)
    newest = by_id(ladder(Case(), load, engine=engine, version="0.33.0"))
    old = by_id(ladder(Case(), load, engine=engine, version="0.10.2"))
    assert (newest["swap"].flag, newest["swap"].stands) == ("", "gone in 0.11.0")
    assert (old["swap"].flag, old["swap"].stands) == ("--preemption-mode swap", "")
    assert (old["watermark-2"].flag, old["watermark-2"].stands) == ("", "since 0.24.0")
    assert newest["watermark-2"].flag == "--watermark 0.02"
    assert newest["utilization"].flag == "--gpu-memory-utilization 0.95"
    assert old["offload"].flag == ""


def test_every_flag_is_known_of_its_engine_since_some_release():
    known = {(entry.engine, entry.name) for entry in releases.entries()}
    products = set(remedy_rungs.PRODUCTS.values())
    for row in all_rungs():
        assert set(row.flags) <= products
        for product, text in row.flags.items():
            assert (product, text.split()[0].rstrip(":")) in known or product in row.known_from, row.id


def test_rows_of_the_file():
    for row in all_rungs():
        assert row.price in prices.ORDER
        assert row.change in remedy_rungs.CHANGES
        assert catalog.source(row.source)
        assert row.beside in {"as-is", *(other.id for other in all_rungs())}


def test_the_advice_names_rungs_with_the_same_flag():
    """One change has one flag, in the ladder and in the advice for a server."""
    for remedy in catalog.table("advice")["remedy"]:
        if "rung" in remedy:
            flags = rung(remedy["rung"]).flags
            same_flag = remedy["flag"].split()[0] == flags.get(remedy["engine"], remedy["flag"]).split()[0]
            assert same_flag or remedy["id"] == "active-requests", remedy["id"]


# --- the command, and its speed ---


def test_the_command_prints_the_table_and_what_swap_does_not_do():
    text = run(["remedies", "--requests", "150", "--requests-per-s", "8", "--num-blocks", "4000"])
    assert "best order for preemptions" in text
    assert "swap changes what a preemption costs, not how many there are" in " ".join(text.split())
    refused = run(["remedies", "--requests", "20", "--utilization", "0.97"])
    assert "not tried:\n" in refused
    assert "utilization: 97 % already; 95 % is no more" in refused
    assert "swap preempts" not in refused  # nobody does


def test_the_whole_ladder_for_500_requests_takes_less_than_three_seconds():
    load = by_name("chat", 500, requests_per_s=8)
    ladder(Case(), by_name("chat", 10), engine=SHORT)
    start = thread_time()
    ladder(Case(), load, engine=SHORT)
    assert thread_time() - start < 3
