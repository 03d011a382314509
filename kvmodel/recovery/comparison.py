"""One Case priced whole: the answer behind the command line, the pages and notebooks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from kvmodel import catalog
from kvmodel.catalog import kv_dtypes
from kvmodel.inputs.case import Case, case_from
from kvmodel.recovery import break_even, costs, resolve, strategies
from kvmodel.recovery.break_even import BreakEven
from kvmodel.recovery.resolve import Inputs
from kvmodel.recovery.strategies import Price
from kvmodel.recovery.verdict import Verdict, verdict
from kvmodel.units import finite_or_none, format_bytes, format_count
from kvmodel.words import say


@dataclass(frozen=True)
class Comparison:
    """A Case with its numbers; prices, break-evens and verdict are worked out when they are asked for."""

    case: Case
    inputs: Inputs

    @cached_property
    def prices(self) -> dict[str, Price]:
        return strategies.price(self.inputs)

    @cached_property
    def even(self) -> BreakEven:
        return break_even.solve(self.inputs)

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.inputs, self.prices, self.even)

    @cached_property
    def wait_for_blocks_s(self) -> float:
        return float(costs.wait_for_blocks_s(self.inputs))

    @property
    def notes(self) -> tuple[str, ...]:
        layers = catalog.model(self.case.model).kv_layers
        return (*kv_dtypes.notes(layers, self.case.kv_dtype), *notes(self.inputs))


def compare_case(case: Case) -> Comparison:
    """Price a Case. Raises DoesNotFit (one sentence) where model or request exceed the GPU's memory."""
    return Comparison(case, resolve.inputs(case))


def notes(inputs: Inputs) -> tuple[str, ...]:
    """What a reader must know about these numbers; empty where nothing is out of the ordinary."""
    if costs.batch_fits(inputs).all():
        return ()
    each = float(resolve.moved_bytes(inputs, inputs.decode_context))
    pool, batch = float(inputs.pool_bytes_per_gpu), float(inputs.decode_batch)
    note = say(
        "decode_batch: {batch} running requests need {size} of KV on each GPU, the pool has {pool}; allowed: up to "
        "{most}; prices that rest on the batch are left out",
        batch=format_count(batch),
        size=format_bytes(each * batch),
        pool=format_bytes(pool),
        most=format_count(pool // each),
    )
    return (note,)


def compare(**choices: Any) -> dict[str, Any]:
    """Price one preempted request: `compare(model="llama-3-8b", gpu="a100-sxm4-80gb", tokens=4096)`.

    Keyword arguments are the fields of :class:`kvmodel.inputs.case.Case`; the result is what
    `python -m kvmodel compare --json` prints. Raises CaseError with one sentence on bad input.
    """
    return as_json(compare_case(case_from(choices)))


def as_json(result: Comparison) -> dict[str, Any]:
    """Plain numbers with units in the keys; None for what is unknown or does not exist."""
    best = result.verdict.best
    return {
        "case": asdict(result.case) | {"link": result.case.link_id},
        "strategies": {
            name: {"available": name in result.inputs.available} | price_as_json(price)
            for name, price in result.prices.items()
        },
        "wait_for_blocks_s": finite_or_none(result.wait_for_blocks_s),
        "effective_copy_bytes_per_s": finite_or_none(break_even.effective_copy_bytes_per_s(result.inputs)),
        "verdict": {
            "winner": best.winner,
            "factor": best.factor,
            "objective": result.verdict.objective,
            "close": best.close,
            "runner_up": best.runner_up,
            "swap_or_recompute": asdict(result.verdict.swap_or_recompute),
            "flips_if": [asdict(flip) for flip in result.verdict.flips],
        },
        "break_even": asdict(result.even),
        "notes": list(result.notes),
    }


PRICE_KEYS = (
    "victim_delay_s", "out_s", "in_s", "gpu_s", "link_bytes", "link_s", "host_bytes", "recomputed_tokens",
    "low_s", "high_s",
)  # fmt: skip


def price_as_json(price: Price) -> dict[str, float | None]:
    return {key: finite_or_none(getattr(price, key)) for key in PRICE_KEYS}
