"""Which layers of a config.json have experts, how many and how wide, under all the names these have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvmodel.hf.attention import Attention
from kvmodel.hf.fields import MOST, Fields, refusal, wrong_length
from kvmodel.hf.layers import Layer
from kvmodel.words import say

COUNT = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts", "num_routed_experts")
PER_TOKEN = (
    "num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_top_k", "moe_k",
    "experts_per_token", "num_selected_experts",
)  # fmt: skip
EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_intermediate_size")
DENSE_WIDTH = (
    "dense_intermediate_size", "intermediate_size_mlp", "decoder_ffn_dim", "intermediate_size", "ffn_dim", "n_inner",
    "ffn_hidden_size", "dff", "inter_size", "d_ff",
)  # fmt: skip
FOUR_TIMES = (  # without a width of their own these classes take four times the hidden size
    "gpt2", "gpt_bigcode", "gptj", "codegen", "gpt_neo", "falcon", "bloom", "mpt", "phi-msft", "rwkv", "rwkv5",
)  # fmt: skip
MOST_WIDENING = 100
PADDED_TWO_THIRDS = ("qwen",)  # `intermediate_size` counts gate and up together


@dataclass(frozen=True)
class Experts:
    """`layers` marks the layers with experts, `no_mlp` those without any MLP; the shared width is of all shared ones.

    `latent` is the width in which the experts work, where that is not the model's own (Nemotron 3 Super).
    """

    count: int
    per_token: int
    width: int
    shared_width: int
    layers: tuple[bool, ...]
    no_mlp: tuple[bool, ...]
    latent: int = 0


def experts(fields: Fields, attention: Attention, layers: list[Layer]) -> Experts:
    """Raises ConfigRefused for a list of another length than the model has layers."""
    number = len(layers)
    bare = bare_layers(fields, number)
    inner = fields.part("ffn_config")
    if inner.has(*COUNT):  # DBRX
        return nested_experts(inner, number, bare)
    count = fields.whole(*COUNT, least=0) or 0
    if count < 2 and not fields.has("moe_intermediate_size"):
        return Experts(0, 0, 0, 0, (False,) * number, bare)
    marks = moe_layers(fields, number)
    if not any(marks) or count == 0:
        return Experts(0, 0, 0, 0, (False,) * number, bare)
    width = fields.whole(*EXPERT_WIDTH)
    if width is None and isinstance(fields.defaults.get("moe_intermediate_size"), int):
        width = fields.size("moe_intermediate_size")
    width = width or fields.size("intermediate_size") or 0
    latent = fields.whole("moe_latent_size", "routed_expert_hidden_size") or 0
    per_token = fields.whole(*PER_TOKEN) or fields.defaults.get("num_experts_per_tok") or 1
    return Experts(count, min(int(per_token), count), width, shared_width(fields, width), tuple(marks), bare, latent)


def nested_experts(inner: Fields, number: int, bare: tuple[bool, ...]) -> Experts:
    """Of a section of their own; all layers have them."""
    count = inner.dimension("the number of experts", *COUNT)
    per_token = min(inner.whole(*PER_TOKEN) or 1, count)
    width = inner.dimension("the experts' width", *EXPERT_WIDTH, "ffn_hidden_size")
    return Experts(count, per_token, width, 0, (True,) * number, bare)


def shared_width(fields: Fields, width: int) -> int:
    """Width of all shared experts together."""
    total_width = fields.whole(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
        "shared_intermediate_size", least=0,
    )  # fmt: skip
    if total_width is not None:
        return total_width
    if fields.model_type == "llama4_text":  # one shared expert as wide as a routed one, which no key states
        return width
    return width * (fields.whole("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", least=0) or 0)


def moe_layers(fields: Fields, number: int) -> list[bool]:
    """Layers with experts, by whichever rule the file has; all of them without one."""
    entries = fields.entries("mlp_layer_types")
    if entries is not None:
        return fitted(fields, "mlp_layer_types", [entry not in ("dense", "mlp") for entry in entries], number)
    kinds = letters(fields)
    if kinds is not None:
        return [kind in ("E", "moe") for kind in kinds][:number]
    if isinstance(fields.section.get("moe_layers_enum"), list):
        numbers = set(fields.numbers("moe_layers_enum") or [])
        return [i in numbers for i in range(number)]
    if isinstance(fields.section.get("moe_layer_freq"), list):
        marks = fields.numbers("moe_layer_freq") or []
        return fitted(fields, "moe_layer_freq", [bool(mark) for mark in marks], number)
    if fields.has("moe_layers_enum"):
        text = fields.note("moe_layers_enum", fields.section["moe_layers_enum"])
        if not isinstance(text, str):
            raise refusal(fields.path + "moe_layers_enum", text, say("numbers of layers as a text, such as 4,5,6"))
        with_experts = {int(part) for part in text.strip("[]").split(",") if part.strip().isdecimal() and len(part) < 9}
        return [i in with_experts for i in range(number)]
    if fields.has("expert_layer_period"):
        period = fields.dimension("the experts' period", "expert_layer_period")
        offset = fields.whole("expert_layer_offset", least=0) or 0
        return [i % period == offset for i in range(number)]
    if fields.has("interleave_moe_layer_step"):
        step = fields.dimension("the experts' step", "interleave_moe_layer_step")
        return [(i + 1) % step == 0 for i in range(number)]
    dense = fields.whole("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", least=0)
    dense = fields.defaults.get("first_k_dense_replace", 0) if dense is None else dense
    every = fields.whole("moe_layer_freq", "decoder_sparse_step", "moe_layer_interval") or 1
    skipped = set(fields.numbers("mlp_only_layers") or [])
    if fields.has("decoder_sparse_step"):
        return [(i + 1) % every == 0 and i not in skipped for i in range(number)]
    return [i >= dense and i % every == 0 for i in range(number)]


def fitted(fields: Fields, name: str, marks: list[bool], number: int) -> list[bool]:
    """Cut to the model's layers: draft layers (MTP) may follow. Raises ConfigRefused where there are too few."""
    if len(marks) < number:
        raise wrong_length(fields.path + name, len(marks), number)
    return marks[:number]


