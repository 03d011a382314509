"""Bytes of a checkpoint's weights: what is quantised, what stays in 16 bits. The KV cache's dtype never follows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvmodel.hf.attention import Attention
from kvmodel.hf.fields import ConfigRefused, Fields
from kvmodel.hf.layers import Layer
from kvmodel.hf.parameters import Parameters, checked, parameters
from kvmodel.words import say

OTHER_PARTS = (  # sections of what a model has beside its language model
    "vision_config", "audio_config", "visual", "vit_config", "talker_config", "code2wav_config", "token2wav_config",
)  # fmt: skip

DTYPE_BYTES = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0, "float8_e4m3fn": 1.0}
BITS = {  # bits of one weight where the file does not say: quant_method or quant_algo in lower case
    "fp8": 8, "fbgemm_fp8": 8, "w8a8": 8, "w8a8_fp8": 8, "int8": 8, "nvfp4": 4, "w4a16_awq": 4, "mxfp4": 4, "awq": 4,
    "gptq": 4, "bitsandbytes": 8, "w4a8": 4, "mxfp8": 8, "bitnet": 2, "torchao": 8, "quark": 8, "modelopt": 8,
}  # fmt: skip
LARGEST_GROUP = 32_768
DEFAULT_GROUP = {"nvfp4": 16, "mxfp4": 32, "awq": 128, "gptq": 128}
SCALE_BYTES = {
    "nvfp4": 1.0,
    "mxfp4": 1.0,
}  # of one group's scale; others keep 16 bits, and a zero point of as many bits
EXPERT_DTYPE = ("expert_dtype", "experts_dtype", "moe_dtype")
EXPERT_BYTES = {  # of a parameter with its scale: 32 of MXFP4 share one byte, 16 of NVFP4
    "fp4": 0.5 + 1 / 32, "mxfp4": 0.5 + 1 / 32, "nvfp4": 0.5 + 1 / 16, "int4": 0.5 + 2 / 128, "fp8": 1.0,
    "bfloat16": 2.0, "float16": 2.0, "bf16": 2.0,
}  # fmt: skip
EXPERTS_NARROWER = {"w4afp8": 0.5 + 2 / 128, "w4a8_fp8": 0.5 + 2 / 128}  # the rest is fp8
EXPERTS_ONLY = ("mxfp4",)  # gpt-oss: everything but the experts stays in 16 bits


@dataclass(frozen=True)
class WeightBytes:
    """`total` of the whole language model; rates of the layers' matrices and of the experts'. [bytes]"""

    total: float
    per_layer_parameter: float
    per_expert_parameter: float
    method: str


def weight_bytes(config: Mapping[str, Any], fields: Fields, totals: Parameters) -> WeightBytes:
    """Embeddings, head, norms and routers stay in the checkpoint's dtype; so do parts that the file excludes."""
    plain = plain_bytes(fields)
    method, quantised = quantised_bytes(config, fields)
    if quantised is None:
        return WeightBytes(totals.total * plain, plain, plain, "none")
    skipped = dict.fromkeys(PARTS, 1.0) if method in EXPERTS_ONLY else skipped_shares(config, fields)
    attention_rate, mlp_rate = (quantised + (plain - quantised) * skipped[part] for part in ("attention", "mlp"))
    layers = totals.attention * attention_rate + totals.mlp * mlp_rate + totals.router * plain
    rest = (totals.embedding + totals.head + totals.small) * plain
    of_experts = expert_bytes(config, fields, quantised)
    of_experts += (plain - of_experts) * skipped["experts"] if method not in EXPERTS_ONLY else 0.0
    routed = totals.experts * totals.expert * of_experts
    per_layer = layers / totals.layer_matrices if totals.layer_matrices else plain
    return WeightBytes(layers + rest + routed, round(per_layer, 9), round(of_experts, 9), method)


def plain_bytes(fields: Fields) -> float:
    """Bytes of an unquantised parameter: of the file's dtype, 2 where it has none."""
    for name in ("dtype", "torch_dtype"):
        for section in (fields.section, fields.outer):
            value = section.get(name)
            if isinstance(value, str) and value.removeprefix("torch.") in DTYPE_BYTES:
                return DTYPE_BYTES[value.removeprefix("torch.")]
    return 2.0


def quantization(config: Mapping[str, Any], fields: Fields) -> Mapping[str, Any]:
    """The file's quantisation, wherever it stands; empty without one."""
    for section in (fields.section, config):
        for name in ("quantization_config", "compression_config", "quantization"):
            if isinstance(section.get(name), dict):
                return dict(section[name])
    return {}


def quantised_bytes(config: Mapping[str, Any], fields: Fields) -> tuple[str, float | None]:
    """Name of the method and bytes of a quantised weight with its scales; None where nothing is quantised."""
    settings = quantization(config, fields)
    if not settings:
        return "none", None
    return rate_of(settings, groups_of(settings, experts=False))


def method_of(settings: Mapping[str, Any]) -> str:
    """The name of a method in lower case; empty without one that is a text."""
    names = (settings.get(key) for key in ("quant_algo", "quant_method", "fmt"))
    return next((name for name in names if name and isinstance(name, str)), "").lower()


def rate_of(settings: Mapping[str, Any], weights: Mapping[str, Any]) -> tuple[str, float]:
    """Method and bytes of a weight that `weights`, a part of the settings or all of them, describes."""
    method = method_of(weights) or method_of(settings)
    bits = bits_of(weights)
    if bits is None:
        bits = 4 if settings.get("load_in_4bit") else BITS.get(method, 8)
    group = weights.get("group_size", settings.get("group_size", settings.get("q_group_size")))
    usable = isinstance(group, int) and not isinstance(group, bool) and 0 < group <= LARGEST_GROUP
    size = float(group) if usable else DEFAULT_GROUP.get(method, math.inf)
    block = settings.get("weight_block_size")
    if isinstance(block, list) and all(isinstance(side, int) and 0 < side <= LARGEST_GROUP for side in block) and block:
        size = float(math.prod(block))
    scale = 4.0 if isinstance(block, list) else SCALE_BYTES.get(method, 2.0)
    return method or "unnamed", bits / 8 + scale / size


