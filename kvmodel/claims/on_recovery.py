"""Claims on what swap and recompute cost, and when which of them wins. Every function takes the Case of its claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Numbers
from kvmodel.claims.figure19 import figure19
from kvmodel.claims.numbers import Figures, quoted
from kvmodel.claims.on_figure19 import largest_block_won
from kvmodel.claims.scenarios import condition_text, table
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even, costs, resolve
from kvmodel.recovery.comparison import compare_case
from kvmodel.recovery.costs import at
from kvmodel.recovery.resolve import Inputs, model_shape
from kvmodel.timing import step_time

SHORTEST_TOKENS = 16  # one block
MHA, GQA, MLA = "llama-2-7b", "llama-3-8b", "deepseek-v3"  # a model of each kind of attention


def swap_in(case: Case) -> Figures:
    """GPU time that a swap takes from the batch on V0, and that a load takes with a host tier of today."""
    v0 = compare_case(case).prices["swap"]
    today = replace(case, policy="vllm-v1-offload", layout="contiguous", generated_tokens=0)
    load = compare_case(today).prices["offload"]
    return {
        "v0_batch_s": float(v0.gpu_s),
        "decodes": case.decode_batch,
        "load_s": float(load.in_s),
        "load_batch_s": float(load.gpu_s),
    }


def usual_case(case: Case) -> Figures:
    """Recompute over swap in the Case, and what would turn it."""
    result = compare_case(case)
    return {
        "over_ratio": float(_recompute_over_swap(result.inputs)),
        "even_bytes_per_s": result.even.copy_bytes_per_s,
        "here_bytes_per_s": float(break_even.effective_copy_bytes_per_s(result.inputs)),
        "even_share": result.even.survival,
        "wins_block": largest_block_won(figure19()),
        "tokens": case.tokens,
    }


def every_length(case: Case) -> Figures:
    """Recompute over swap at the Case's length, at 512 tokens, and the least of it at any length up to that."""
    result = compare_case(case)
    lengths = np.arange(SHORTEST_TOKENS, case.tokens + 1, SHORTEST_TOKENS)
    over = _recompute_over_swap(at(result.inputs, tokens=lengths))
    return {
        "tokens": case.tokens,
        "long_ratio": float(over[-1]),
        "short_ratio": float(over[lengths == SHORT_TOKENS][0]),
        "short_tokens": SHORT_TOKENS,
        "least_ratio": float(over.min()),
        "shortest_tokens": SHORTEST_TOKENS,
    }


SHORT_TOKENS = 512


def three_times(case: Case) -> Figures:
    """Bytes on the link for three preemptions: the article's two copies, V0's swap, a write-through tier."""
    result = compare_case(case)
    once = float(resolve.moved_bytes(result.inputs, case.tokens))
    swap, offload = result.prices["swap"], result.prices["offload"]
    return {
        "preemptions": case.preemptions,
        "article_bytes": 2 * once,
        "swap_bytes": float(swap.link_bytes),
        "swap_s": float(swap.victim_delay_s),
        "offload_bytes": float(offload.link_bytes),
        "offload_s": float(offload.victim_delay_s),
        "recompute_s": float(result.prices["recompute"].victim_delay_s),
    }


def strategy_table(case: Case) -> Figures:
    """How many rows of the article's table hold, and the verdict on each."""
    rows = table()
    verdicts = [row.verdict for row in rows]
    turns = {f"{row.id}_turns": condition_text(row.outcomes[0]) for row in rows}
    return (
        turns
        | {f"{row.id}_verdict": row.verdict for row in rows}
        | {
            "rows": len(rows),
            "holding": verdicts.count("holds"),
            "differing": verdicts.count("differs"),
        }
    )


def slow_link(case: Case) -> Figures:
    """GPU time of the two under the article's own arithmetic, and the copy rate at which they are equal."""
    result = compare_case(case)
    flips = result.verdict.flips
    return {
        "swap_s": float(result.prices["swap"].gpu_s),
        "recompute_s": float(result.prices["recompute"].gpu_s),
        "over_ratio": float(result.prices["recompute"].gpu_s / result.prices["swap"].gpu_s),
        "even_bytes_per_s": flips[0].at if flips else None,
        "here_bytes_per_s": flips[0].now if flips else None,
        "tokens": case.tokens,
    }


def stalled_batch(case: Case) -> Figures:
    """What the copies of a V0 swap take, the bytes alone, and the tokens that the waiting batch does not produce."""
    result = compare_case(case)
    inputs = result.inputs
    stall_s = float(result.prices["swap"].gpu_s)
    size = resolve.moved_bytes(inputs, case.tokens)
    return {
        "stall_s": stall_s,
        "bytes_s": float(size / inputs.d2h_bytes_per_s + size / inputs.h2d_bytes_per_s),
        "decodes": case.decode_batch,
        "lost_tokens": case.decode_batch * stall_s / float(costs.decode_step_s(inputs)),
    }


