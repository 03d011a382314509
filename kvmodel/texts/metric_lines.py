"""The numbers of a diagnosis as text, each with the meanings of the metrics that it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvmodel.diagnosis import moments, plain_report
from kvmodel.metrics.server_rates import COMPUTED
from kvmodel.units import NONE, format_bytes, format_count, format_percent, format_rate, format_seconds, significant
from kvmodel.words import say

Answer = dict[str, Any]


class MetricLine(NamedTuple):
    """A number as text, None where it is not reported, and the meanings (`metric_names`) that it is made of."""

    name: str
    text: str | None
    words: tuple[str, ...] = ()


def metric_lines(answer: Answer) -> Iterator[MetricLine]:
    """Each number of an answer; of what few servers have only what there is."""
    state, rates, recompute = answer["state"], answer["rates"], answer["recompute"]
    prompt, output = rates["prompt_tokens_per_request"], rates["output_tokens_per_request"]
    yield MetricLine(say("preemptions per 100 finished"), ratio(answer), ("preemptions", "finished"))
    yield MetricLine(say("preemptions by reason"), reasons(rates["preempted_for"]), ("preempted_for",))
    yield MetricLine(say("  the article's word for it"), band(answer), ("preemptions", "finished"))
    yield MetricLine(say("finished by reason"), reasons(rates["finished_by_reason"]), ("finished",))
    before = state["before"] or state
    at_a_time = at_both_ends(*(pair(moment["running"], moment["waiting"]) for moment in (before, state)))
    yield MetricLine(say("running / waiting"), at_a_time, ("running", "waiting"))
    in_use = at_both_ends(*(text_of(moment["usage"], format_percent) for moment in (before, state)))
    yield MetricLine(say("KV pool in use"), in_use, ("usage",))
    yield MetricLine(say("KV pool"), pool(state), ("pool_tokens", "config"))
    once, twice = span(rates["hit_share"], format_percent), text_of(rates["hit_twice_share"], format_percent)
    yield MetricLine(say("requests hit at least once"), once, ("preempted_times",))
    yield MetricLine(say("requests hit at least twice"), twice, ("preempted_times",))
    hit_text = text_of(rates["prefix_hit_share"], format_percent)
    found = ("prefix_hits", "prefix_queries", "cached_tokens")
    by_gauge = "hit_rate" in answer["names"] and not set(found) & set(answer["names"])
    yield MetricLine(say("found in the prefix cache"), hit_text, ("hit_rate",) if by_gauge else found)
    lengths = ("prompt_length", "output_length")
    totals = ("prompt_tokens", "generation_tokens", "finished")
    words = lengths if prompt is None or set(lengths) <= set(answer["names"]) else totals
    yield MetricLine(say("mean prompt / output"), pair(prompt, output, say("tokens")), words)
    each = text_of(rates["finished_per_s"], lambda rate: say("{rate} a second", rate=significant(rate, 2)))
    yield MetricLine(say("finished requests"), each, ("finished",))
    tokens = text_of(rates["generated_tokens_per_s"], lambda rate: say("{rate} a second", rate=significant(rate, 3)))
    yield MetricLine(say("generated tokens"), tokens, ("generation_tokens",))
    prompts = text_of(rates["prompt_tokens_per_s"], lambda rate: say("{rate} a second", rate=significant(rate, 3)))
    yield MetricLine(say("prompt tokens"), prompts, ("prompt_tokens",))
    yield MetricLine(say("time to the first token"), times(rates["ttft_s"]), ("ttft",))
    times_of = ("ttft", "queue_time", "prefill_time", "decode_time", "itl")
    yield MetricLine(say("the mean request"), request_parts(answer["request_s"]), times_of)
    yield MetricLine(say("time between tokens"), times(rates["itl_s"]), ("itl",))
    yield MetricLine(say("first wait in the queue"), times(rates["queue_time_s"]), ("queue_time",))
    yield from (line for line in seldom_lines(answer) if line.text is not None)
    for way, name in (("load", say("copies to the GPU")), ("store", say("copies from the GPU"))):
        yield MetricLine(name, copy_rate(answer, way), (f"{way}_bytes", f"{way}_time"))
    if recompute is not None and rates["preemptions"]:
        lost_tokens = span(recompute["lost_tokens"], lambda count: say("{count} tokens", count=format_count(count)))
        yield MetricLine(say("computed again, estimated"), lost_tokens, ("preemptions", "lost_prompt_tokens"))
        of_all = span(recompute["prefill_share"], format_percent)
        yield MetricLine(say("  of all prefilled tokens"), of_all, ("prompt_tokens",))
        yield MetricLine(say("  GPU time"), gpu_time(recompute))
        yield MetricLine(say("  money"), money(recompute))
    ranks = answer["ranks"]
    if ranks is not None and len(ranks["seen"]) < ranks["at_least"]:
        counts = {"seen": len(ranks["seen"]), "least": ranks["at_least"]}
        yield MetricLine(say("data-parallel ranks"), say("{seen} seen of at least {least}", **counts))


def copy_rate(answer: Answer, way: str) -> str | None:
    """The rate of copies as measured, beside the model's where that is known."""
    measured, modelled = answer["link"][way], answer["link"][f"model_{way}"]
    if measured is None:
        return None
    text = say("{rate}, as measured", rate=format_rate(measured))
    if modelled is None:
        return text
    return say(
        "{measured}; the model takes {rate} on {gpu}",
        measured=text,
        rate=format_rate(modelled),
        gpu=answer["case"]["gpu"],
    )


