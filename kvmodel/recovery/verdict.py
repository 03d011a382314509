"""Who wins, by what factor, whether that can be told, and the nearest thing that would turn it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kvmodel.recovery import break_even, resolve
from kvmodel.recovery.break_even import BreakEven
from kvmodel.recovery.resolve import Inputs
from kvmodel.recovery.strategies import Price

COPYING = ("swap", "offload", "both")


@dataclass(frozen=True)
class Contest:
    """Two strategies compared: `factor` is the dearer over the cheaper, None where that is nothing or unknown.

    `winner` is None where no cost is known: the batch that they rest on does not fit.
    """

    winner: str | None
    runner_up: str | None
    factor: float | None
    close: bool


@dataclass(frozen=True)
class Flip:
    """One input at which swap against recompute turns; `times` is how far it is away, as a ratio of at least one."""

    what: str
    now: float
    at: float
    times: float
    then: str


@dataclass(frozen=True)
class Verdict:
    """The best available strategy for an objective, swap against recompute, and what turns that."""

    objective: str
    best: Contest
    swap_or_recompute: Contest
    flips: tuple[Flip, ...]


def verdict(inputs: Inputs, prices: Mapping[str, Price], even: BreakEven) -> Verdict:
    """Judge one case (scalars).

    `wait` is an admission rule, not something done for a request that is already preempted: it wins only where the
    policy has nothing else. "Too close to call" (`close`) is where the low..high intervals overlap.
    """
    acting = [name for name in inputs.available if name != "wait"]
    return Verdict(
        objective=inputs.objective,
        best=contest(inputs, prices, acting or ["wait"]),
        swap_or_recompute=contest(inputs, prices, ["swap", "recompute"]),
        flips=flips(inputs, prices, even),
    )


def contest(inputs: Inputs, prices: Mapping[str, Price], names: list[str]) -> Contest:
    """The cheapest of `names` under the objective, against the next; ties go to the shorter victim delay."""

    def cost(name: str) -> float:
        """Infinite where it is unknown."""
        price = prices[name]
        price_s = float(price.gpu_s if inputs.objective == "gpu-time" else price.victim_delay_s)
        return math.inf if math.isnan(price_s) else price_s

    ranking = sorted(names, key=lambda name: (cost(name), float(prices[name].victim_delay_s)))
    winner, runner_up = ranking[0], ranking[1] if len(ranking) > 1 else None
    if runner_up is not None and math.isinf(cost(winner)):
        return Contest(None, None, None, False)
    if runner_up is None or math.isinf(cost(runner_up)):
        return Contest(winner, runner_up, None, False)
    close = cost(runner_up) * (1 - float(prices[runner_up].band)) <= cost(winner) * (1 + float(prices[winner].band))
    return Contest(winner, runner_up, cost(runner_up) / cost(winner) if cost(winner) > 0 else None, close)


def flips(inputs: Inputs, prices: Mapping[str, Price], even: BreakEven) -> tuple[Flip, ...]:
    """What would turn swap against recompute under the objective, nearest first.

    By the victim's delay the break-evens are those of the first preemption; later ones have longer contexts.
    """
    if inputs.objective == "gpu-time":
        return _flips_by_gpu_time(inputs, prices)
    swap_wins = bool(break_even.swap_s(inputs) < break_even.recompute_s(inputs))
    then = "recompute" if swap_wins else "swap"
    size = float(resolve.moved_bytes(inputs, inputs.tokens))
    copies = float(resolve.copy_count(inputs, inputs.tokens))
    candidates = [
        ("copy_bytes_per_s", float(break_even.effective_copy_bytes_per_s(inputs)), even.copy_bytes_per_s),
        ("bytes_per_copy", size / copies, even.bytes_per_copy),
        ("context_tokens", float(inputs.tokens), even.context_tokens),
    ]
    flip_list = [Flip(what, now, at, max(now / at, at / now), then) for what, now, at in candidates if at is not None]
    if even.survival is not None and swap_wins:
        now = float(inputs.survival)
        flip_list.append(Flip("survival", now, even.survival, (1 - now) / (1 - even.survival), then))
    return tuple(sorted(flip_list, key=lambda flip: flip.times))


def _flips_by_gpu_time(inputs: Inputs, prices: Mapping[str, Price]) -> tuple[Flip, ...]:
    """The copy rate at which a batch that waits for the copies loses as much as by the recompute's marginal cost.

    Nothing turns it where copies run beside the batch: they take none of its time, or a kernel's small share.
    """
    if not inputs.swap_on_compute_stream:
        return ()
    swap_gpu_s, recompute_gpu_s = float(prices["swap"].gpu_s), float(prices["recompute"].gpu_s)
    if not (swap_gpu_s > 0 and recompute_gpu_s > 0):
        return ()
    size = float(prices["swap"].link_bytes / inputs.tp)
    now, at = size / swap_gpu_s, size / recompute_gpu_s
    return (Flip("copy_bytes_per_s", now, at, max(now / at, at / now), "recompute" if at < now else "swap"),)
