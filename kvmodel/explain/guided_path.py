"""The guided path: steps that each set a Case and ask one question; the answers are the model's, worked out here."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvmodel import catalog, limits
from kvmodel.catalog import assumptions, prices
from kvmodel.catalog.prices import MOST_UTILIZATION
from kvmodel.errors import CaseError
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory import gpu_memory, kv_cache
from kvmodel.recovery import break_even, felt, resolve
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.recovery.felt import Felt
from kvmodel.units import GB, KIB, MS
from kvmodel.words import say

UNITS = {"KiB": KIB, "requests": 1, "ms": MS, "GB/s": GB, "times": 1}
NEAR = 1.25  # a guess within this ratio of the answer is as good as the model's own band
GUESS = limits.number(0, 999_999_999)
LIMITS = {"events": GUESS, "finished": limits.number(1, GUESS.greatest), "wait_s": limits.number(0.001, GUESS.greatest)}
FILE = "path"


@dataclass(frozen=True)
class Step:
    """One idea: `controls` are shown, `inputs` set, a number in `unit` or one of `options` is asked for."""

    id: str
    number: int
    controls: tuple[str, ...]
    unit: str = ""
    options: tuple[str, ...] = ()
    inputs: tuple[tuple[str, Any], ...] = ()
    beside: str = ""


@dataclass(frozen=True)
class Server:
    """What a server counted: preemptions and finished requests of a time, and how long a request waits. [s]"""

    events: float
    finished: float
    wait_s: float


@functools.cache
def steps() -> tuple[Step, ...]:
    """All steps in order."""
    rows = catalog.table(FILE)["step"]
    return tuple(
        Step(
            **row | {"controls": tuple(row["controls"]), "options": tuple(row.get("options", ())),
                     "inputs": tuple(row.get("inputs", {}).items())},
            number=number,
        )
        for number, row in enumerate(rows, start=1)
    )  # fmt: skip


def step_of(text: str) -> Step:
    """The step of a number as a link writes it. Raises CaseError with one sentence."""
    every = steps()
    place: int = limits.whole(1, len(every)).read("step", text)
    return every[place - 1]


def case_of(step: Step, choices: Mapping[str, Any]) -> Case:
    """The Case of a step: the reader's model, GPU and length, what the step sets, and defaults. Raises CaseError."""
    values = {field: choices[field] for field in catalog.table(FILE)["own"]}
    return Case(**values | dict(step.inputs))


def default_server() -> Server:
    return Server(**{name: assumptions.value("server", name, FILE) for name in ("events", "finished", "wait_s")})


def answer(step: Step, result: Comparison, server: Server) -> float | str:
    """The model's answer: a number in the step's unit, or one of its options. Raises CaseError where there is none."""
    if step.id == "matter":
        return "preemption" if felt.matter(shares_felt(result, server)) == felt.YES else "queue"
    if step.id == "remedy":
        return first_remedy(step.options)
    return NUMBERS[step.id](result, step) / UNITS[step.unit]


def token_bytes(result: Comparison) -> float:
    """KV of one token while every layer grows, over all GPUs. [bytes]"""
    return _token_bytes(result.case)


def _token_bytes(case: Case) -> float:
    kept = case.stored
    one, two = (kv_cache.kv_bytes(kept.layers, tokens, bytes_per_value=kept.bytes_per_value) for tokens in (1, 2))
    return float(two - one)


def every_head_bytes(case: Case) -> float:
    """As :func:`token_bytes` if each query head had a key and a value of its own (multi-head attention). [bytes]"""
    model = catalog.model(case.model)
    values = model.num_attention_heads * (model.qk_head_dim + model.value_head_dim)
    layers = sum(group.layers for group in model.kv_layers if group.key_dim)
    return float(layers * values * BYTES_PER_VALUE[case.kv_dtype])


def budget(case: Case, utilization: float | None = None) -> gpu_memory.MemoryBudget:
    """One GPU's memory."""
    return gpu_memory.memory_budget(
        catalog.model(case.model), catalog.gpu(case.gpu), tp=case.tp, utilization=utilization,
        max_num_batched_tokens=case.max_num_batched_tokens,
    )  # fmt: skip


def requests_held(result: Comparison, pool_bytes: float | None = None) -> int:
    """Requests of the Case's length that the pool holds at a time."""
    pool = float(result.inputs.pool_bytes_per_gpu) if pool_bytes is None else pool_bytes
    return math.floor(pool / float(resolve.moved_bytes(result.inputs, result.inputs.tokens)))


