"""Claims on Figure 19 of the vLLM paper: its ratio, its crossing, and what of it depends on the link of that day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvmodel import catalog
from kvmodel.catalog import assumptions
from kvmodel.claims.figure19 import BLOCK_TOKENS, LINK, MODEL, Figure19, figure19, swap_s
from kvmodel.claims.numbers import Figures
from kvmodel.inputs.case import BYTES_PER_VALUE, Case
from kvmodel.memory import kv_cache
from kvmodel.recovery import resolve
from kvmodel.recovery.comparison import compare_case
from kvmodel.timing import transfer

FASTER_LINK = "pcie4-x16"


def plotted_ratios(case: Case) -> Figures:
    """Recompute over swap at the ends of the figure: as plotted, without the script's factor, and on a faster link."""
    figure = figure19()
    return {
        "crossing_block": figure.crossing_plotted_block_tokens,
        "first_ratio": float(figure.ratio[0]),
        "last_block": float(figure.block_tokens[-1]),
        "last_ratio": float(figure.ratio[-1]),
        "unscaled_ratio": float(figure.ratio_measured[-1]),
        "link_bytes_per_s": catalog.link(LINK).h2d_bytes_per_s,
        "faster_bytes_per_s": catalog.link(FASTER_LINK).h2d_bytes_per_s,
        "faster_ratio": figure.recompute_plotted_s / float(swap_s(BLOCK_TOKENS[-1], link=FASTER_LINK)),
        "tokens": case.tokens,
    }


def middle(case: Case) -> Figures:
    """Recompute over swap at blocks of 16 and 64, in the figure and on a faster link."""
    figure = figure19()
    faster = figure.recompute_plotted_s / swap_s(BLOCK_TOKENS, link=FASTER_LINK)
    low, high = (int(np.flatnonzero(block == BLOCK_TOKENS)[0]) for block in MIDDLE_BLOCKS)
    return {
        "low_block": MIDDLE_BLOCKS[0],
        "high_block": MIDDLE_BLOCKS[1],
        "low_ratio": float(figure.ratio[low]),
        "high_ratio": float(figure.ratio[high]),
        "faster_low_ratio": float(faster[low]),
        "faster_high_ratio": float(faster[high]),
        "faster_bytes_per_s": catalog.link(FASTER_LINK).h2d_bytes_per_s,
    }


MIDDLE_BLOCKS = (16, 64)


def small_copies(case: Case) -> Figures:
    """Swap at the smallest and the largest block of the figure, and the rate that its copies reach."""
    figure = figure19()
    layers = catalog.model(MODEL).kv_layers
    size = 2 * float(kv_cache.kv_bytes(layers, case.tokens, bytes_per_value=BYTES_PER_VALUE["fp16"]))
    return {
        "first_s": float(figure.swap_s[0]),
        "last_s": float(figure.swap_s[-1]),
        "slower_ratio": float(figure.swap_s[0] / figure.swap_s[-1]),
        "first_bytes_per_s": float(transfer.effective_bytes_per_s(size, figure.swap_s[0])),
        "last_bytes_per_s": float(transfer.effective_bytes_per_s(size, figure.swap_s[-1])),
        "last_block": float(figure.block_tokens[-1]),
    }


def recompute_by_block(case: Case) -> Figures:
    """The model's recompute, how much it changes over the figure's block sizes, and how much swap does."""
    figure = figure19()
    by_block_s = [
        float(compare_case(replace(case, block_tokens=int(block))).prices["recompute"].victim_delay_s)
        for block in BLOCK_TOKENS
    ]
    return {
        "kernels_s": by_block_s[0],
        "spread_s": max(by_block_s) - min(by_block_s),
        "last_block": float(figure.block_tokens[-1]),
        "plotted_s": figure.recompute_plotted_s,
        "swap_ratio": float(figure.swap_s[0] / figure.swap_s[-1]),
    }


def plotted_scale(case: Case) -> Figures:
    """The plotted recompute, the measured one, and the factor between them."""
    figure = figure19()
    at_crossing = figure.block_tokens == figure.crossing_plotted_block_tokens
    return {
        "script_factor": assumptions.value("figure19", "plotted_factor"),
        "plotted_s": figure.recompute_plotted_s,
        "measured_s": figure.recompute_measured_s,
        "last_block": float(figure.block_tokens[-1]),
        "last_ratio": float(figure.ratio[-1]),
        "unscaled_ratio": float(figure.ratio_measured[-1]),
        "crossing_block": figure.crossing_plotted_block_tokens,
        "crossing_unscaled_ratio": float(figure.ratio_measured[at_crossing][0]),
    }


def largest_block_won(figure: Figure19) -> float:
    """Largest plotted block size at which recompute is the faster one, to the two digits that a reading is good for."""
    return float(figure.block_tokens[np.round(figure.ratio, 2) < 1][-1])


def wins_by_copy_size(case: Case) -> Figures:
    """Where recompute stops winning: the block size in the figure, and the bytes of one copy for the Case's model."""
    figure = figure19()
    result = compare_case(case)
    size, copies = resolve.moved_bytes(result.inputs, case.tokens), resolve.copy_count(result.inputs, case.tokens)
    return {
        "wins_block": largest_block_won(figure),
        "crossing_block": figure.crossing_plotted_block_tokens,
        "even_bytes": result.even.bytes_per_copy,
        "here_bytes": float(size / copies),
        "here_block": case.block_tokens,
    }
