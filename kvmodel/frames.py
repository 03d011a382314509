"""Answers as pandas DataFrames: their columns are the keys that the matching command prints with `--json`.

pandas is the optional extra "frames".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Any

try:
    import pandas as pd
except ImportError:
    raise ImportError("kvmodel.frames: pandas is missing; pip install kv-cache-recovery-explorer[frames]") from None

from kvmodel.evidence import evidence_answers, measured_points
from kvmodel.inputs.case import Case
from kvmodel.recovery import comparison
from kvmodel.simulation.pressure import results_of
from kvmodel.sweeps import sweep as sweeps
from kvmodel.sweeps.choices import read_choices
from kvmodel.units import MS


def compare(*cases: Case) -> pd.DataFrame:
    """A row a strategy, as `compare --json` has it in `strategies`; the row's label is the strategy.

    Of several cases the labels begin with the inputs in which they differ. Raises DoesNotFit.
    """
    answers = [comparison.as_json(comparison.compare_case(case)) for case in cases]
    differing = [name for name in vars(cases[0]) if len({vars(case)[name] for case in cases}) > 1] if cases else []
    rows = [
        {name: answer["case"][name] for name in differing} | {"strategy": strategy} | price
        for answer in answers
        for strategy, price in answer["strategies"].items()
    ]
    return pd.DataFrame(rows).set_index([*differing, "strategy"])


def sweep(
    over: Mapping[str, Sequence[Any]], what: str = "compare", *, executor: Executor | None = None, **choices: Any
) -> pd.DataFrame:
    """The rows of `sweep --what WHAT`: `sweep({"tokens": [1024, 4096]}, gpu="l40s")`. Raises CaseError."""
    texts = [f"{name}={','.join(map(str, values))}" for name, values in over.items()]
    grid = sweeps.grid_of(what, choices, texts)
    return pd.DataFrame(sweeps.as_table(list(sweeps.rows(what, grid, executor)), list(over)))


def pressure(**choices: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A run of `pressure`, whose inputs these are: a row a request, and a row a second. Raises CaseError, DoesNotFit.

    `good` says which requests kept to the objective. Times are seconds from the start, NaN where a request did not get
    so far.
    """
    sweeps.require_inputs("pressure", choices)
    case, inputs = read_choices(choices, sweeps.inputs_beside_case("pressure"))
    run = results_of(case, inputs)
    times = {"ttft_s": run.requests.ttft_s, "tpot_s": run.requests.tpot_s, "end_to_end_s": run.requests.end_to_end_s}
    good = run.meets(inputs["slo_ttft_s"], inputs["slo_tpot_ms"] * MS)
    requests = pd.DataFrame(vars(run.requests) | times | {"good": good})
    return requests.rename_axis("request"), pd.DataFrame(vars(run.seconds))


def evidence() -> pd.DataFrame:
    """The error table, as `evidence --json` has it in `rows`."""
    return pd.DataFrame(evidence_answers.evidence_answer(None)["rows"])


def measured() -> pd.DataFrame:
    """The measured rows that the error table counts, each beside what the model says. [s]"""
    return pd.DataFrame(
        [asdict(pair) | {"setting": str(pair.setting), "ratio": pair.ratio} for pair in measured_points.pairs()]
    )
