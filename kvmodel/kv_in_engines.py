"""The same request as different engines keep it: hybrid manager on and off, windows in flight, latents written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvmodel import catalog, kv_cache, kv_modes
from kvmodel.case import BYTES_PER_VALUE, Case

EXACT, HYBRID_OFF = "exact", "hybrid-off"


@dataclass(frozen=True)
class Kept:
    """A request of the Case's tokens on each GPU in one mode, and what a further token adds at great length. [bytes]"""

    mode: str
    kv_bytes: float
    growth_bytes_per_token: float


def kept(case: Case) -> list[Kept]:
    """The exact size first, then each way that gives another number for this model.

    "in-flight" adds a step's tokens to each window (vLLM 0.33, `SlidingWindowSpec`), "hybrid-off" keeps all tokens in
    window layers, "index-8-bit" has index keys of 132 bytes, "expanded" is MLA without kernels for it (vLLM up to 0.6).
    """
    model = catalog.model(case.model)
    width = BYTES_PER_VALUE[case.kv_dtype]
    held: dict[str, Any] = {"bytes_per_value": width, "tp": case.tp}
    layers = {
        EXACT: model.kv_layers,
        "in-flight": kv_modes.with_window_slack(model.kv_layers, case.max_num_batched_tokens),
        "index-8-bit": kv_modes.engine_layers(model.kv_layers, width),
        "expanded": kv_modes.expanded_latent(model.kv_layers, model.num_attention_heads, model.qk_head_dim),
    }
    found = [
        Kept(
            mode,
            float(kv_cache.kv_bytes(groups, case.tokens, **held)),
            float(kv_cache.growth_bytes_per_token(groups, **held)),
        )
        for mode, groups in layers.items()
    ]
    none, one, all_tokens = (
        float(kv_cache.kv_bytes_hybrid_off(model.kv_layers, tokens, **held)) for tokens in (0, 1, case.tokens)
    )
    found.insert(1, Kept(HYBRID_OFF, all_tokens, one - none))
    return [way for way in found if way.mode == EXACT or way.kv_bytes != found[0].kv_bytes]