def letters(fields: Fields) -> list[str] | None:
    """Nemotron-H: a layer is a mixer, an MLP or experts, never two of them."""
    pattern = fields.section.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return list(pattern)
    entries = fields.section.get("layers_block_type", fields.section.get("layer_types"))
    if fields.model_type == "nemotron_h" and isinstance(entries, list):
        return [str(entry) for entry in entries]
    return None


def bare_layers(fields: Fields, number: int) -> tuple[bool, ...]:
    if fields.model_type.startswith(("rwkv", "mamba", "falcon_mamba")):  # a mixer alone; RWKV's second half is in it
        return (True,) * number
    kinds = letters(fields)
    if kinds is None:
        return (False,) * number
    return tuple([kind not in ("-", "mlp") for kind in kinds][:number])


def adjusted_width(fields: Fields) -> int | None:
    """LFM2: two thirds of `block_ff_dim`, times a factor, up to a multiple."""
    width = fields.size("block_ff_dim", "intermediate_size")
    entry = fields.key_and_value("block_ffn_dim_multiplier")
    factor = entry[1] if entry and isinstance(entry[1], int | float) and not isinstance(entry[1], bool) else 1.0
    multiple = fields.size("block_multiple_of") or 1
    if width is None or not 0 < factor < MOST_WIDENING:
        return None
    return -(-int(factor * int(2 * width / 3)) // multiple) * multiple


def block_width(fields: Fields, inner: dict[str, Any], hidden_size: int) -> int:
    """Nemotron NAS: `ffn_mult` x 2/3 of the hidden size, up to a multiple of 256; 0 where the block has no MLP."""
    if inner.get("no_op"):
        return 0
    if inner.get("replace_with_linear"):
        return hidden_size // 3  # one square matrix in place of three
    width, factor = inner.get("intermediate_size"), inner.get("ffn_mult")
    for value in (width, factor):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MOST
        ):
            raise refusal(fields.path + "block_configs.ffn", value, say("a number above 0"))
    if width is not None:
        return int(width)
    return -(-int(2 * (factor or 0) * hidden_size / 3) // 256) * 256


def mlp_width(fields: Fields, hidden_size: int) -> int | list[int] | None:
    """Width of a dense MLP, one a layer where the file lists them; None where it is not known."""
    widths = fields.section.get("intermediate_size")
    if isinstance(widths, list):
        return fields.numbers("intermediate_size", least=1)
    blocks = fields.entries("block_configs")
    if blocks is not None:
        networks = [block["ffn"] for block in blocks if isinstance(block, dict) and isinstance(block.get("ffn"), dict)]
        return [block_width(fields, ffn, hidden_size) for ffn in networks] if len(networks) == len(blocks) else None
    if fields.flag("block_auto_adjust_ff_dim"):
        return adjusted_width(fields)
    for name in DENSE_WIDTH:
        if fields.has(name):
            width = fields.whole(name) or 0
            return width // 2 if fields.model_type in PADDED_TWO_THIRDS and name == "intermediate_size" else width
    config = fields.part("ffn_config")
    ratio = fields.whole("expansion_ratio", "mlp_ratio")
    if ratio is not None:
        return ratio * hidden_size
    if config.has("ffn_hidden_size"):
        return config.whole("ffn_hidden_size")
    if fields.model_type in FOUR_TIMES:
        return 4 * hidden_size
    return fields.size(*DENSE_WIDTH)
