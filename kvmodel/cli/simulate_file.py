"""A run of the scheduler alone as a JSON file: settings and requests in steps, and what the scheduler did with them.

One step is one unit of time: no model and no GPU are meant. The form is that of `tests/data/oracle`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvmodel import files
from kvmodel.errors import CaseError
from kvmodel.scheduler import loop
from kvmodel.scheduler.clock import StepCount
from kvmodel.scheduler.log import Log
from kvmodel.scheduler.state import Requests, Settings
from kvmodel.scheduler.vllm import VLLM_V1

LISTED = 400  # preemptions and resumes that an answer lists
MOST = 2_000_000_000
MOST_REQUESTS = 2_000_000
MOST_CHUNKS = 500_000  # of prefills beyond the first of each, which take a step each
POLICIES = ("fcfs", "priority")
WHOLE = {  # least and greatest; None as default: has to be there
    "block_size": (1, 2**20, None),
    "num_blocks": (1, MOST, None),
    "max_num_seqs": (1, MOST, None),
    "max_num_batched_tokens": (1, MOST, None),
}
REQUEST = {
    "prompt_tokens": (1, MOST, None),
    "output_tokens": (1, MOST, None),
    "arrival_step": (0, MOST, None),
    "priority": (-MOST, MOST, 0),
}
CONFIG = (*WHOLE, "prefix_caching", "watermark", "policy")


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
            {"step": int(step), "request": request, "tokens": tokens} for step, request, tokens in in_order[:LISTED]
        ],
        "resumes": [
            {
                "step": int(step),
                "request": request,
                "tokens": tokens,
                "cached_tokens": cached,
                "waited_steps": int(waited),
            }
            for step, request, tokens, cached, waited in log.resumes[:LISTED]
        ],
        "livelocked_requests": sorted(log.no_progress),
    }


def read(path: str) -> tuple[Settings, Requests]:
    """Settings and requests of a file. Raises CaseError."""
    try:
        text = files.read_text(path)
    except OSError as error:
        raise CaseError(f"file: {path}: cannot be read: {error.strerror}") from None
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
        raise CaseError(f"file: {_echo(content)} given; allowed: an object with config and requests")
    config, rows = content.get("config"), content.get("requests")
    if not isinstance(config, Mapping):
        raise CaseError(f"config: {_echo(config)} given; allowed: an object with {', '.join(WHOLE)}")
    if not isinstance(rows, list) or not rows:
        raise CaseError(f"requests: {_echo(rows)} given; allowed: a list of one request or more")
    settings = _settings(config)
    if len(rows) > MOST_REQUESTS:
        raise CaseError(f"requests: {len(rows):,} given; allowed: up to {MOST_REQUESTS:,}")
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
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise CaseError(f"file: {twice[:40]!r} stands twice in one object; allowed: each name once")
    return found


def _settings(config: Mapping[str, Any]) -> Settings:
    for field in config:
        if field not in CONFIG:
            raise CaseError(f"config: {field[:40]!r} is not a setting; allowed: {', '.join(CONFIG)}")
    whole = {field: _whole(f"config.{field}", config.get(field), *limits) for field, limits in WHOLE.items()}
    policy, caching = config.get("policy", "fcfs"), config.get("prefix_caching", True)
    watermark = config.get("watermark", 0.0)
    if policy not in POLICIES:
        raise CaseError(f"config.policy: {_echo(policy)} given; allowed: {', '.join(POLICIES)}")
    if not isinstance(caching, bool):
        raise CaseError(f"config.prefix_caching: {_echo(caching)} given; allowed: true, false")
    if isinstance(watermark, bool) or not isinstance(watermark, int | float) or not 0 <= watermark <= 1:
        raise CaseError(f"config.watermark: {_echo(watermark)} given; allowed: a share from 0 to 1")
    return Settings(
        num_blocks=whole["num_blocks"],
        block_tokens=whole["block_size"],
        max_num_seqs=whole["max_num_seqs"],
        max_num_batched_tokens=whole["max_num_batched_tokens"],
        watermark=watermark,
        prefix_caching=caching,
        by_priority=policy == "priority",
    )


def _request(row: object, number: int, settings: Settings) -> dict[str, int]:
    name = f"requests[{number}]"
    if not isinstance(row, Mapping):
        raise CaseError(f"{name}: {_echo(row)} given; allowed: an object with {', '.join(REQUEST)}")
    for field in row:
        if field not in REQUEST:
            raise CaseError(f"{name}: {field[:40]!r} is no field of a request; allowed: {', '.join(REQUEST)}")
    values = {field: _whole(f"{name}.{field}", row.get(field), *limits) for field, limits in REQUEST.items()}
    tokens = values["prompt_tokens"] + values["output_tokens"]
    most = settings.num_blocks * settings.block_tokens + 1  # the last token is never computed
    if tokens > most:
        raise CaseError(
            f"{name}: prompt_tokens + output_tokens is {tokens:,}, which never fits; allowed: up to {most:,}, "
            f"what {settings.num_blocks:,} blocks of {settings.block_tokens:,} tokens hold"
        )
    return values


def _whole(field: str, value: object, least: int, greatest: int, default: int | None) -> int:
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= greatest:
        raise CaseError(f"{field}: {_echo(value)} given; allowed: a whole number from {least:,} to {greatest:,}")
    return value


def _echo(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, default=str)[:40]
