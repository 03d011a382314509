"""Simulations of the Pressure page: long ones in a process of their own."""

from __future__ import annotations

from explorer import aside
from kvmodel.inputs.case import Case
from kvmodel.simulation import simulate
from kvmodel.simulation.results import Results
from kvmodel.simulation.simulate import Engine
from kvmodel.simulation.workload import Workload

FEW_REQUESTS = 100  # take 20 ms, as long as handing them over


def simulated(case: Case, workload: Workload, engine: Engine) -> Results:
    """As `simulate.simulate`."""
    if len(workload) <= FEW_REQUESTS:
        return simulate.simulate(case, workload, engine)
    return aside.result_of(simulate.simulate, case, workload, engine)
