"""Derive every fitted constant from the measured rows, and write `kvmodel/data/fitted.toml`.

    python -m fitting.fit            write the file
    python -m fitting.fit --check    exit with 1 where the file is not what the rows give

Three fits of logarithmic errors with a soft loss, so that one odd row does not pull: today's kernels and engines
together, the engine of 2023, and the all-reduce over PCIe. The bands are the errors that are left, where a whole GPU or
a whole source was held out of the fit: what a reader meets whose GPU is not among the measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.optimize import least_squares

from fitting import constants
from fitting.constants import START, START_2023, START_PCIE
from fitting.write import FITTED, document
from kvmodel.arrays import Floats
from kvmodel.evidence import measured, step_rows
from kvmodel.evidence.measured import Step
from kvmodel.evidence.step_rows import Rates

SOFT_FROM = 0.05  # errors above 5 % count less than their square
START_WEIGHT = 0.1  # a constant 10 % off its start counts as one row that is 1 % off: it decides where rows do not


def fit(
    rows: Sequence[Step], start: Mapping[str, float], rates: Callable[[Mapping[str, float]], Rates]
) -> dict[str, float]:
    """The constants that bring the model nearest to the rows. Those that no row depends on keep their start."""
    names = list(start)
    seconds = np.array([row.seconds for row in rows])
    begin = np.log(list(start.values()))

    def residuals(logarithms: Floats) -> Floats:
        values = dict(zip(names, np.exp(logarithms), strict=True))
        errors = np.log(step_rows.modelled_s(rows, rates(values)) / seconds)
        return np.concatenate([errors, START_WEIGHT * (logarithms - begin)])

    solved = least_squares(residuals, begin, loss="soft_l1", f_scale=SOFT_FROM)
    return {name: float(value) for name, value in zip(names, np.exp(solved.x), strict=True)}


def of_kinds(*kinds: str) -> list[Step]:
    return [row for row in measured.steps() if step_rows.kind_of(row) in kinds]


MODERN = ("prefill", "linear_sum", "mixed_step")


def fit_modern(rows: Sequence[Step]) -> dict[str, float]:
    """Today's constants. One that only left-out rows would tell is left out too, so that others stand in for it."""
    told = {name: value for name, value in START.items() if any(constants.tells(row, name) for row in rows)}
    return fit(rows, told, constants.modern_rates)


def held_out_errors(key: Callable[[Step], str]) -> Floats:
    """Errors of prefills whose GPU, or whose source, the fit has not seen: each is left out in turn."""
    rows = of_kinds(*MODERN)
    found = []
    for left_out in sorted({key(row) for row in rows}):
        seen = [row for row in rows if key(row) != left_out]
        unseen = [row for row in rows if key(row) == left_out and step_rows.kind_of(row) == "prefill"]
        if unseen:
            found.append(step_rows.relative_errors(unseen, constants.modern_rates(fit_modern(seen))))
    return np.concatenate(found)


def fitted() -> str:
    """The text of the file."""
    modern = fit_modern(of_kinds(*MODERN))
    old = fit(of_kinds("prefill_2023", "decode_2023"), START_2023, lambda values: constants.rates_2023(values, modern))
    pcie = fit(of_kinds("prefill_pcie_tp"), START_PCIE, lambda values: constants.pcie_rates(values, modern))
    errors = {
        "prefill": step_rows.relative_errors(of_kinds("prefill"), constants.modern_rates(modern)),
        "prefill_2023": step_rows.relative_errors(of_kinds("prefill_2023"), constants.rates_2023(old, modern)),
        "prefill_other_gpu": held_out_errors(lambda row: constants.SAME_CHIP.get(row.gpu, row.gpu)),
        "prefill_other_source": held_out_errors(lambda row: row.source),
    }
    return document(modern, old, pcie, errors)


def main(arguments: Sequence[str]) -> int:
    text = fitted()
    if "--check" in arguments:
        return 0 if text == FITTED.read_text(encoding="utf-8") else 1
    FITTED.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
