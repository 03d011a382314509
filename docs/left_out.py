"""Holds what docs/model.md says is left out against the code: `python docs/left_out.py`.

Each row and bullet has checks, or the reason why a machine cannot check it. A test runs this.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from kvmodel import catalog, compare  # noqa: E402
from kvmodel.catalog import assumptions, releases  # noqa: E402
from kvmodel.catalog.rows import KvLayers  # noqa: E402
from kvmodel.cli import command_line  # noqa: E402
from kvmodel.cli.commands import COMMANDS  # noqa: E402
from kvmodel.inputs.case import DEFAULTS, Case  # noqa: E402
from kvmodel.memory import kv_cache, pool_plan  # noqa: E402
from kvmodel.recovery import resolve  # noqa: E402
from kvmodel.scheduler import gaps  # noqa: E402
from kvmodel.simulation import simulate, workload  # noqa: E402
from kvmodel.timing import step_time  # noqa: E402

DOCUMENT = FOLDER / "model.md"
SECTIONS = ("What the simulator leaves out:", "## What is left out, and how much it matters")
ITEM = re.compile(
    r"^(?:\| (?P<row>[^|]+) \|(?P<cells>.*)\||- \*\*(?P<bullet>[^*]+)\*\*(?P<text>(?:.*\n(?:  .*\n)*)))", re.M
)
HEADINGS = ("what", "left out")
Check = Callable[[str], bool]  # of the item's text


def items(document: str) -> dict[str, str]:
    """What is left out, by the first words of its row or bullet, and what is said of it."""
    found = {}
    for section in SECTIONS:
        begins = document.index(section) + len(section)
        ends = re.compile(r"^##? |^```", re.M).search(document, begins)
        for match in ITEM.finditer(document[begins : ends.start() if ends else None]):
            title = (match["row"] or match["bullet"]).strip().rstrip(".")
            if title not in HEADINGS:
                found[title] = match["cells"] or match["text"]
    return found


def options(command: str) -> set[str]:
    """The flags of a command."""
    return {command_line.flag(field) for field in (*COMMANDS[command].fields, *COMMANDS[command].inputs)}


def says(*values: str) -> Check:
    """Whether the item has these texts in it, which are worked out from the code."""
    return lambda text: all(value in re.sub(r"\s+", " ", text) for value in values)


def no_flag(commands: tuple[str, ...], *flags: str) -> Check:
    """Whether no such command has such a flag."""
    return lambda _: not any(options(command) & set(flags) for command in commands)


def has_flag(command: str, *flags: str) -> Check:
    """Whether a command has these flags, and the text names them."""
    return lambda text: set(flags) <= options(command) and all(flag in text for flag in flags)


def delay_s(strategy: str, **case: object) -> float:
    """A strategy's delay, as `compare` prices it."""
    return float(compare(**case)["strategies"][strategy]["victim_delay_s"])


def slower_hosts(text: str) -> bool:
    """Pageable memory and a far socket against the default, on PCIe 4 and PCIe 5."""
    ratios = [
        delay_s("swap", gpu=gpu, **worse) / delay_s("swap", gpu=gpu)
        for gpu in ("a100-sxm4-80gb", "h100-sxm5-80gb")
        for worse in ({"host_memory": "pageable"}, {"numa": "far"})
    ]
    return says(f"{min(ratios):.1f} to {max(ratios):.1f} times")(text)


def percent(section: str, key: str, file: str | None = None) -> str:
    """A share of the assumptions as the text writes it."""
    return f"{100 * assumptions.value(section, key, file):.0f} %"


def decimal(section: str, key: str) -> str:
    """A share as ".60"."""
    return f"{assumptions.value(section, key):.2f}".removeprefix("0")


def shape_and_gpu(model: str, gpu: str) -> tuple[step_time.ModelShape, step_time.GpuRates]:
    """A model's shape and a GPU's rates, kernels alone."""
    return resolve.model_shape(catalog.model(model)), resolve.gpu_rates(catalog.gpu(gpu), "kernels")


