"""The numbers of the guided path as strings with units, ready to stand in its sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvmodel import catalog
from kvmodel.claims.figure19 import figure19
from kvmodel.errors import CaseError
from kvmodel.explain import formula, guided_path, kv_formulas
from kvmodel.explain.guided_path import Server, Step
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even, resolve
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.texts.comparison import case_texts, figure19_texts
from kvmodel.timing import step_time
from kvmodel.units import (
    GB,
    KIB,
    MS,
    NONE,
    format_bytes,
    format_count,
    format_percent,
    format_rate,
    format_ratio,
    format_seconds,
    significant,
)
from kvmodel.words import say

Texts = dict[str, str]
IN_UNIT: dict[str, Callable[[float], str]] = {  # a number of a step in words: guesses and answers alike
    "KiB": lambda number: format_bytes(number * KIB),
    "requests": lambda number: say("{count} requests", count=format_count(number)),
    "ms": lambda number: format_seconds(number * MS),
    "GB/s": lambda number: format_rate(number * GB),
    "times": format_ratio,
}


def step_texts(step: Step, result: Comparison, server: Server) -> Texts:
    """Placeholder name -> text, for what comes before the question and after it."""
    return case_texts(result) | OF_STEP[step.id](step, result, server)


def gap_texts(step: Step, guess: float, answer: float) -> tuple[str, Texts]:
    """Which sentence says how far a guess was off, and its numbers."""
    which, factor = guided_path.gap(guess, answer)
    as_text = IN_UNIT[step.unit]
    return which, {"guess": as_text(guess), "answer": as_text(answer), "factor": format_ratio(factor)}


def token(step: Step, result: Comparison, server: Server) -> Texts:
    model = catalog.model(result.case.model)
    one, every = guided_path.token_bytes(result), guided_path.every_head_bytes(result.case)
    made_of = kv_formulas.kv(result.case)[0]
    return {
        "made_of": " + ".join(map(formula.numbers, made_of.terms)),
        "token_bytes": f"{format_count(one)} B",
        "token_kib": format_bytes(one),
        "every_head": format_bytes(every),
        "heads": format_count(model.num_attention_heads),
        "kv_heads": format_count(model.num_key_value_heads),
        "layers": format_count(model.num_hidden_layers),
        "kv_dtype": result.case.kv_dtype,
        "head_factor": format_ratio(every / one),
    }


def pool(step: Step, result: Comparison, server: Server) -> Texts:
    budget = guided_path.budget(result.case)
    return {
        "memory": format_bytes(budget.total_bytes),
        "usable": format_bytes(budget.usable_bytes),
        "weights": format_bytes(budget.weight_bytes),
        "activations": format_bytes(budget.activation_bytes),
        "engine": format_bytes(budget.engine_bytes),
        "held": format_count(guided_path.requests_held(result)),
    }


def copy(step: Step, result: Comparison, server: Server) -> Texts:
    swap_s = float(break_even.swap_s(result.inputs))
    link = catalog.link(result.case.link_id)
    size_bytes = 2 * float(resolve.moved_bytes(result.inputs, result.inputs.tokens))
    return {
        "swap": format_seconds(swap_s),
        "wire_rate": format_rate(link.link_bytes_per_s, digits=3),
        "wire": format_seconds(size_bytes / link.link_bytes_per_s),
    }


def prefill(step: Step, result: Comparison, server: Server) -> Texts:
    inputs, case = result.inputs, result.case
    again_s, swap_s = float(break_even.recompute_s(inputs)), float(break_even.swap_s(inputs))
    slower, faster = ("recompute", "swap") if again_s > swap_s else ("swap", "recompute")
    return {
        "recompute": format_seconds(again_s),
        "swap": format_seconds(swap_s),
        "slower": say(slower),
        "faster": say(faster),
        "factor": format_ratio(max(again_s / swap_s, swap_s / again_s)),
        "floor": format_seconds(float(step_time.floor_s(case.tokens, 0, inputs.shape, inputs.gpu, tp=case.tp))),
        "parameters": say("{number} billion", number=significant(inputs.shape.layer_parameters / GB, 2)),
    }


def even(step: Step, result: Comparison, server: Server) -> Texts:
    margin = float(break_even.effective_copy_bytes_per_s(result.inputs)) / guided_path.even_rate(result)
    return prefill(step, result, server) | {
        "even_rate": format_rate(guided_path.even_rate(result)),
        "margin": format_ratio(max(margin, 1 / margin)),
        "side": say("above" if margin > 1 else "below"),
    }


def gqa(step: Step, result: Comparison, server: Server) -> Texts:
    texts: Texts = {}
    for name, each in (("many", result), ("few", guided_path.beside(result, step))):
        model = catalog.model(each.case.model)
        texts |= {
            f"{name}_model": model.label,
            f"{name}_kv_heads": format_count(model.num_key_value_heads),
            f"{name}_token": format_bytes(guided_path.token_bytes(each)),
            f"{name}_recompute": format_seconds(float(break_even.recompute_s(each.inputs))),
            f"{name}_even": format_rate(guided_path.even_rate(each)),
        }
    ratio = guided_path.even_rate(result) / guided_path.even_rate(guided_path.beside(result, step))
    return texts | {"even_factor": format_ratio(ratio)}


def pieces(step: Step, result: Comparison, server: Server) -> Texts:
    whole = compare_case(replace(result.case, layout="contiguous"))
    now_s, before_s = (float(break_even.swap_s(each.inputs)) for each in (result, whole))
    layers = catalog.model(result.case.model).kv_layers
    a_block = float(kv_cache.copies(layers, 1, block_tokens=result.case.block_tokens, layout=result.case.layout))
    return {
        "swap": format_seconds(now_s),
        "swap_whole": format_seconds(before_s),
        "swap_factor": format_ratio(now_s / before_s),
        "copies_a_block": format_count(a_block),
        "per_copy": format_seconds(float(result.inputs.per_copy_d2h_s)),
        "recompute": format_seconds(float(break_even.recompute_s(result.inputs))),
    }


def paper(step: Step, result: Comparison, server: Server) -> Texts:
    ratio = guided_path.recompute_over_swap(result)
    return figure19_texts(figure19()) | {"own_ratio": format_ratio(ratio)}


def matter(step: Step, result: Comparison, server: Server) -> Texts:
    each_s = guided_path.preemption_s(result, server)
    return {
        "events": format_count(server.events),
        "finished": format_count(server.finished),
        "wait": format_seconds(server.wait_s),
        "per_100": significant(100 * server.events / server.finished, 2),
        "recompute": format_seconds(float(break_even.recompute_s(result.inputs))),
        "each": format_seconds(each_s),
        "share": format_percent(guided_path.shares_felt(result, server).most or 0.0),
    }


def remedy(step: Step, result: Comparison, server: Server) -> Texts:
    prices = result.prices
    return {
        "held": format_count(guided_path.requests_held(result)),
        "recompute": format_seconds(float(prices["recompute"].victim_delay_s)),
        "load": format_seconds(float(prices["offload"].victim_delay_s)),
        "more": format_count(
            guided_path.requests_held_after("utilization", result) - guided_path.requests_held(result)
        ),
    }


def remedy_rows(step: Step, result: Comparison) -> list[tuple[str, str, str, str]]:
    """For each remedy, best first: its id, the kind of its price, its risk, and the requests that then fit."""

    def requests_after(name: str) -> str:
        try:
            return format_count(guided_path.requests_held_after(name, result))
        except CaseError:  # twice the GPUs do not divide the heads
            return NONE

    return [
        (
            name,
            guided_path.price_of(name),
            say(risk) if (risk := guided_path.risk_of(name)) else "",
            requests_after(name),
        )
        for name in guided_path.in_order(step.options)
    ]


OF_STEP: dict[str, Callable[[Step, Comparison, Server], Texts]] = {
    "token": token,
    "pool": pool,
    "copy": copy,
    "prefill": prefill,
    "even": even,
    "gqa": gqa,
    "pieces": pieces,
    "paper": paper,
    "matter": matter,
    "remedy": remedy,
}