def seldom_lines(answer: Answer) -> Iterator[MetricLine]:
    """What only some servers have: limits at admission, tiers behind the GPU, engines that work together."""
    state, rates = answer["state"], answer["rates"]
    yield MetricLine(say("turned away at admission"), reasons(rates["rejected"]), ("rejected",))
    yield MetricLine(say("aborted or failed"), text_of(rates["failed"] or None, format_count), ("failed",))
    by_source = sources(rates["prompt_by_source"])
    words = ("prompt_from",) if "prompt_from" in answer["names"] else ("prompt_tokens", "cached_tokens")
    yield MetricLine(say("prompt tokens by source"), by_source, words)
    outer = text_of(rates["external_hit_share"], format_percent)
    yield MetricLine(say("found in the outer tier"), outer, ("external_hits", "external_queries"))
    waiting = counts_of(state["loads"], plain_report.LOADS)
    yield MetricLine(say("waiting requests by their KV load"), waiting, tuple(plain_report.LOADS))
    other = counts_of(state["other_queues"], plain_report.OTHER_QUEUES)
    yield MetricLine(say("requests in other queues"), other, tuple(plain_report.OTHER_QUEUES))
    host = text_of(state["host_usage"], format_percent)
    yield MetricLine(say("host KV pool in use"), host, ("host_usage", "host_used_tokens", "host_tier_tokens"))
    held = text_of(state["host_held"], format_percent)
    yield MetricLine(say("host KV pool held by copies under way"), held, ("host_held",))
    failed = text_of(rates["stores_failed"] or None, format_count)
    yield MetricLine(say("stores that found no room"), failed, ("stores_failed",))
    dropped = text_of(rates["dropped_tokens"] or None, lambda count: say("{count} tokens", count=format_count(count)))
    yield MetricLine(say("KV dropped without a copy"), dropped, ("dropped_tokens",))
    for way, name in (("tier_read", say("reads behind host memory")), ("tier_write", say("writes behind host memory"))):
        measured = text_of(answer["link"][way], lambda rate: say("{rate}, as measured", rate=format_rate(rate)))
        yield MetricLine(name, measured, (f"{way}_bytes", f"{way}_time"))


def at_both_ends(before: str | None, now: str | None) -> str | None:
    """What two scrapes show, one after the other where they differ."""
    return None if now is None else moments.at_both_ends(before, now)