def eight_bits(_: str) -> bool:
    """Weights of one byte take the 8-bit peak; two and half a byte the 16-bit one."""
    shape, gpu = shape_and_gpu("deepseek-v3", "h100-sxm5-80gb")
    wide = dataclasses.replace(shape, weight_bytes_per_parameter=2.0, expert_weight_bytes_per_parameter=2.0)
    narrow = dataclasses.replace(shape, weight_bytes_per_parameter=0.5, expert_weight_bytes_per_parameter=0.5)
    peaks = [float(step_time.matrix_peak_flop_per_s(each, gpu)) for each in (shape, wide, narrow)]
    return peaks == [gpu.fp8_peak_flop_per_s, gpu.peak_flop_per_s, gpu.peak_flop_per_s]


def pageable_law(text: str) -> bool:
    """The rate of pageable memory on an RTX 4090's link."""
    link, staging = (
        catalog.link("pcie4-x16").h2d_gb_per_s.value,
        assumptions.value("pageable", "staging_gb_per_s", "copies"),
    )
    return says(f"the law gives {1 / (1 / link + 1 / staging):.1f}")(text)


def later_chunks(text: str) -> bool:
    """KV that the chunks of a prefill of 32K tokens read, over its time: not in the price."""
    shape, gpu = shape_and_gpu("llama-3-8b", "a100-sxm4-80gb")
    layers = catalog.model("llama-3-8b").kv_layers
    before = [float(kv_cache.kv_bytes(layers, tokens, bytes_per_value=2)) for tokens in range(2048, 32768, 2048)]
    reading_s = step_time.kv_read_s(sum(before), gpu, beside_chunk=False)
    return says(f"{100 * reading_s / step_time.prefill_s(32768, 0, shape, gpu, chunk_tokens=2048):.1f} %")(text)


def reduce_on_pcie(text: str) -> bool:
    """All-reduce of a split model without NVLink, and its part of a prefill."""
    shape, gpu = shape_and_gpu("llama-3.1-70b", "l40s")
    parts = step_time.prefill_parts_s(2048, 0, shape, gpu, tp=4, chunk_tokens=2048)
    times = [f"{1000 * seconds:,.0f}" for seconds in (float(parts["all-reduce"]), sum(map(float, parts.values())))]
    rates = [assumptions.value("all_reduce", f"pcie_{which}_gb_per_s") for which in ("pair", "beyond_pair")]
    return says(f"{rates[0]:.0f} GB/s for a pair, {rates[1]:.1f} for four", f"{times[0]} of the {times[1]} ms")(text)


def states_count(_: str) -> bool:
    """A state and an index key have bytes; no model of the catalog has either."""
    plain = KvLayers(kind="full", layers=1, kv_heads=1, key_dim=8, value_dim=8)
    more = (dataclasses.replace(plain, index_dim=8), dataclasses.replace(plain, fixed_bytes=100.0))
    sizes = [float(kv_cache.kv_bytes([layers], 10, bytes_per_value=2)) for layers in (plain, *more)]
    groups = [group for model_id in catalog.model_ids() for group in catalog.model(model_id).kv_layers]
    return min(sizes[1:]) > sizes[0] and not any(group.kind == "state" or group.index_dim for group in groups)


def exact_need(_: str) -> bool:
    """A hybrid's KV in prices is that of its layers, its windows filled; the pages of a plan hold more."""
    case = Case(model="gpt-oss-20b", gpu="h100-sxm5-80gb", tokens=8192)
    exact = float(kv_cache.kv_bytes(catalog.model(case.model).kv_layers, case.tokens, bytes_per_value=2))
    moved = compare(model=case.model, gpu=case.gpu, tokens=case.tokens)["strategies"]["swap"]["link_bytes"]
    planned = pool_plan.plan(pool_plan.Startup(case=case, max_model_len=case.tokens))
    return bool(moved == 2 * exact and planned.need_bytes > exact)