def preemption_s(result: Comparison, server: Server) -> float:
    """GPU time that preemptions can cost a finished request: each at most one prefill alone, shared out. [s]"""
    return felt.preemption_s(server.events, server.finished, float(break_even.recompute_s(result.inputs)))


def shares_felt(result: Comparison, server: Server) -> Felt:
    """What share that has of how long a request waits for its first token."""
    recompute_s = float(break_even.recompute_s(result.inputs))
    return felt.felt(server.events, server.finished, recompute_s, first_token_s=server.wait_s)


def recompute_over_swap(result: Comparison) -> float:
    """How many times as long as swap a recompute takes."""
    return float(break_even.recompute_s(result.inputs) / break_even.swap_s(result.inputs))


def even_rate(result: Comparison) -> float:
    """Break-even copy rate. [bytes/s]"""
    return float(break_even.copy_rate_of_equal_cost(result.inputs))


def beside(result: Comparison, step: Step) -> Comparison:
    """The same Case for the model that a step compares with. Raises DoesNotFit."""
    return compare_case(replace(result.case, model=step.beside))


NUMBERS: dict[str, Callable[[Comparison, Step], float]] = {
    "token": lambda result, step: token_bytes(result),
    "pool": lambda result, step: requests_held(result),
    "copy": lambda result, step: float(break_even.swap_s(result.inputs)),
    "prefill": lambda result, step: float(break_even.recompute_s(result.inputs)),
    "even": lambda result, step: even_rate(result),
    "gqa": lambda result, step: even_rate(result) / even_rate(beside(result, step)),
    "pieces": lambda result, step: float(break_even.swap_s(result.inputs)),
    "paper": lambda result, step: recompute_over_swap(result),
}


def in_order(remedies: tuple[str, ...]) -> tuple[str, ...]:
    """Best first, rows of data/advice.toml."""
    return tuple(sorted(remedies, key=place))


def place(remedy: str) -> tuple[int, int, float]:
    row = prices.advice_row(remedy)
    return prices.place(price_of(remedy), prices.effect_of(row))


def price_of(remedy: str) -> str:
    """The kind of a remedy's price."""
    return str(prices.of_rung(prices.advice_row(remedy), "price"))


def risk_of(remedy: str) -> str:
    """What may go wrong with a remedy, in a few words."""
    return str(prices.of_rung(prices.advice_row(remedy), "risk"))


def first_remedy(remedies: tuple[str, ...]) -> str:
    return in_order(remedies)[0]


def requests_held_after(remedy: str, result: Comparison) -> int:
    """Requests of the Case's length that the pool holds with a remedy; some leave the pool as it is."""
    case = result.case
    if remedy == "utilization":
        return requests_held(result, budget(case, MOST_UTILIZATION).pool_bytes)
    if remedy == "fp8-kv":
        return requests_held(compare_case(replace(case, kv_dtype="fp8")))
    if remedy == "gpus":
        return requests_held(compare_case(replace(case, tp=2 * case.tp)))
    return requests_held(result)


def guess_of(step_id: str, text: str) -> float | str | None:
    """A guess as a link writes it; None for a skipped question. Raises CaseError with one sentence."""
    step = next((step for step in steps() if step.id == step_id), None)
    if step is None:
        ids = ", ".join(step.id for step in steps())
        raise CaseError(say("answers: {given!r} is no step; allowed: {named}", given=step_id[:40], named=ids))
    if text == "skip":
        return None
    possible = limits.one_of(*step.options) if step.options else GUESS
    try:
        guess: float | str = possible.parsed(text)
    except ValueError:
        texts = {"given": text[:40], "step": step.id, "allowed": possible.allowed}
        raise CaseError(say("answers: {given!r} given for {step}; allowed: skip, {allowed}", **texts)) from None
    return guess


def gap(guess: float, answer: float) -> tuple[str, float]:
    """Which way a guess missed ("near", "high", "low", "nothing") and by what factor, at least one."""
    if guess == 0:
        return "nothing", math.inf
    ratio = guess / answer
    if max(ratio, 1 / ratio) <= NEAR:
        return "near", max(ratio, 1 / ratio)
    return ("high", ratio) if ratio > 1 else ("low", 1 / ratio)
