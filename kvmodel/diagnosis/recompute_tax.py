"""What preemptions cost a server: tokens computed twice, GPU seconds, money. Estimated, since no engine counts it.

Of each preempted request the KV of its context is lost, but for what the prefix cache keeps until it resumes: from
nothing to nearly all, so every figure is a range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvmodel.catalog import assumptions
from kvmodel.diagnosis.request_times import stream_s
from kvmodel.inputs.case import Case
from kvmodel.metrics import histogram
from kvmodel.metrics.era import Era
from kvmodel.metrics.server_rates import Rates
from kvmodel.metrics.server_window import Window
from kvmodel.recovery import costs, felt, resolve
from kvmodel.recovery.felt import Felt
from kvmodel.units import HOUR

Range = tuple[float, float]


@dataclass(frozen=True)
class Tax:
    """Least and most. `prefill_share` is of all prefilled tokens; seconds and money are of the window."""

    lost_tokens: Range
    tokens_per_preemption: Range
    prefill_share: Range | None
    gpu_s: Range | None = None
    gpu_share: float | None = None  # the most of gpu_s over the window's GPU seconds
    money: Range | None = None


def tax(window: Window, rates: Rates, era: Era) -> Tax | None:
    """Tokens lost in a window, None where preemptions or lengths are not reported."""
    counters, events = window.increase.counters, rates.preemptions
    if events is None:
        return None
    exact = lost_exactly(counters)
    if exact is not None:
        lost_tokens = exact
    elif rates.prompt_tokens_per_request is None or rates.output_tokens_per_request is None:
        return None
    else:
        context = rates.prompt_tokens_per_request + rates.output_tokens_per_request / 2
        lost_tokens = events * context
    kept_share = kept_at_most(window, era)
    lost_range = (lost_tokens * (1 - kept_share), lost_tokens)
    prompt = counters.get("prompt_tokens")
    share = None
    if prompt is not None:
        computed = prompt * (1.0 if rates.computed_share is None else rates.computed_share)
        share = tuple(part / (computed + part) if computed + part else 0.0 for part in lost_range)
    each = tuple(part / events for part in lost_range) if events else (0.0, 0.0)
    return Tax(lost_range, each, share)  # type: ignore[arg-type]


def lost_exactly(counters: dict[str, float]) -> float | None:
    """SGLang counts the tokens of its retracted requests."""
    prompt, output = counters.get("lost_prompt_tokens"), counters.get("lost_output_tokens")
    return None if prompt is None or output is None else prompt + output


def kept_at_most(window: Window, era: Era) -> float:
    """The largest share of a victim's KV that the prefix cache may keep: none where it is off, as in V0 by default."""
    switched = window.engine.config.get("enable_prefix_caching", "False" if era.name == "V0" else "True")
    return 0.0 if switched == "False" else assumptions.value("tax", "survival_most", file="diagnosis")


def priced(unpriced: Tax, window: Window, rates: Rates, case: Case, price_per_gpu_hour: float | None) -> Tax:
    """The tax in GPU seconds of all `tp` GPUs, beside the running batch. Raises DoesNotFit for the model."""
    inputs = costs.at(resolve.inputs(case), pool_bytes_per_gpu=np.inf)  # what runs there fits there
    events = rates.preemptions or 0.0
    seconds = []
    for new in unpriced.tokens_per_preemption:
        past = max(unpriced.tokens_per_preemption[1] - new, 0.0)
        seconds.append(events * case.tp * float(costs.prefill_marginal_s(inputs, new, past)))
    low, high = seconds
    window_gpu_s = window.seconds * case.tp if window.seconds else None
    money = None if price_per_gpu_hour is None else (low / HOUR * price_per_gpu_hour, high / HOUR * price_per_gpu_hour)
    return Tax(
        unpriced.lost_tokens,
        unpriced.tokens_per_preemption,
        unpriced.prefill_share,
        gpu_s=(low, high),
        gpu_share=None if window_gpu_s is None else high / window_gpu_s,
        money=money,
    )


def shares_felt(tax: Tax | None, window: Window, rates: Rates, case: Case, *, gpu_named: bool) -> Felt | None:
    """What share preemptions have, at most, of the times that are felt; None where there were none or nothing is known.

    Of a server's whole life nothing is said: all of them may have come in its last hour. Where no GPU was named the
    share of its time is not known, but it is less than that of all prefilled tokens. A stream may wait for blocks
    before it goes on, so each preemption is taken to be one of the longest gaps between tokens.
    """
    if tax is None or not rates.preemptions or window.lifetime:
        return None
    gaps = window.increase.histograms.get("itl")
    of_gaps = None if gaps is None else histogram.share_of_largest(rates.preemptions, gaps)
    if not gpu_named or tax.gpu_s is None or not rates.finished:
        of_prefill = None if tax.prefill_share is None else tax.prefill_share[1]
        return None if of_prefill is None and of_gaps is None else Felt(of_stream=of_gaps, of_gpu_time=of_prefill)
    first_token_s = rates.ttft_s or {}
    of_gpu_time = tax.gpu_share if tax.prefill_share is None else min(tax.gpu_share or 1.0, tax.prefill_share[1])
    shares = felt.felt(
        rates.preemptions,
        rates.finished,
        tax.gpu_s[1] / case.tp / rates.preemptions,
        first_token_s=first_token_s.get("mean"),
        first_token_p99_s=first_token_s.get("p99"),
        stream_s=stream_s(rates),
        of_gpu_time=of_gpu_time,
    )
    return shares if of_gaps is None else replace(shares, of_stream=max(of_gaps, shares.of_stream or 0.0))
