"""The answers of `simulate` and `pressure` as text for people; each function takes the JSON answer."""

from __future__ import annotations

from typing import Any

from kvmodel.texts.answers import name_value_lines, seconds, table
from kvmodel.units import format_count, format_gb, format_percent, significant

Answer = dict[str, Any]
MOST_LINES = 10


def simulate(answer: Answer) -> str:
    lines = name_value_lines(
        ("preemptions", format_count(answer["preemption_events"])),
        ("requests preempted", format_count(answer["distinct_preempted"])),
        ("last step", format_count(answer["last_step"])),
        ("tokens computed", format_count(answer["tokens_computed"])),
        ("requests finished", format_count(len(answer["finish_step"]))),
        ("livelocked", format_count(len(answer["livelocked_requests"])) + " requests preempted again and again"),
    )
    if not answer["preemptions"]:
        return lines
    events = [
        (str(event["step"]), what, str(event["request"]), str(event["tokens"]), str(event.get("cached_tokens", "")))
        for what in ("preempted", "resumed")
        for event in answer["preemptions" if what == "preempted" else "resumes"]
    ]
    events.sort(key=lambda event: int(event[0]))
    event_table = table([("step", "event", "request", "tokens", "cached"), *events[:MOST_LINES]])
    more = len(events) - MOST_LINES
    return f"{lines}\n\n{event_table}" + (f"\n... {more} more, all of them with --json" if more > 0 else "")


def pressure(answer: Answer) -> str:
    heading = f"{format_count(answer['finished'])} of {format_count(answer['requests'])} requests finished"
    if answer["outcome"] != "finished":
        heading += f"; the run could not go on: {answer['outcome']}"
    spreads = [["", "mean", "p50", "p99"]]
    for key, name in (("ttft_s", "first token"), ("tpot_s", "later tokens"), ("end_to_end_s", "whole answer")):
        spreads.append([name, *(seconds(answer[key][part]) for part in ("mean", "p50", "p99"))])
    spreads.append(["between tokens", "", *(seconds(answer["itl_s"][part]) for part in ("p50", "p99"))])
    usage = _percent(answer["kv_usage_mean"])
    return "\n\n".join(
        [
            heading,
            table(spreads),
            name_value_lines(
                ("time of the run", seconds(answer["makespan_s"])),
                ("requests a second", _number(answer["requests_per_s"])),
                ("output tokens a second", _number(answer["output_tokens_per_s"])),
                ("within the objective", f"{_percent(answer['good_share'])} of requests"),
                ("preemptions", f"{answer['preemptions']}, {_number(answer['preemptions_per_100'])} per 100 requests"),
                ("requests preempted", _percent(answer["preempted_share"])),
                ("recomputed", f"{_percent(answer['recompute_tax'])} of prefilled tokens"),
                ("GPU time lost", seconds(answer["gpu_lost_s"])),
                ("host link", format_gb(answer["link_bytes"]) if answer["link_bytes"] else "nothing"),
                ("longest gap between two tokens", seconds(answer["worst_gap_s"])),
                ("mean wait for admission", seconds(answer["queue_s"])),
                ("blocks to give out", f"{format_count(answer['pool_blocks'])}, {usage} in use"),
                ("at most", f"{answer['running_most']} running, {answer['waiting_most']} waiting"),
                ("livelocked", f"{answer['livelocked_requests']} requests preempted again and again"),
                *(("note", note) for note in answer["notes"]),
            ),
        ]
    )


def _number(value: float | None) -> str:
    return "–" if value is None else significant(value, 3)


def _percent(value: float | None) -> str:
    return "–" if value is None else format_percent(value)
