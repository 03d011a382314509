"""Where the seconds of a recompute come from: one prefill alone on the GPU, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kvmodel.explain.formula import Factor, Line, Term, Trace
from kvmodel.recovery.resolve import Inputs
from kvmodel.timing import step_time


def recompute(inputs: Inputs) -> Trace:
    """The first preemption of one case (scalars); empty where the whole cache survives."""
    tokens, survival = float(inputs.tokens), float(inputs.survival)
    new, past = tokens - survival * tokens, survival * tokens
    if new <= 0:
        return ()
    chunk = float(inputs.max_num_batched_tokens)
    full, rest = map(float, step_time.in_chunks(new, chunk))
    first, last = (chunk, rest) if full else (rest, 0.0)
    opening = (new_tokens(tokens, survival),) if survival else ()
    one = chunk_lines(inputs, first)
    steps = Factor("k", full + (rest > 0), "steps")
    attention = attention_terms(inputs, new, past)
    lines = [
        chunk_line("linear", inputs, step_time.linear_s, first, max(full, 1.0), last),
        Line("attention", r"t_\text{attention}", attention, "s", "timing.step_time.attention_s"),
        Line("activations", r"t_\text{traffic}", (activation_term(inputs, new),), "s", "timing.step_time.traffic_s"),
    ]
    if float(inputs.tp) > 1:
        lines.append(chunk_line("all-reduce", inputs, step_time.all_reduce_s, first, max(full, 1.0), last))
    launch = Term((steps, *launch_factors(inputs)), part="launch")
    lines.append(Line("launch", r"t_\text{launch}", (launch,), "s", "timing.step_time.prefill_parts_s"))
    kernels = Line("kernels", r"t_\text{kernels}", tuple(map(as_term, lines)), "s", "timing.step_time.prefill_s")
    return *opening, *one, *lines, kernels, engine(inputs, kernels, steps)


def new_tokens(tokens: float, survival: float) -> Line:
    """What the prefix cache has not kept."""
    factors = Factor("S", tokens, "tokens"), Factor("(1 - h)", 1 - survival)
    return Line("new_tokens", "n", (Term(factors),), "tokens", "recovery.strategies.recompute")


def engine(inputs: Inputs, kernels: Line, steps: Factor) -> Line:
    """What the engine makes of its kernels: its factor, or a host that launches them more slowly than they run."""
    host_s = float(inputs.host_step_s)
    running = Term((*factor_of(inputs), Factor(kernels.symbol, kernels.value, "s")), part="linear")
    launching = Term((steps, Factor(r"t_\text{host}", host_s, "s")), part="linear")
    overhead = Term((Factor("t_0", float(inputs.request_overhead_s), "s"),), part="engine")
    slower = max(running, launching, key=lambda term: term.value)
    terms = (slower, overhead) if overhead.value else (slower,)
    return Line("recompute", r"t_\text{recompute}", terms, "s", "recovery.costs.prefill_alone_s", headline=True)


def factor_of(inputs: Inputs) -> tuple[Factor, ...]:
    """What the engine's kernels take longer, where they do."""
    factor = float(inputs.engine_factor)
    return () if factor == 1 else (Factor("f", factor),)


def chunk_lines(inputs: Inputs, tokens: float) -> Trace:
    """Matrix products of a step of `tokens` new tokens: compute, weight read, and their smooth maximum."""
    computing = Line("compute", "t_c", linear_terms(inputs, tokens), "s", "timing.step_time.compute_s")
    reading = Line("weight_read", "t_w", (weight_read_term(inputs, tokens),), "s", "timing.step_time.weight_read_s")
    both = tuple(Term((Factor(line.symbol, line.value, "s"),), part="linear") for line in (computing, reading))
    return computing, reading, Line("chunk", r"t_\text{step}", both, "s", "timing.step_time.linear_s", join="root")


