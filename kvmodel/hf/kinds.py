"""Which kind each layer of a config.json is of: full, sliding, chunked, state, state beside attention, or none.

Sliding windows come in many spellings; the first that a file uses counts, in the order of :func:`layer_kinds`.
"""

from __future__ import annotations

import re

from kvmodel.hf.fields import ConfigRefused, Fields, refusal, wrong_length
from kvmodel.words import say

# Names of layer kinds in `layer_types` and `layers_block_type`, as transformers 5.24 and earlier wrote them.
KINDS = {
    "full_attention": "full", "attention": "full", "global": "full", "global_attention": "full",
    "indexed_attention": "indexed", "deepseek_sparse_attention": "indexed", "qwen_sparse_attention": "indexed",
    "minimax_m3_sparse": "full", "sparse": "full",
    "sliding_attention": "sliding", "local": "sliding", "local_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state", "mamba": "state", "mamba2": "state", "recurrent": "state", "conv": "conv",
    "hybrid": "both", "hybrid_sliding": "both-sliding",
    "compressed_sparse_attention": "compressed-4", "heavily_compressed_attention": "compressed-128",
    "moe": "none", "mlp": "none", "dense": "none",
}  # fmt: skip
# Without a list, these classes make every n-th layer full and let the rest slide (transformers 5.24, __post_init__).
LAST_OF_N_FULL = {
    "gemma2": 2, "vaultgemma": 2, "gpt_oss": 2, "cohere2": 4, "cohere2_moe": 4, "exaone4": 4, "exaone_moe": 4,
    "olmo3": 4, "dory": 4, "afmoe": 4, "gemma3n_text": 5, "gemma3_text": 6, "gemma4_text": 6, "gemma4_unified_text": 6,
    "diffusion_gemma": 6, "beam": 6,
}  # fmt: skip
FIRST_OF_N_FULL = {"cwm": 4, "granite_swa": 4, "granitemoe_swa": 4, "modernbert-decoder": 3}
LONGEST_NAME = 60  # of a key that a refusal repeats
WINDOW = ("sliding_window", "attention_window_size", "sliding_window_size")
DRAFTS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules")
# Keys of layers that keep a state in place of KV.
OF_STATES = (
    "mamba_", "ssm_", "hyena_", "rwkv_", "kda_", "state_size", "d_state", "lru_width", "linear_num_", "linear_attn_",
)  # fmt: skip
# Keys that name layers of one kind (`global_attn_idx`), or layers that share their KV (`kv_reuse_group`).
OF_KINDS = re.compile(
    r"(sliding|swa|window|global|full|local|sparse)_?(attention|attn|window)?_(layers?|idxs?|ids|indices)$"
)
OF_SHARING = re.compile(r"(^|_)kv_(reuse|sharing|share(?!d_layers))|shared?_kv(_|$)")
PATTERN_LETTERS = {"M": "state", "*": "full", "-": "none", "E": "none"}  # Nemotron-H: mamba, attention, MLP, experts


def layer_kinds(fields: Fields, layers: int) -> list[str]:
    """One kind a layer. Raises ConfigRefused for a kind it does not know, or a list of another length."""
    for read in (listed, lettered, binary, state_rules, unplaced, numbered, compressed):
        kinds = read(fields, layers)
        if kinds is not None:
            return kinds
    return windowed(fields, layers)


def fitted(fields: Fields, name: str, kinds: list[str], layers: int) -> list[str]:
    """A list may be longer by its draft layers (MTP), which come last; any other length is refused."""
    drafts = fields.whole(*DRAFTS, least=0, most=100) or 0
    if len(kinds) == layers or len(kinds) == layers + drafts:
        return kinds[:layers]
    raise wrong_length(fields.path + name, len(kinds), layers)


def listed(fields: Fields, layers: int) -> list[str] | None:
    """`layer_types` and its older names."""
    name = next((name for name in ("layer_types", "layers_block_type") if fields.has(name)), None)
    if name is None:
        return None
    kinds = []
    for entry in fields.entries(name) or []:
        kind = KINDS.get(entry) if isinstance(entry, str) else None
        if kind is None:
            allowed = say("a known kind, such as full_attention, sliding_attention or linear_attention")
            raise refusal(fields.path + name, entry, allowed)
        kinds.append(kind)
    return fitted(fields, name, kinds, layers)