def expert_bytes(config: Mapping[str, Any], fields: Fields, quantised: float) -> float:
    """Bytes of a routed expert's parameter, where the file says other than of the rest of it.

    By a key of its own (`expert_dtype` of DeepSeek-V4), a method that has two widths (w4afp8), a group of
    compressed-tensors whose targets are experts, or ModelOpt's list by layer.
    """
    entry = next((part.get(key) for part in (fields.section, config) for key in EXPERT_DTYPE if part.get(key)), None)
    if isinstance(entry, str) and entry.lower() in EXPERT_BYTES:
        return EXPERT_BYTES[entry.lower()]
    settings = quantization(config, fields)
    if method_of(settings) in EXPERTS_NARROWER:
        return EXPERTS_NARROWER[method_of(settings)]
    weights = groups_of(settings, experts=True)
    return quantised if weights is groups_of(settings, experts=False) else rate_of({}, weights)[1]


def bits_of(weights: Mapping[str, Any]) -> int | None:
    bits = weights.get("num_bits", weights.get("bits", weights.get("w_bit")))
    return bits if isinstance(bits, int) and not isinstance(bits, bool) and 1 <= bits <= 16 else None


def groups_of(settings: Mapping[str, Any], *, experts: bool) -> Mapping[str, Any]:
    """The part of the settings that describes weights of experts, or of other layers; all of them without parts.

    compressed-tensors has groups with targets, ModelOpt a list of layers by name.
    """
    parts: list[tuple[bool, Mapping[str, Any]]] = []
    groups, listed = settings.get("config_groups"), settings.get("quantized_layers")
    for group in groups.values() if isinstance(groups, dict) else ():
        if isinstance(group, dict) and isinstance(group.get("weights"), dict):
            targets = group.get("targets")
            of_experts = isinstance(targets, list) and bool(targets) and all(map(names_experts, targets))
            parts.append((of_experts, group["weights"]))
    for name, layer in listed.items() if isinstance(listed, dict) else ():
        if isinstance(layer, dict):
            parts.append((names_experts(name), layer))
    fitting = [part for of_experts, part in parts if of_experts == experts]
    return (fitting or [part for _, part in parts] or [settings])[0]


def names_experts(name: object) -> bool:
    """Whether the name of a module, or a pattern for it, is of routed experts.

    >>> names_experts("re:.*mlp.experts.*"), names_experts("model.layers.3.mlp.shared_experts.up_proj")
    (True, False)
    """
    return isinstance(name, str) and re.search(r"(?<![a-z_])experts", name) is not None


PARTS = {
    "attention": ("self_attn", "attention", "attn"),
    "experts": (".experts",),
    "mlp": ("shared_expert", ".mlp.up_proj", ".mlp.gate_proj", ".mlp.down_proj", "mlp\\.("),
}


def skipped_shares(config: Mapping[str, Any], fields: Fields) -> dict[str, float]:
    """Share of the layers whose attention, or whose MLPs that are not experts, the file leaves unquantised.

    A pattern without a layer's number means all of them.
    """
    settings = quantization(config, fields)
    names = settings.get("modules_to_not_convert") or settings.get("ignore") or settings.get("exclude_modules") or []
    texts = (
        [name for name in names if isinstance(name, str) and "vision" not in name] if isinstance(names, list) else []
    )
    layers = fields.whole("num_hidden_layers") or 1
    return {
        part: skipped_share([text for text in texts if any(map(text.__contains__, words))], layers)
        for part, words in PARTS.items()
    }


def skipped_share(names: list[str], layers: int) -> float:
    numbers = [re.search(r"layers\.([0-9]{1,4})(?:\.|$)", name) for name in names]
    if any(number is None for number in numbers):
        return 1.0
    return min(1.0, len({number[1] for number in numbers if number}) / layers)


def asks_for_narrow_kv(config: Mapping[str, Any], fields: Fields) -> bool:
    """Whether the checkpoint brings scales for an 8-bit cache; a cache has its own dtype all the same."""
    settings = quantization(config, fields)
    scheme = settings.get("kv_cache_scheme")
    return bool(settings.get("kv_cache_quant_algo")) or (isinstance(scheme, dict) and scheme.get("num_bits") == 8)


@dataclass(frozen=True)
class Weights:
    """Both None where they are not counted; `notes` say what a reader should know of them, a sentence each."""

    parameters: Parameters | None
    sizes: WeightBytes | None
    notes: tuple[str, ...]


def count(config: Mapping[str, Any], fields: Fields, shape: Attention, layers: list[Layer]) -> Weights:
    try:
        totals = parameters(fields, shape, layers)
        sizes = weight_bytes(config, fields, totals) if totals else None
    except ConfigRefused as error:
        return Weights(None, None, (say("parameters are not counted: {reason}", reason=error),))
    if totals is None:
        short = say("parameters are not counted: the file or what is known of its class is too short for them")
        return Weights(None, None, (short,))
    notes = []
    if not checked(fields.model_type):
        notes.append(
            say(
                "parameters are an estimate: class {model_type} is counted in the plain form, unchecked",
                model_type=fields.model_type,
            )
        )
    others = [name for name in OTHER_PARTS if isinstance(config.get(name), dict)]
    if others:
        notes.append(say("weights are the language model's alone, without {parts}", parts=", ".join(others)))
    return Weights(totals, sizes, tuple(notes))