def linear_terms(inputs: Inputs, tokens: float) -> tuple[Term, ...]:
    """Matrix products of the layers for every token, and of the head for one."""
    shape, gpu, tp = inputs.shape, inputs.gpu, float(inputs.tp)
    active = step_time.active_layer_parameters(shape)
    peak = float(step_time.matrix_peak_flop_per_s(shape, gpu))
    flop = float(step_time.linear_flop(tokens, shape))
    share = flop / (float(step_time.compute_s(tokens, shape, gpu, tp=tp)) * tp * peak)
    under = (*split(tp), Factor("e", share), Factor("F", peak, "FLOP/s"))
    two = Factor("2", 2)
    layers = (two, Factor("P", active, "parameters"), Factor("T", tokens, "tokens"))
    head = (two, Factor("V", shape.vocab_size, "vocabulary entries"), Factor("d", shape.hidden_size, "values"))
    return Term(layers, under, "linear"), Term(head, under, "linear")


def weight_read_term(inputs: Inputs, tokens: float) -> Term:
    shape, gpu = inputs.shape, inputs.gpu
    weights = Factor("W", float(step_time.weight_bytes_read(tokens, shape)), "bytes")
    rate = Factor("e_w", float(gpu.weight_read_efficiency)), Factor("B", float(gpu.hbm_bytes_per_s), "bytes/s")
    return Term((weights,), (*split(float(inputs.tp)), *rate), "linear")


def attention_terms(inputs: Inputs, new: float, past: float) -> tuple[Term, ...]:
    """A term for each group of layers that looks back equally far."""
    shape, gpu, tp = inputs.shape, inputs.gpu, float(inputs.tp)
    under = (*split(tp), Factor(r"e_\text{attn}", float(gpu.attention_efficiency)), _peak(inputs))
    terms = []
    for group in shape.attention:
        flop = float(step_time.attention_flop(new, past, replace(shape, attention=(group,))))
        pairs = flop / (4 * shape.attention_width * group.layers)
        symbol = r"\text{pairs}_w" if np.isfinite(group.bound_tokens) else "(n p + n^2 / 2)" if past else "(n^2 / 2)"
        factors = (
            Factor("4", 4), Factor("H D", shape.attention_width, "values"),
            Factor("L", group.layers, "layers"), Factor(symbol, pairs, "pairs of tokens"),
        )  # fmt: skip
        terms.append(Term(factors, under, "attention"))
    return tuple(terms)


def activation_term(inputs: Inputs, tokens: float) -> Term:
    shape, gpu, tp = inputs.shape, inputs.gpu, float(inputs.tp)
    each = float(step_time.activation_bytes_moved(1, shape, tp=tp)) / shape.layers
    widths = r"(4 d + 3 d_{ff} / tp)" if tp > 1 else r"(4 d + 3 d_{ff})"
    factors = (
        Factor("n", tokens, "tokens"),
        Factor("L", shape.layers, "layers"),
        Factor(rf"{widths} \cdot 2", each, "bytes"),
    )
    share = Factor(r"e_\text{act}", float(gpu.activation_hbm_efficiency))
    return Term(factors, (share, Factor("B", float(gpu.hbm_bytes_per_s), "bytes/s")), "activations")


def launch_factors(inputs: Inputs) -> tuple[Factor, Factor]:
    each = Factor(r"t_\text{launch}", float(inputs.gpu.launch_s_per_layer), "s")
    return Factor("L", inputs.shape.layers, "layers"), each


def chunk_line(name: str, inputs: Inputs, step_s: Callable[..., Any], first: float, full: float, last: float) -> Line:
    """`full` chunks of `first` tokens, and beside them one of `last` tokens where there is one."""

    def seconds(tokens: float) -> float:
        return float(step_s(tokens, inputs.shape, inputs.gpu, tp=inputs.tp))

    each = Factor(r"t_\text{step}", seconds(first), "s")
    terms = [Term((Factor("k", full, "steps"), each), part=name)]
    if last:
        terms.append(Term((Factor(r"t_\text{last}", seconds(last), "s"),), part=name))
    return Line(name, rf"t_\text{{{name}}}", tuple(terms), "s", f"timing.step_time.{step_s.__name__}")


def as_term(line: Line) -> Term:
    """A line's result as a term of the next."""
    return Term((Factor(line.symbol, line.value, line.unit),), part=line.terms[0].part)


def split(tp: float) -> tuple[Factor, ...]:
    """The GPUs that share the work, where there are several."""
    return (Factor("tp", tp, "GPUs"),) if tp > 1 else ()


def _peak(inputs: Inputs) -> Factor:
    return Factor("F", float(inputs.gpu.peak_flop_per_s), "FLOP/s")
