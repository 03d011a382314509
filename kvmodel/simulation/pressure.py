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


def pressure(case: Case, own: Mapping[str, Any]) -> dict[str, Any]:
    """Totals of a run; `own` are the command's own inputs. Raises CaseError or DoesNotFit: one sentence."""
    return simulated(case, own).totals(slo_ttft_s=own["slo_ttft_s"], slo_tpot_s=own["slo_tpot_ms"] * MS)


def simulated(case: Case, own: Mapping[str, Any]) -> Results:
    """The run itself. Raises CaseError or DoesNotFit: one sentence."""
    return simulate.simulate(case, requests(own), engine(own))


def ladder(case: Case, own: Mapping[str, Any]) -> dict[str, Any]:
    """The remedies in their order, the rule of it, and swap beside recomputing. Raises CaseError or DoesNotFit."""
    rows = remedies.ladder(case, requests(own), own["objective"], engine=engine(own), version=own["engine_version"])
    return {
        "rows": [asdict(row) for row in rows],
        "rule": remedies.RULE,
        "prices": prices.KINDS,
        "swap": remedies.swap_beside_recompute(rows),
    }


def engine(own: Mapping[str, Any]) -> Engine:
    return Engine(
        scheduler=own["scheduler"],
        num_blocks=own["num_blocks"],
        utilization=own["utilization"],
        max_num_seqs=own["max_num_seqs"],
        watermark=own["watermark"],
        host_gib=own["host_gib"],
    )


def require_workload(own: Mapping[str, Any]) -> None:
    """Raises CaseError for an unknown workload, without making its requests."""
    if own["trace"] is None:
        workload.row_of(own["workload"])


def requests(own: Mapping[str, Any]) -> workload.Workload:
    """The named workload, or the requests of a trace file."""
    if own["trace"] is None:
        return workload.named(
            own["workload"],
            own["requests"],
            seed=own["seed"],
            requests_per_s=own["requests_per_s"],
            burstiness=own["burstiness"],
            clients=own["clients"],
        )
    for field in ("workload", "requests_per_s", "burstiness", "clients"):
        if own[field] != questions.INPUTS[field].default:
            raise CaseError(f"{field}: given with --trace; a trace has its own arrivals")
    return workload.first(workload.trace(own["trace"]), own["requests"])
