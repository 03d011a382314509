"""A Case under a workload by the inputs of a command: the run, its totals, and the remedies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kvmodel.catalog import prices
from kvmodel.errors import CaseError
from kvmodel.inputs import questions
from kvmodel.inputs.case import Case
from kvmodel.simulation import remedies, simulate, workload
from kvmodel.simulation.results import Results
from kvmodel.simulation.simulate import Engine
from kvmodel.units import MS


def pressure(case: Case, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Totals of a run; `inputs` are the command's own inputs. Raises CaseError or DoesNotFit: one sentence."""
    return results_of(case, inputs).totals(slo_ttft_s=inputs["slo_ttft_s"], slo_tpot_s=inputs["slo_tpot_ms"] * MS)


def results_of(case: Case, inputs: Mapping[str, Any]) -> Results:
    """The run itself. Raises CaseError or DoesNotFit: one sentence."""
    return simulate.simulate(case, requests(inputs), engine(inputs))


def ladder(case: Case, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The remedies in their order, the rule of it, and swap beside recomputing. Raises CaseError or DoesNotFit."""
    rows = remedies.ladder(
        case, requests(inputs), inputs["objective"], engine=engine(inputs), version=inputs["engine_version"]
    )
    return {
        "rows": [asdict(row) for row in rows],
        "rule": remedies.RULE,
        "prices": prices.KINDS,
        "swap": remedies.swap_beside_recompute(rows),
    }


def engine(inputs: Mapping[str, Any]) -> Engine:
    return Engine(
        scheduler=inputs["scheduler"],
        num_blocks=inputs["num_blocks"],
        utilization=inputs["utilization"],
        max_num_seqs=inputs["max_num_seqs"],
        watermark=inputs["watermark"],
        host_gib=inputs["host_gib"],
    )


def require_workload(inputs: Mapping[str, Any]) -> None:
    """Raises CaseError for an unknown workload, without making its requests."""
    if inputs["trace"] is None:
        workload.row_of(inputs["workload"])


def requests(inputs: Mapping[str, Any]) -> workload.Workload:
    """The named workload, or the requests of a trace file."""
    if inputs["trace"] is None:
        return workload.by_name(
            inputs["workload"],
            inputs["requests"],
            seed=inputs["seed"],
            requests_per_s=inputs["requests_per_s"],
            burstiness=inputs["burstiness"],
            clients=inputs["clients"],
        )
    for field in ("workload", "requests_per_s", "burstiness", "clients"):
        if inputs[field] != questions.INPUTS[field].default:
            raise CaseError(f"{field}: given with --trace; a trace has its own arrivals")
    return workload.first(workload.trace(inputs["trace"]), inputs["requests"])
