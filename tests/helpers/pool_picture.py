"""Who holds how much of the KV pool at one time of a simulated run: what a picture of the pool is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvmodel.simulation.results import Results


@dataclass(frozen=True, eq=False)
class Holders:
    """Those in the batch at one time, in the order of their admission. Arrays of one length.

    `blocks` are as of steps between the known ends of a prefill or of a time of decoding, along a straight line.
    """

    request: NDArray[np.int64]
    blocks: NDArray[np.int64]
    decoding: NDArray[np.bool_]  # else it prefills
    preempted_before: NDArray[np.bool_]


def holders(results: Results, time_s: float, block_tokens: int) -> Holders:
    """Who is in the batch at `time_s`, with the blocks that they hold. Those that wait or load are not in it."""
    stays = results.stays
    here = np.flatnonzero((stays.admitted_s <= time_s) & ~(stays.left_s <= time_s))
    began, decodes, left = stays.admitted_s[here], stays.decoding_s[here], stays.left_s[here]
    decoding = decodes <= time_s
    start = np.where(decoding, decodes, began)
    end = np.where(decoding | np.isnan(decodes), left, decodes)
    at_start = np.where(decoding, stays.prefill_tokens[here], stays.cached_tokens[here])
    at_end = np.where(decoding | np.isnan(decodes), stays.left_tokens[here], stays.prefill_tokens[here])
    with np.errstate(invalid="ignore", divide="ignore"):
        gone = np.where(end > start, (time_s - start) / (end - start), 0.0)
    tokens = at_start + np.nan_to_num(gone) * np.nan_to_num(at_end - at_start)
    request = stays.request[here]
    earlier = {int(one) for one in stays.request[stays.left_s <= time_s]}
    return Holders(
        request=request,
        blocks=np.ceil(tokens / block_tokens).astype(np.int64),
        decoding=decoding,
        preempted_before=np.array([int(one) in earlier for one in request], bool),
    )