def priced_alike(_: str) -> bool:
    """Experts have no efficiency of their own."""
    tables = {**catalog.table("assumptions"), **catalog.table("fitted")}
    return not any("moe" in name or "expert" in name for name in tables)


def one_attention_efficiency(text: str) -> bool:
    """The efficiency of attention has one value."""
    values = {key: row for key, row in catalog.table("fitted")["attention_efficiency"].items() if key != "unit"}
    return len(values) == 1 and says(f"against {decimal('attention_efficiency', 'default')}")(text)


def kv_dtype_moves_bytes_alone(_: str) -> bool:
    """The prefill of a recompute takes as long whatever the KV dtype."""
    return len({delay_s("recompute", kv_dtype=dtype) for dtype in ("bf16", "fp8")}) == 1


def both_is_free(_: str) -> bool:
    """Copying a part and computing a part is never longer than either alone."""
    return delay_s("both") <= min(delay_s("recompute"), delay_s("offload", generated_tokens=0))


def one_share_for_sockets(_: str) -> bool:
    """PCIe 3's share is the default."""
    return all(
        assumptions.value(f"far_node_{way}", "default", "copies")
        == assumptions.value(f"far_node_{way}", "pcie3-x16", "copies")
        for way in ("h2d", "d2h")
    )


def lacks(row_class: type, *words: str) -> Check:
    """Whether no field of a class has such a word in its name."""
    names = [each.name for each in dataclasses.fields(row_class)]
    return lambda _: not any(word in name for name in names for word in words)


def all_layers_in_full(_: str) -> bool:
    """A block of the pool holds its tokens in every layer, windows or not."""
    case = Case(model="gpt-oss-20b", gpu="h100-sxm5-80gb")
    layers = catalog.model(case.model).kv_layers
    full = [dataclasses.replace(group, kind="full", bound_tokens=float("inf")) for group in layers]
    return simulate.block_bytes(case) == float(kv_cache.kv_bytes(full, case.block_tokens, bytes_per_value=2))


def nobody_gives_up(_: str) -> bool:
    """Every request of an overloaded server ends with all of its output."""
    demand = workload.by_name("chat", 30, seed=1)
    results = simulate.simulate(Case(gpu="l40s"), demand, simulate.Engine(num_blocks=400))
    return bool((results.requests.finished_s > 0).all() and len(results.requests.finished_s) == 30)


def known_flags(*flags: str) -> Check:
    """Whether vLLM has these flags and no command here takes them."""
    return lambda text: all(releases.exists(flag, "vllm", "0.33.0") for flag in flags) and no_flag(LOADS, *flags)(text)


