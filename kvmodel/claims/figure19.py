"""Figure 19a of the vLLM paper, rebuilt from its published scripts.

OPT-13B in fp16 on an A100-40GB, 256 tokens: swap is one copy per block, layer and K or V, out and in; recompute
is one whole request, which the plotting script multiplies by 0.9.

Source: Kwon et al. 2023, section 7.3; its artifact's benchmark_swap.py, benchmark_recomp.py, plot_fig19_a.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvmodel import catalog
from kvmodel.arrays import Floats, Numbers
from kvmodel.catalog import assumptions
from kvmodel.inputs.case import BYTES_PER_VALUE
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even
from kvmodel.timing import transfer
from kvmodel.units import MS

MODEL, GPU, LINK, LAYOUT = "opt-13b", "a100-sxm4-40gb", "pcie4-x16-cloud-2023", "per-layer-kv"
BLOCK_TOKENS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])


@dataclass(frozen=True)
class Figure19:
    """The two series. `ratio` is recompute over swap as plotted, `ratio_measured` without the script's factor."""

    block_tokens: Floats
    swap_s: Floats
    recompute_plotted_s: float
    recompute_measured_s: float
    ratio: Floats
    ratio_measured: Floats
    crossing_block_tokens: float
    crossing_plotted_block_tokens: int


def swap_s(block_tokens: Numbers, *, link: str = LINK) -> Floats:
    """Out and in of the figure's 256 tokens, for any block size and catalog link. [s]"""
    model, copied_over = catalog.model(MODEL), catalog.link(link)
    tokens = assumptions.value("figure19", "tokens")
    size = kv_cache.kv_bytes_in_blocks(
        model.kv_layers, tokens, block_tokens=block_tokens, bytes_per_value=BYTES_PER_VALUE["fp16"]
    )
    copies = kv_cache.copies(model.kv_layers, tokens, block_tokens=block_tokens, layout=LAYOUT)
    out_s = transfer.copy_s(
        copies, size, per_copy_s=copied_over.per_copy_d2h_s, link_bytes_per_s=copied_over.d2h_bytes_per_s
    )
    in_s = transfer.copy_s(
        copies, size, per_copy_s=copied_over.per_copy_h2d_s, link_bytes_per_s=copied_over.h2d_bytes_per_s
    )
    return out_s + in_s


def figure19() -> Figure19:
    """The series, their ratio, and the block size at which they cross: solved, and the nearest one plotted."""
    measured_s = assumptions.value("figure19", "recompute_measured_ms") * MS
    plotted_s = measured_s * assumptions.value("figure19", "plotted_factor")
    swapped_s = swap_s(BLOCK_TOKENS)
    crossing = break_even.bisect(lambda block: plotted_s - _unrounded_swap_s(block), 1.0, float(BLOCK_TOKENS[-1]))
    return Figure19(
        block_tokens=BLOCK_TOKENS,
        swap_s=swapped_s,
        recompute_plotted_s=plotted_s,
        recompute_measured_s=measured_s,
        ratio=plotted_s / swapped_s,
        ratio_measured=measured_s / swapped_s,
        crossing_block_tokens=crossing,
        crossing_plotted_block_tokens=int(BLOCK_TOKENS[np.argmin(np.abs(np.log(BLOCK_TOKENS / crossing)))]),
    )


def _unrounded_swap_s(block_tokens: Numbers) -> Floats:
    """Between the plotted block sizes: the per-copy part falls as one over the block size, the rest stays."""
    single, whole = swap_s(np.array([1, assumptions.value("figure19", "tokens")]))
    copying_s = (single - whole) / (1 - 1 / assumptions.value("figure19", "tokens"))
    return np.asarray(single - copying_s * (1 - 1 / np.asarray(block_tokens)))