def request_parts(parts_s: dict[str, float] | None) -> str | None:
    """The mean request from its arrival to its last token, part by part."""
    if parts_s is None:
        return None
    return ", ".join(f"{say(name)} {format_seconds(seconds)}" for name, seconds in parts_s.items())


def ratio(answer: Answer) -> str | None:
    """The ratio, and what it is made of; without finished requests the preemptions alone."""
    rates = answer["rates"]
    if answer["preemptions_per_100"] is None:
        count, finished = rates["preemptions"], rates["finished"]
        if count is None:
            return None
        values = {"count": format_count(count), "finished": "–" if finished is None else format_count(finished)}
        return say("not known ({count} of {finished})", **values)
    return say(
        "{ratio} ({preemptions} of {finished})",
        ratio=significant(answer["preemptions_per_100"], 2),
        preemptions=format_count(rates["preemptions"]),
        finished=format_count(rates["finished"]),
    )


def band(answer: Answer) -> str | None:
    """The article's band of the engine that the verdict is about."""
    several = len(answer["engines"]) > 1 and answer["band"]
    return f"{answer['lead']['name']}: {answer['band']}" if several else answer["band"]


def reasons(counts: dict[str, float]) -> str | None:
    """Finished requests by reason, those that occurred."""
    return ", ".join(f"{format_count(count)} {reason}" for reason, count in counts.items() if count) or None


def counts_of(counts: dict[str, float], names: dict[str, str]) -> str | None:
    """Counts of what there is, each with its name."""
    return ", ".join(f"{format_count(count)} {say(names[word])}" for word, count in counts.items() if count) or None


def sources(tokens: dict[str, float]) -> str | None:
    """Shares of the prompt tokens by where their KV came from, the sources that occurred."""
    every = sum(tokens.values())
    shares = {name: count / every for name, count in tokens.items() if count}
    return ", ".join(f"{format_percent(share)} {source(name)}" for name, share in shares.items()) or None


def source(name: str) -> str:
    """A source of KV as the engine calls it; what was computed as we do."""
    return say("computed") if name == COMPUTED else name


def pool(state: Answer) -> str | None:
    """Size of the pool in tokens, and in bytes where a token's KV is known."""
    if state["pool_tokens"] is None:
        return None
    text = say("{count} tokens", count=format_count(state["pool_tokens"]))
    if state["block_tokens"]:
        text = say("{tokens} in blocks of {block}", tokens=text, block=format_count(state["block_tokens"]))
    return f"{text}, {format_bytes(state['pool_bytes'])}" if state["pool_bytes"] else text


def gpu_time(recompute: Answer) -> str | None:
    """GPU seconds of recomputing, and their share of the window."""
    if recompute["gpu_s"] is None:
        return None
    text = say("{time} on {gpu}", time=span(recompute["gpu_s"], format_seconds), gpu=recompute["gpu"])
    if recompute["gpu_share"] is None:
        return text
    return say("{time}, up to {share} of the window", time=text, share=format_percent(recompute["gpu_share"]))


def money(recompute: Answer) -> str | None:
    """What the GPU time costs, in the currency of the price that was given."""
    return span(recompute["money"], lambda amount: significant(amount, 2))


def text_of(value: float | None, form: Any) -> str | None:
    """A number as text, None where it is not reported."""
    return None if value is None else form(value)


def span(values: list[float] | None, form: Any) -> str | None:
    """Least to most, or one number where they are the same."""
    if values is None:
        return None
    least, most = (form(value) for value in values)
    return str(least) if least == most else say("{least} to {most}", least=least, most=most)


def pair(first: float | None, second: float | None, unit: str = "") -> str | None:
    """Two counts side by side."""
    if first is None and second is None:
        return None
    texts = (NONE if value is None else format_count(value) for value in (first, second))
    return f"{' / '.join(texts)} {unit}".strip()


def times(quantiles: dict[str, float] | None) -> str | None:
    """Mean and quantiles of a time."""
    if quantiles is None:
        return None
    return ", ".join(f"{say(name)} {format_seconds(value)}" for name, value in quantiles.items())
