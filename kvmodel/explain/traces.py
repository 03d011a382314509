"""The why-trace of each headline number of a comparison, each a :data:`kvmodel.explain.formula.Trace`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvmodel.explain import copy_formulas, kv_formulas, recompute_formulas
from kvmodel.explain.formula import Factor, Line, Term, Trace
from kvmodel.explain.recompute_formulas import split
from kvmodel.recovery import break_even, costs, resolve
from kvmodel.recovery.comparison import Comparison
from kvmodel.timing import step_time


def kv(result: Comparison) -> Trace:
    """Bytes of a token and of the request."""
    return kv_formulas.kv(result.case)


def swap(result: Comparison) -> Trace:
    """The victim's delay by swap."""
    return copy_formulas.swap(result.case, result.inputs) + _all_preemptions(result, "swap")


def recompute(result: Comparison) -> Trace:
    """The victim's delay by recompute; empty where nothing is left to recompute."""
    lines = recompute_formulas.recompute(result.inputs)
    return lines + _all_preemptions(result, "recompute") if lines else ()


def _all_preemptions(result: Comparison, name: str) -> Trace:
    if result.case.preemptions == 1:
        return ()
    total_s = float(result.prices[name].victim_delay_s)
    return (copy_formulas.per_preemption(name, total_s, result.case.preemptions),)


def even_rate(result: Comparison) -> Trace:
    """The copy rate at which swap and recompute cost the same, and the one that copies reach; of one preemption."""
    inputs = result.inputs
    recompute_s = float(break_even.recompute_s(inputs))
    size = Factor("2", 2, "ways"), Factor("M", float(resolve.moved_bytes(inputs, inputs.tokens)), "bytes")
    swapping = Factor(r"t_\text{swap}", float(break_even.swap_s(inputs)), "s")
    rate = Term(size, (swapping,), "wire out")
    here = Line("effective", r"B_\text{here}", (rate,), "bytes/s", "recovery.break_even.effective_copy_bytes_per_s",
                headline=True)  # fmt: skip
    if not recompute_s:
        return (here,)
    equal = Term(size, (Factor(r"t_\text{recompute}", recompute_s, "s"),), "linear")
    even = Line("even", r"B^*", (equal,), "bytes/s", "recovery.break_even.copy_rate_of_equal_cost", headline=True)
    return even, here


def wait_for_blocks(result: Comparison) -> Trace:
    """The wait until the running batch has freed the victim's blocks; empty where no batch that fits is running."""
    inputs, case = result.inputs, result.case
    if not np.isfinite(result.wait_for_blocks_s):
        return ()
    kernels = _decode_kernels(result)
    host_s = float(inputs.host_step_s)
    running = Term(
        (*recompute_formulas.factor_of(inputs), Factor(kernels.symbol, kernels.value, "s")), part="wait for blocks"
    )
    launching = Term((Factor(r"t_\text{host}", host_s, "s"),), part="wait for blocks")
    sampling = float(inputs.decode_overhead_s) + case.decode_batch * float(inputs.decode_overhead_s_per_sequence)
    overhead = Term((Factor("t_0", sampling, "s"),), part="wait for blocks")
    slower = max(running, launching, key=lambda term: term.value)
    step = Line("decode_step", r"t_\text{step}", (slower, overhead) if sampling else (slower,), "s",
                "recovery.costs.decode_step_s")  # fmt: skip
    request = Factor("S", case.tokens, "tokens"), Factor("R", case.remaining_output, "steps")
    batch = Factor("D", case.decode_batch, "requests"), Factor("c", case.decode_context, "tokens")
    waiting = Term((*request, Factor(step.symbol, step.value, "s")), batch, "wait for blocks")
    wait = Line("wait", r"t_\text{wait}", (waiting,), "s", "recovery.costs.wait_for_blocks_s", headline=True)
    return kernels, step, wait


