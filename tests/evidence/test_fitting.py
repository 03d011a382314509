"""The committed constants are what the measured rows give, and a fit finds constants that are known."""

import tomllib

import numpy as np
import pytest

from fitting import constants, fit
from fitting.write import FITTED
from kvmodel.evidence import step_rows


def figures(table, path=()):
    for key, row in table.items():
        if isinstance(row, dict) and "value" in row:
            yield (*path, key), row
        elif isinstance(row, dict):
            yield from figures(row, (*path, key))


def test_the_committed_file_is_what_the_script_gives():
    """To half a percent: a solver on another processor ends a digit apart."""
    again = dict(figures(tomllib.loads(fit.fitted())))
    committed = dict(figures(tomllib.loads(FITTED.read_text(encoding="utf-8"))))
    assert again.keys() == committed.keys()
    for key, row in committed.items():
        assert again[key]["value"] == pytest.approx(row["value"], rel=0.005), key
        assert {**again[key], "value": 0, "note": ""} == {**row, "value": 0, "note": ""}, key


def test_a_fit_finds_the_constants_that_made_the_rows():
    rows = fit.of_kinds(*fit.MODERN)
    known = constants.START | {"gemm a100-sxm4-80gb": 0.65, "attention": 0.5, "engine h100-sxm5-80gb": 1.3}
    made = [
        type(row)(**{**vars(row), "seconds": float(seconds)})
        for row, seconds in zip(rows, step_rows.modelled_s(rows, constants.modern_rates(known)), strict=True)
    ]
    found = fit.fit(made, constants.START, constants.modern_rates)
    for name in ("gemm a100-sxm4-80gb", "attention", "engine h100-sxm5-80gb", "launch_s_per_layer"):
        assert found[name] == pytest.approx(known[name], rel=0.02), name


def test_one_odd_row_does_not_pull():
    rows = fit.of_kinds(*fit.MODERN)
    odd = [*rows[:-1], type(rows[-1])(**{**vars(rows[-1]), "seconds": 10 * rows[-1].seconds})]
    plain, pulled = (fit.fit_modern(which) for which in (rows, odd))
    assert pulled["attention"] == pytest.approx(plain["attention"], rel=0.02)


@pytest.mark.parametrize("chip", constants.GEMM_CHIPS)
def test_a_chip_that_no_row_tells_of_takes_the_median_of_the_others(chip):
    others = {name: value for name, value in constants.START.items() if name != f"gemm {chip}"}
    others |= {f"gemm {name}": 0.5 + 0.01 * index for index, name in enumerate(constants.GEMM_CHIPS) if name != chip}
    assert constants.share(others, "gemm", chip) == pytest.approx(
        np.median([value for name, value in others.items() if name.startswith("gemm ")])
    )
