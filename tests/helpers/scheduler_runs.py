"""Runs of the scheduler for tests: from the form of data/oracle, or under any policy with its invariants watched."""

from kvmodel.inputs.case import Case
from kvmodel.scheduler import loop
from kvmodel.scheduler.clock import StepCount
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.state import Requests, Settings, State
from kvmodel.scheduler.vllm import VLLM_V1
from kvmodel.simulation.simulate import step_inputs
from kvmodel.simulation.step_clock import StepTimes

INPUTS = step_inputs(Case())


def settings_of(config):
    return Settings(
        num_blocks=config["num_blocks"],
        block_tokens=config["block_size"],
        max_num_seqs=config["max_num_seqs"],
        max_num_batched_tokens=config["max_num_batched_tokens"],
        watermark=config["watermark"],
        prefix_caching=config["prefix_caching"],
        by_priority=config["policy"] == "priority",
        host_blocks=config.get("host_blocks", 0),
    )


def requests_of(rows):
    names = ("prompt_tokens", "output_tokens", "arrival_step", "priority")
    return Requests(*([row[name] for row in rows] for name in names))


def held_blocks(state):
    """What everybody in the batch, loading or loaded holds, worked out from their tokens."""
    decoding = sum(state.blocks(base + state.decode_steps - 1) for base in state.decoding.values())
    filling = state.filling_blocks if state.filling is not None else 0
    loading = [request for _, request in state.loading]
    return decoding + filling + sum(state.blocks(state.tokens[request]) for request in [*loading, *state.loaded])


def watched(requests, settings, policy=VLLM_V1, clock=None, every=1.0):
    """A run of which each turn leaves as many blocks free as nobody holds. The state at the end."""
    number = len(requests.prompt_tokens)
    state = State(requests, settings, policy, clock or StepCount(), Log(number, every))
    while not state.stuck and loop.turn(state):
        assert 0 <= state.pool.free <= state.pool.total
        assert state.pool.total - state.pool.free == held_blocks(state)
        assert len(state.running) <= settings.max_num_seqs
    return state


def result_of(state):
    """As in the files of data/oracle, all preemptions and resumes listed."""
    log, arrival = state.log, state.requests.arrival
    in_order = sorted(log.preemptions, key=lambda event: (event[0], arrival[event[1]], event[1]))
    named = ("step", "request", "tokens", "cached_tokens", "waited_steps")
    return {
        "last_step": state.clock.now - 1,
        "tokens_computed": log.tokens_prefilled + log.tokens_decoded,
        "preemption_events": log.preemption_events,
        "distinct_preempted": sum(times > 0 for times in log.preemptions_of),
        "preemptions": [dict(zip(named[:3], event, strict=True)) for event in in_order],
        "resumes": [dict(zip(named, event, strict=True)) for event in log.resumes],
        "finish_step": [end - 1 for end in log.finished_at],
    }


def least_tokens(requests):
    """Tokens that have to be computed once: all but the last of each request."""
    return sum(requests.prompt_tokens) + sum(requests.output_tokens) - len(requests.prompt_tokens)


class OneStepCount(StepCount):
    """Takes no steps together."""

    def decode(self, steps, until):
        return super().decode(1, until)


class OneStepTimes(StepTimes):
    def decode(self, steps, until):
        return super().decode(1, until)