def lettered(fields: Fields, layers: int) -> list[str] | None:
    """`hybrid_override_pattern`, a letter a layer."""
    pattern = fields.section.get("hybrid_override_pattern")
    if pattern is None:
        return None
    if not isinstance(pattern, str) or set(pattern) - set(PATTERN_LETTERS):
        allowed = say("letters {letters}", letters=" ".join(PATTERN_LETTERS))
        raise refusal(fields.path + "hybrid_override_pattern", pattern, allowed)
    fields.note("hybrid_override_pattern", pattern)
    return fitted(fields, "hybrid_override_pattern", [PATTERN_LETTERS[letter] for letter in pattern], layers)


def binary(fields: Fields, layers: int) -> list[str] | None:
    """Lists of ones and zeros: `hybrid_layer_pattern` (1 slides), `attn_type_list` (1 is full, 0 linear)."""
    for name, kinds in (("hybrid_layer_pattern", ("full", "sliding")), ("attn_type_list", ("state", "full"))):
        marks = fields.numbers(name)
        if marks is not None:
            return fitted(fields, name, [kinds[min(mark, 1)] for mark in marks], layers)
    return None


def state_rules(fields: Fields, layers: int) -> list[str] | None:
    """Hybrids that say where their few attention layers are; all other layers keep a state."""
    linear = fields.part("linear_attn_config")
    if linear.has("full_attn_layers"):  # Kimi Linear counts from one
        return marked(linear, "full_attn_layers", layers, first=1)
    for name in ("attn_layer_indices", "full_attn_idxs", "hybrid_layer_ids"):
        if fields.has(name):
            rest = "conv" if fields.has("conv_L_cache") or name == "full_attn_idxs" else "state"
            full = "both" if name == "hybrid_layer_ids" else "full"
            return marked(fields, name, layers, rest=rest, full=full)
    if fields.has("attn_layer_period"):
        period = fields.dimension("the attention layers' period", "attn_layer_period")
        offset = fields.whole("attn_layer_offset", least=0) or 0
        if fields.model_type == "zamba":  # its first three layers stand outside the period
            head = ["state", "state", "both"][:layers]
            return head + ["both" if i % period == offset else "state" for i in range(layers - len(head))]
        return ["full" if i % period == offset else "state" for i in range(layers)]
    every = fields.whole("full_attention_interval", "layer_group_size")
    if every is None and fields.model_type in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        every = fields.assume("full_attention_interval", 4)
    if every is not None:
        # Ling's last group, where it is not whole, is of full layers.
        cut = fields.has("layer_group_size") and not fields.has("short_conv_kernel_size")
        whole = layers // every * every if cut else layers
        return ["full" if (i + 1) % every == 0 or i >= whole else "state" for i in range(layers)]
    blocks = fields.entries("block_types")  # RecurrentGemma repeats a short list
    if blocks:
        if any(block not in KINDS for block in blocks if isinstance(block, str)) or not isinstance(blocks[0], str):
            raise refusal(fields.path + "block_types", blocks, "recurrent, attention")
        kinds = ["sliding" if block == "attention" else "state" for block in blocks]
        return [kinds[i % len(kinds)] for i in range(layers)]
    if fields.model_type.startswith(("rwkv", "mamba", "falcon_mamba", "bamba", "granitemoehybrid")):
        return ["state"] * layers
    if fields.model_type == "falcon_h1":  # attention and a mixer side by side in every layer
        return ["both"] * layers
    return None


def unplaced(fields: Fields, layers: int) -> None:
    """Raises ConfigRefused where keys tell layers apart in a way that nothing here reads.

    They are of layers with a state, name layers of one kind of attention, or name layers that share their KV.
    """
    for key, value in fields.section.items():
        name = key[:LONGEST_NAME]
        if (isinstance(value, list) and value and OF_KINDS.search(name)) or (value and OF_SHARING.search(name)):
            raise ConfigRefused(say("{key}: tells layers apart in a way that is not known", key=fields.path + name))
        if name.startswith(OF_STATES) and value and not isinstance(value, str | bool):
            raise ConfigRefused(
                say(
                    "{key}: only layers with a state have it, and no known key says which layers those are",
                    key=fields.path + name,
                )
            )