def default_choice(case: Case) -> Figures:
    """Copy rate below which recompute wins, for many and for few KV heads, and the work behind a byte of KV."""
    few, many = (compare_case(replace(case, model=model)) for model in (GQA, MHA))
    faster = replace(case, model=MHA, gpu="h100-sxm5-80gb")
    return {
        "mha_bytes_per_s": many.even.copy_bytes_per_s,
        "gqa_bytes_per_s": few.even.copy_bytes_per_s,
        "here_bytes_per_s": float(break_even.effective_copy_bytes_per_s(few.inputs)),
        "h100_mha_bytes_per_s": compare_case(faster).even.copy_bytes_per_s,
        "h100_here_bytes_per_s": catalog.link("pcie5-x16").h2d_bytes_per_s,
        "mha_even_bytes": many.even.bytes_per_copy,
        "gqa_even_bytes": few.even.bytes_per_copy,
        "mha_flop_per_kv_byte": flop_per_kv_byte(MHA),
        "gqa_flop_per_kv_byte": flop_per_kv_byte(GQA),
        "mla_flop_per_kv_byte": flop_per_kv_byte(MLA),
    }


def flop_per_kv_byte(model_id: str) -> float:
    """Work to compute a token again over the bytes to copy it, both in 16 bits: what decides between the two."""
    shape = model_shape(catalog.model(model_id))
    growth = kv_cache.growth_bytes_per_token(catalog.model(model_id).kv_layers, bytes_per_value=BYTES_PER_VALUE["bf16"])
    return float(step_time.linear_flop(1.0, shape) / growth)


def waiting(case: Case) -> Figures:
    """What waiting leaves alone, what it costs, and how many requests fit with and without a reservation."""
    result = compare_case(case)
    inputs, price = result.inputs, result.prices["wait"]
    pool = float(inputs.pool_bytes_per_gpu)
    prompt, whole = case.tokens - case.generated_tokens, case.tokens + case.remaining_output
    return {
        "link_bytes": float(price.link_bytes),
        "recomputed_tokens": float(price.recomputed_tokens),
        "queue_s": float(price.victim_delay_s),
        "prompt_requests": pool // float(resolve.moved_bytes(inputs, prompt)),
        "reserved_requests": pool // float(resolve.moved_bytes(inputs, whole)),
    }


def lazy_discard(case: Case) -> Figures:
    """Share of a resumed request that was still on the GPU in runs of the real scheduler, and what that saves."""
    most = quoted("survived_most_tokens") / quoted("resumed_most_tokens")
    least = quoted("survived_least_tokens") / quoted("resumed_least_tokens")
    inputs = compare_case(case).inputs
    return {
        "most_share": most,
        "least_share": least,
        "none_left_s": float(break_even.recompute_s(at(inputs, survival=0.0))),
        "most_left_s": float(break_even.recompute_s(at(inputs, survival=most))),
        "tokens": case.tokens,
    }


def known_tokens(case: Case) -> Figures:
    """Prefilling all tokens at once, against producing the generated ones again one step at a time."""
    inputs = compare_case(case).inputs
    prompt = case.tokens - case.generated_tokens
    first_s = float(costs.prefill_alone_s(inputs, prompt, 0.0)) + case.generated_tokens * float(
        costs.decode_step_s(inputs)
    )
    again_s = float(break_even.recompute_s(inputs))
    return {
        "tokens": case.tokens,
        "generated_tokens": case.generated_tokens,
        "first_s": first_s,
        "again_s": again_s,
        "over_ratio": first_s / again_s,
    }


def lost_work(case: Case, preemptions_per_request: float) -> float:
    """Share of all prefilled tokens that are prefilled again, all of a victim's KV lost."""
    prompt = case.tokens - case.generated_tokens
    again = preemptions_per_request * case.tokens
    return again / (prompt + again)


def wait_beside_gain(case: Case) -> Figures:
    """The wait for blocks that both pay, beside what swap saves over recompute, and the pool that neither enlarges."""
    result = compare_case(case)
    swap, recompute = result.prices["swap"], result.prices["recompute"]
    return {
        "wait_s": result.wait_for_blocks_s,
        "saved_s": float(recompute.victim_delay_s - swap.victim_delay_s),
        "lost_share": lost_work(case, quoted("many_share")),
        "per_100": 100 * quoted("many_share"),
    }


def _recompute_over_swap(inputs: Inputs) -> Numbers:
    return break_even.recompute_s(inputs) / break_even.swap_s(inputs)