LOADS, PRICES = ("pressure",), ("compare", "pressure")
CHECKS: dict[str, tuple[Check, ...]] = {
    "prefixes that requests share": (lacks(workload.Workload, "prefix", "hash", "session"),),
    "asynchronous scheduling": (lacks(simulate.Engine, "async"), no_flag(LOADS, "--async-scheduling")),
    "speculative decoding, sliding windows in the pool, several KV groups": (
        all_layers_in_full, no_flag(LOADS, "--draft-tokens", "--draft-layers"),
    ),
    "`long_prefill_token_threshold`, several prefills at once in the middle": (
        lacks(simulate.Engine, "threshold", "partial"),
        lambda _: not releases.exists("--max-num-partial-prefills", "vllm", "0.33.0"),
    ),
    "limits at the door": (
        known_flags("--max-num-active-seqs", "--max-num-queued-reqs", "--max-num-queued-tokens"),
        says("max_num_active_seqs", "max_num_queued_reqs", "max_num_queued_tokens"),
    ),
    "stops, aborts, timeouts": (nobody_gives_up, lacks(workload.Workload, "timeout", "patience")),
    "tails": (says(f"bins of {100 / gaps.BINS_PER_E:.0f} %"),),
    "Scheduling over time, in `compare`": (
        lambda _: {"wait_for_blocks_s"} <= compare().keys(), no_flag(("compare",), "--workload", "--scheduler"),
    ),
    "Your host": (
        slower_hosts, has_flag("compare", "--host-memory", "--numa", "--duplex", "--copy-gb-per-s"),
        lambda _: [DEFAULTS[key] for key in ("host_memory", "numa", "duplex")] == ["pinned", "near", "alone"],
    ),
    "Your engine's code": (says(percent("band", "prefill"), percent("band", "prefill_other_gpu")),),
    "Narrow weights and linear attention": (eight_bits, states_count),
    "copies in the processor's cache": (pageable_law,),
    "far sockets of newer servers": (one_share_for_sockets,),
    "copy kernels against the batch": (says(f"against {percent('kernel', 'sm_share', 'copies')} here"),),
    "8-bit matrix products": (eight_bits, says(decimal("fp8_gemm_efficiency", "default"))),
    "MoE efficiency": (priced_alike,),
    "attention of short prefills": (one_attention_efficiency,),
    "KV dtype in attention": (kv_dtype_moves_bytes_alone,),
    "KV reads of later chunks": (later_chunks,),
    "linear attention, state-space layers, sparse attention with an indexer": (states_count,),
    "padded pages of hybrid models": (exact_need,),
    "weights as loaded": (has_flag("capacity", "--weight-gib"),),
    "tensor parallel on PCIe": (reduce_on_pcie,),
    "pipeline parallel, several nodes, disaggregated prefill": (
        has_flag("capacity", "--pp"), no_flag(PRICES, "--pp", "--nodes"),
    ),
    "network and disk tiers": (
        lambda _: {row.split("-")[0].rstrip("0123456789") for row in catalog.link_ids()} <= {"pcie", "nvlink"},
        lambda _: "copy_gb_per_s" in DEFAULTS,
    ),
    "contention of `both`": (both_is_free,),
    "speculative decoding, LoRA": (
        has_flag("capacity", "--draft-layers", "--draft-tokens"), no_flag(PRICES, "--draft-tokens", "--lora"),
    ),
    "scheduling over time": (lambda _: "survival" in DEFAULTS, no_flag(LOADS, "--survival")),
}  # fmt: skip
NOT_BY_MACHINE = {
    "the front end": "what is absent has no name",
    "write-through copies": "held by the tests of policies",
    "loads": "held by the tests of policies",
    "a suspended request's copy out": "held by the tests of policies",
    "SGLang": "held by the tests of policies",
    "TensorRT-LLM": "held by the tests of policies",
    "vLLM V0": "held by the tests of policies",
    "a quirk of priorities": "held by runs of vLLM's own scheduler",
    "batched calls of few pieces": "measured elsewhere",
    "peak of sampling at the start": "held by the tests of memory",
    "copies of 10 GiB and more by a kernel": "measured elsewhere",
    "the engine's own copy path": "measured elsewhere",
}


def faults(document: str) -> Iterator[str]:
    """What is said and does not hold, and what nobody checks, a line each."""
    said = items(document)
    for title, text in said.items():
        if title not in CHECKS and title not in NOT_BY_MACHINE:
            yield f"{title}: neither checked nor named as what a machine cannot check"
        for number, check in enumerate(CHECKS.get(title, ()), start=1):
            if not check(text):
                yield f"{title}: check {number} does not hold"
    for title in (*CHECKS, *NOT_BY_MACHINE):
        if title not in said:
            yield f"{title}: not in {DOCUMENT.name}"


if __name__ == "__main__":
    found = list(faults(DOCUMENT.read_text(encoding="utf-8")))
    print("\n".join(found) or f"{len(CHECKS)} of {len(CHECKS) + len(NOT_BY_MACHINE)} hold; the others are not checked")
    sys.exit(bool(found))
