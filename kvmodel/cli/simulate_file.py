"""A run of the scheduler alone as a JSON file: settings and requests in steps, and what the scheduler did with them.

One step is one unit of time: no model and no GPU are meant. The form is that of `tests/data/oracle`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kvmodel import files
from kvmodel.errors import LONGEST_ECHO, CaseError, refused, unusable
from kvmodel.limits import Limits, number, one_of, switch, whole
from kvmodel.scheduler import loop
from kvmodel.scheduler.clock import StepCount
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.state import Requests, Settings
from kvmodel.scheduler.vllm import VLLM_V1
from kvmodel.units import MIB

MOST_LISTED = 400  # preemptions and resumes that an answer lists
MOST = 2_000_000_000
LARGEST_BYTES = 8 * MIB  # 140,000 requests; objects of Python take up to twenty times their text
MOST_CHUNKS = 500_000  # of prefills beyond the first of each, which take a step each
SIZES = {  # have to be there
    "block_size": whole(1, 2**20),
    "num_blocks": whole(1, MOST),
    "max_num_seqs": whole(1, MOST),
    "max_num_batched_tokens": whole(1, MOST),
}
CONFIG = SIZES | {
    "prefix_caching": switch("true, false"),
    "watermark": number(0, 1, "a share from {least} to {greatest}"),
    "policy": one_of("fcfs", "priority"),
}
REQUEST = {
    "prompt_tokens": whole(1, MOST),
    "output_tokens": whole(1, MOST),
    "arrival_step": whole(0, MOST),
    "priority": whole(-MOST, MOST),
}
DEFAULTS = {"prefix_caching": True, "watermark": 0.0, "policy": "fcfs"}


def simulate(path: str) -> dict[str, Any]:
    """What vLLM V1's scheduler does with the settings and requests of a file.

    `preemptions` and `resumes` are the first 400 of each, `finish_step` the step of each request's last token.
    Raises CaseError with one sentence where the file cannot be read or asks for what cannot be.
    """
    settings, requests = read(path)
    clock, log = StepCount(), Log(len(requests.prompt_tokens))
    loop.run(requests, settings, VLLM_V1, clock, log)
    in_order = sorted(log.preemptions, key=lambda event: (event[0], requests.arrival[event[1]], event[1]))
    return {
        "preemption_events": log.preemption_events,
        "distinct_preempted": sum(times > 0 for times in log.preemptions_of),
        "last_step": int(clock.now) - 1,
        "tokens_computed": log.tokens_prefilled + log.tokens_decoded,
        "finish_step": [int(end) - 1 for end in log.finished_at],
        "preemptions": [
            {"step": int(step), "request": request, "tokens": tokens}
            for step, request, tokens in in_order[:MOST_LISTED]
        ],
        "resumes": [
            {
                "step": int(step),
                "request": request,
                "tokens": tokens,
                "cached_tokens": cached_tokens,
                "waited_steps": int(waited_steps),
            }
            for step, request, tokens, cached_tokens, waited_steps in log.resumes[:MOST_LISTED]
        ],
        "livelocked_requests": sorted(log.no_progress),
    }


def read(path: str) -> tuple[Settings, Requests]:
    """Settings and requests of a file. Raises CaseError."""
    try:
        text = files.read_text(path, LARGEST_BYTES)
    except OSError as error:
        raise unusable("file", path, error) from None
    except (UnicodeDecodeError, ValueError):
        raise CaseError(f"file: {path[:100]!r} given; allowed: a JSON file of UTF-8 text") from None
    try:
        content = json.loads(text, object_pairs_hook=_once)
    except CaseError:
        raise
    except (ValueError, RecursionError) as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise CaseError(f"file: {path} is not JSON{where}; allowed: an object with config and requests") from None
    if not isinstance(content, Mapping):
        raise refused("file", as_json(content), "an object with config and requests")
    config, rows = content.get("config"), content.get("requests")
    if not isinstance(config, Mapping):
        raise refused("config", as_json(config), f"an object with {', '.join(SIZES)}")
    if not isinstance(rows, list) or not rows:
        raise refused("requests", as_json(rows), "a list of one request or more")
    settings = _settings(config)
    values = [_request(row, number, settings) for number, row in enumerate(rows)]
    prompts, outputs, arrivals, priorities = ([value[name] for value in values] for name in REQUEST)
    steps = sum((prompt - 1) // settings.max_num_batched_tokens for prompt in prompts)
    if steps > MOST_CHUNKS:
        raise CaseError(
            f"config.max_num_batched_tokens: {settings.max_num_batched_tokens:,} given, which cuts the prompts into "
            f"{steps:,} steps; allowed: a number that cuts them into {MOST_CHUNKS:,} or fewer"
        )
    return settings, Requests(prompts, outputs, [float(step) for step in arrivals], priorities)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names stand in it once each: which of two values counts would be a guess."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise CaseError(f"file: {twice[:40]!r} stands twice in one object; allowed: each name once")
    return values


def _settings(config: Mapping[str, Any]) -> Settings:
    for field in config:
        if field not in CONFIG:
            raise CaseError(f"config: {field[:40]!r} is not a setting; allowed: {', '.join(CONFIG)}")
    values = _read("config", CONFIG, {**DEFAULTS, **config})
    return Settings(
        num_blocks=values["num_blocks"],
        block_tokens=values["block_size"],
        max_num_seqs=values["max_num_seqs"],
        max_num_batched_tokens=values["max_num_batched_tokens"],
        watermark=values["watermark"],
        prefix_caching=values["prefix_caching"],
        by_priority=values["policy"] == "priority",
    )


def _request(row: object, number: int, settings: Settings) -> dict[str, int]:
    name = f"requests[{number}]"
    if not isinstance(row, Mapping):
        raise refused(name, as_json(row), f"an object with {', '.join(REQUEST)}")
    for field in row:
        if field not in REQUEST:
            raise CaseError(f"{name}: {field[:40]!r} is no field of a request; allowed: {', '.join(REQUEST)}")
    values = _read(name, REQUEST, row if row.get("priority") is not None else {**row, "priority": 0})
    tokens = values["prompt_tokens"] + values["output_tokens"]
    most = settings.num_blocks * settings.block_tokens + 1  # the last token is never computed
    if tokens > most:
        raise CaseError(
            f"{name}: prompt_tokens + output_tokens is {tokens:,}, which never fits; allowed: up to {most:,}, "
            f"what {settings.num_blocks:,} blocks of {settings.block_tokens:,} tokens hold"
        )
    return values


def _read(name: str, fields: Mapping[str, Limits], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an object's fields. Raises CaseError."""
    return {
        field: limits.read(f"{name}.{field}", values.get(field), strict=True, shown=as_json)
        for field, limits in fields.items()
    }


def as_json(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, default=str)[:LONGEST_ECHO]