def marked(
    fields: Fields, name: str, layers: int, *, first: int = 0, rest: str = "state", full: str = "full"
) -> list[str]:
    """Layers named by number are `full`, the others `rest`."""
    numbers = fields.numbers(name) or []
    if any(not first <= number < layers + first for number in numbers):
        allowed = say("numbers of layers from {first} to {last}", first=first, last=layers + first - 1)
        raise refusal(fields.path + name, numbers, allowed)
    positions = {number - first for number in numbers}
    return [full if i in positions else rest for i in range(layers)]


def numbered(fields: Fields, layers: int) -> list[str] | None:
    """Window layers by rule: Llama 4's layers with positions are chunked, `sliding_window_pattern` and its kin."""
    some_without = fields.has("no_rope_layers", "no_rope_layer_interval") or fields.defaults.get(
        "no_rope_layer_interval"
    )
    if some_without and fields.bound("attention_chunk_size"):
        return by_positions(fields, layers, with_positions="chunked", without="full")
    if not window(fields):
        return None
    if some_without:  # SmolLM3
        return by_positions(fields, layers, with_positions="full", without="sliding")
    pattern = fields.section.get("sliding_window_pattern", fields.section.get("_sliding_window_pattern"))
    if isinstance(pattern, str) and pattern and not set(pattern) - set("LG"):  # EXAONE 4: "LLLG", repeated
        fields.note("sliding_window_pattern", pattern)
        return ["full" if pattern[i % len(pattern)] == "G" else "sliding" for i in range(layers)]
    interval = fields.whole("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    first, last = FIRST_OF_N_FULL.get(fields.model_type), LAST_OF_N_FULL.get(fields.model_type)
    every = interval or first or last
    if every is None:
        return None
    if interval is None:
        fields.assume("one full layer in", every)
    return ["full" if (i if first else i + 1) % every == 0 else "sliding" for i in range(layers)]


def by_positions(fields: Fields, layers: int, *, with_positions: str, without: str) -> list[str]:
    """`no_rope_layers`: ones have rotary positions; absent, every `no_rope_layer_interval`-th has none."""
    marks = fields.numbers("no_rope_layers")
    every = fields.whole("no_rope_layer_interval") or 4
    rotary = marks or [int((i + 1) % every != 0) for i in range(layers)]
    return fitted(fields, "no_rope_layers", [with_positions if mark else without for mark in rotary], layers)


def compressed(fields: Fields, layers: int) -> list[str] | None:
    """DeepSeek-V4: `compress_ratios` a layer; 0 is a window alone."""
    ratios = fields.numbers("compress_ratios")
    if ratios is None:
        return None
    return fitted(
        fields, "compress_ratios", [f"compressed-{ratio}" if ratio else "sliding" for ratio in ratios], layers
    )


def windowed(fields: Fields, layers: int) -> list[str]:
    """One window or chunk for all layers, or from `max_window_layers` on (Qwen2); else full attention."""
    if closes(fields):
        if fields.section.get("use_sliding_window"):
            full_below = fields.whole("max_window_layers", least=0)
            full_below = fields.defaults.get("max_window_layers", 0) if full_below is None else full_below
            if fields.model_type == "qwen2_moe":  # every other layer, below the mark (transformers 5.24)
                return ["sliding" if i % 2 == 0 and i < full_below else "full" for i in range(layers)]
            return ["sliding" if i >= full_below else "full" for i in range(layers)]
        return ["sliding"] * layers
    if fields.bound("attention_chunk_size"):
        return ["chunked"] * layers
    return ["full"] * layers


def window(fields: Fields) -> int | None:
    """The sliding window in tokens; None where there is none, or `use_sliding_window` says not to use it."""
    has_switch = "use_sliding_window" in fields.section or fields.defaults.get("use_sliding_window") is False
    if has_switch and not fields.flag("use_sliding_window"):
        return None
    return fields.bound(*WINDOW)


def window_is_off(fields: Fields) -> bool:
    """Whether the file says that there is no window: a key of it is there, null or 0, or another says not to use it."""
    return any(name in fields.section for name in (*WINDOW, "use_sliding_window"))


def closes(fields: Fields) -> bool:
    """Whether a context can outgrow the window at all: Phi-3's long variants have 262,144 for 131,072 positions."""
    tokens, longest = window(fields), fields.section.get("max_position_embeddings")
    return tokens is not None and not (isinstance(longest, int) and 0 < longest <= tokens)
