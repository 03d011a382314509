"""How many requests fit, where one GPU's memory goes, what each lever frees, and why a log says something else."""

from explorer.frame import frame, places
from explorer.sections import capacity, start_log


def page() -> None:
    answer, side, rest = places()
    startup, host_gib = capacity.inputs(answer, side, rest)
    with answer:
        plan = capacity.plan_of(startup)
        capacity.lead(plan)
        capacity.memory(plan)
        capacity.lever_effects(startup)
    with rest:
        capacity.host(plan, host_gib)
        start_log.section(startup.case)
        capacity.prints(plan)


frame("capacity", page)