def _decode_kernels(result: Comparison) -> Line:
    """One decode step: matrix products, activations, all-reduce, launches, and the KV of the batch read once."""
    inputs, batch = result.inputs, result.case.decode_batch
    shape, gpu, tp = inputs.shape, inputs.gpu, inputs.tp
    reduced_s = float(step_time.all_reduce_s(batch, shape, gpu, tp=tp))
    kernel_times = [
        (r"t_\text{linear}", float(step_time.linear_s(batch, shape, gpu, tp=tp, sampled=batch))),
        (r"t_\text{traffic}", float(step_time.traffic_s(batch, shape, gpu, tp=tp))),
        *([(r"t_\text{all-reduce}", reduced_s)] if reduced_s else []),
    ]
    batch_kv = Factor(r"D\,M_c", float(costs.batch_kv_bytes(inputs)), "bytes")
    rate = Factor(r"e_\text{kv}", float(gpu.kv_read_efficiency)), Factor("B", float(gpu.hbm_bytes_per_s), "bytes/s")
    terms = (
        *(Term((Factor(symbol, seconds, "s"),), part="wait for blocks") for symbol, seconds in kernel_times),
        Term(recompute_formulas.launch_factors(inputs), part="wait for blocks"),
        Term((batch_kv,), rate, "wait for blocks"),
    )
    return Line("decode_kernels", r"t_\text{kernels}", terms, "s", "timing.step_time.decode_s")


def prefill_rate(result: Comparison) -> Trace:
    """Ridge point of the GPU; intensity and rate of the Case's prefill in one step (`roofline_points.roofline_of`)."""
    inputs, tokens = result.inputs, float(result.case.tokens)
    shape, gpu, tp = inputs.shape, inputs.gpu, float(inputs.tp)
    peak = Factor("F", float(gpu.peak_flop_per_s), "FLOP/s")
    memory = Factor("B", float(gpu.hbm_bytes_per_s), "bytes/s")
    at_ridge = (Term((peak,), (memory,)),)
    ridge = Line("ridge", "r", at_ridge, "FLOP/byte", "timing.roofline.ridge_flop_per_byte", headline=True)
    linear, attention = (
        float(step_time.linear_flop(tokens, shape)), float(step_time.attention_flop(tokens, 0, shape)),
    )  # fmt: skip
    flop_terms = (
        Term((Factor(r"\text{FLOP}_\text{linear}", linear, "FLOP"),), part="linear"),
        Term((Factor(r"\text{FLOP}_\text{attention}", attention, "FLOP"),), part="attention"),
    )
    flop = Line("flop", "X", flop_terms, "FLOP", "timing.step_time.linear_flop")
    weights, activations = (
        float(step_time.weight_bytes_read(tokens, shape)), float(step_time.activation_bytes_moved(tokens, shape)),
    )  # fmt: skip
    byte_terms = (
        Term((Factor("W", weights, "bytes"),), part="linear"),
        Term((Factor("A", activations, "bytes"),), part="activations"),
    )
    traffic = Line("bytes", "Y", byte_terms, "bytes", "timing.step_time.weight_bytes_read")
    of_flop = (Term((Factor("X", flop.value, "FLOP"),), (Factor("Y", traffic.value, "bytes"),)),)
    intensity = Line(
        "intensity", r"X / Y", of_flop, "FLOP/byte", "timing.roofline.intensity_flop_per_byte", headline=True
    )
    seconds = float(step_time.prefill_s(tokens, 0, shape, gpu, tp=tp, chunk_tokens=tokens))
    rate = Term((Factor("X", flop.value, "FLOP"),), (*split(tp), Factor(r"t_\text{kernels}", seconds, "s")))
    return (
        ridge,
        flop,
        traffic,
        intensity,
        Line("rate", r"X / t", (rate,), "FLOP/s", "timing.step_time.prefill_s", headline=True),
    )


TRACES: dict[str, Callable[[Comparison], Trace]] = {
    "kv": kv,
    "swap": swap,
    "recompute": recompute,
    "even_rate": even_rate,
    "wait_for_blocks": wait_for_blocks,
    "prefill_rate": prefill_rate,
}
