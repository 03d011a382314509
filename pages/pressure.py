"""A server whose KV pool runs out: what preemption costs over time, what another policy would do, and what helps."""

from explorer.frame import frame, places
from explorer.sections import load_curve, pool_player, pressure, remedies


def page() -> None:
    answer, side, rest = places()
    server = pressure.inputs(answer, side, rest)
    with answer:
        runs = pressure.runs(server)
        pressure.lead(server, runs)
        pressure.cards(server, runs)
        pool_player.player(runs, server.case.block_tokens)
        pressure.by_second(server, runs)
    with rest:
        pressure.numbers_table(server, runs)
        load_curve.section(server, runs)
        remedies.section(server)


frame("pressure", page)
