"""What a layer of linear attention or a state-space model keeps of a request, whatever its length; and its parameters.

Engines keep the last `kernel - 1` columns of the short convolution, in 16 bits; transformers keeps `kernel` columns. A
recurrent state is counted in fp32, as transformers and SGLang keep it in a 16-bit model too, unless the file says other
(`mamba_ssm_dtype`, Nemotron-H `mamba_ssm_cache_dtype`). vLLM keeps it in the model's 16 bits where neither the file nor
a flag (`--mamba-ssm-cache-dtype`, `--mamba-cache-dtype`) says: :func:`kvmodel.memory.as_kept.vllm_states`. Kimi's delta
attention it keeps in fp32 always.

Source: vLLM 0.33 `MambaStateDtypeCalculator`; vLLM issue 26646 (Qwen3-Next: 548,864 bytes a page); SGLang `environ.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvmodel.hf.fields import ConfigRefused, Fields, refusal
from kvmodel.words import say

CONVOLUTION_BYTES = 2
FULL_BYTES = 4
STATE_BYTES = {"float32": 4, "float": 4, "fp32": 4, "bfloat16": 2, "float16": 2, "half": 2}
GROUPS = ("n_groups", "mamba_n_groups", "mamba_ngroups")
IN_FILE = ("mamba_ssm_dtype", "mamba_ssm_cache_dtype")


@dataclass(frozen=True)
class Mixer:
    """Of one layer: convolution columns of `conv_width` values, `state_values`, matrices and small parameters."""

    conv_width: int
    kernel: int
    state_values: int
    matrices: int = 0
    small: int = 0
    said_bytes: int = 0  # of a state's value, where the file or the class says; 0: the engine's own default

    def engine_bytes(self, draft_tokens: int = 0) -> int:
        """A draft adds a column for each token it is ahead."""
        columns = max(self.kernel - 1, 0) + draft_tokens
        return self.conv_width * columns * CONVOLUTION_BYTES + self.state_values * (self.said_bytes or FULL_BYTES)

    @property
    def transformers_bytes(self) -> int:
        return self.conv_width * self.kernel * CONVOLUTION_BYTES + self.state_values * FULL_BYTES


def mixer(fields: Fields, hidden_size: int, kind: str) -> Mixer:
    """The mixer of layers of kind "state", "conv" or "both". Raises ConfigRefused where its keys are not known."""
    kept = mixer_of(fields, hidden_size, kind)
    entry = fields.key_and_value(*IN_FILE)
    width = STATE_BYTES.get(str(entry[1]).removeprefix("torch.").lower()) if entry else None
    if entry and width:
        fields.note(*entry)
    return kept if width is None else replace(kept, said_bytes=width)


def mixer_of(fields: Fields, hidden_size: int, kind: str) -> Mixer:
    """The same, whatever the file says of a state's dtype."""
    if kind == "conv" or (fields.has("conv_L_cache") and kind == "state"):
        return short_convolution(fields, hidden_size)
    if fields.has("linear_num_value_heads"):
        return gated_delta(fields, hidden_size)
    if fields.has("linear_attn_config") or fields.has("linear_num_heads", "short_conv_kernel_size"):
        return kimi_delta(fields, hidden_size)
    if fields.has("mamba_num_heads", "mamba_n_heads", "n_mamba_heads") and fields.model_type != "zamba":
        return mamba2(fields, hidden_size)
    if fields.has("mamba_d_state", "state_size", "ssm_state_size"):
        return mamba2(fields, hidden_size) if fields.has("num_heads") else mamba1(fields, hidden_size)
    if fields.has("lru_width", "block_types"):
        return gated_recurrence(fields, hidden_size)
    if fields.model_type.startswith("rwkv"):
        return rwkv(fields, hidden_size)
    if fields.has("attn_type_list", "layer_group_size") or fields.model_type == "minimax":
        return lightning(fields, hidden_size)
    raise ConfigRefused(
        say(
            "{field}: a linear attention layer whose state no key of the file describes",
            field=f"{fields.path}layer_types",
        )
    )


def shared_evenly(fields: Fields, name: str, parts: int, heads: int) -> None:
    """Raises ConfigRefused where the heads of a state cannot be shared out evenly over `parts`."""
    if heads % parts:
        allowed = say("a number that divides the {heads:,} heads of the state", heads=heads)
        raise refusal(fields.path + name, parts, allowed)


def short_convolution(fields: Fields, hidden_size: int) -> Mixer:
    """LFM2: a gated convolution; in and out projections 3 d d and d d."""
    kernel = fields.dimension("the convolution's length", "conv_L_cache")
    bias = 5 * hidden_size if fields.flag("conv_bias") else 0
    return Mixer(hidden_size, kernel, 0, 4 * hidden_size**2, kernel * hidden_size + bias)


def gated_delta(fields: Fields, hidden_size: int) -> Mixer:
    """Gated delta rule (Qwen3-Next, Qwen3.5, OLMo hybrid): a matrix of D_k x D_v per value head."""
    key_heads = fields.dimension("linear attention's key heads", "linear_num_key_heads")
    value_heads = fields.dimension("linear attention's value heads", "linear_num_value_heads")
    shared_evenly(fields, "linear_num_key_heads", key_heads, value_heads)
    key_dim = fields.dimension("linear attention's key width", "linear_key_head_dim")
    value_dim = fields.dimension("linear attention's value width", "linear_value_head_dim")
    kernel = fields.dimension("the convolution's length", "linear_conv_kernel_dim")
    keys, values = key_heads * key_dim, value_heads * value_dim
    conv_width = 2 * keys + values
    projections = hidden_size * (2 * keys + 2 * values + 2 * value_heads) + values * hidden_size  # q k v z, a b, out
    return Mixer(
        conv_width, kernel, value_heads * key_dim * value_dim, projections,
        conv_width * kernel + 2 * value_heads + value_dim,
    )  # fmt: skip


def kimi_delta(fields: Fields, hidden_size: int) -> Mixer:
    """Kimi delta attention: q, k and v each with a convolution, gates of low rank D."""
    config = fields.part("linear_attn_config")
    source = config if config.section else fields
    heads = source.dimension("linear attention's heads", "num_heads", "linear_num_heads", "num_attention_heads")
    dim = source.dimension("linear attention's head width", "linear_head_dim", "head_dim")
    kernel = source.dimension("the convolution's length", "short_conv_kernel_size", "linear_conv_kernel_dim")
    width = heads * dim
    gates = 2 * (hidden_size * dim + dim * width) + hidden_size * heads  # forget gate, output gate, beta
    matrices = 4 * hidden_size * width + gates
    small = 3 * width * kernel + heads + width + dim
    return Mixer(3 * width, kernel, heads * dim * dim, matrices, small, FULL_BYTES)


def mamba1(fields: Fields, hidden_size: int) -> Mixer:
    """Mamba: d_inner channels of `state_size` values each; time steps through a rank."""
    inner = fields.whole("intermediate_size") if fields.model_type in ("mamba", "falcon_mamba") else None
    inner = inner or (fields.whole("mamba_expand", "expand") or 2) * hidden_size
    states = fields.dimension("the state's width", "mamba_d_state", "state_size", "ssm_state_size")
    kernel = fields.dimension("the convolution's length", "mamba_d_conv", "conv_kernel")
    rank_entry = fields.key_and_value("mamba_dt_rank", "time_step_rank")
    automatic = rank_entry is None or rank_entry[1] == "auto"
    rank = -(-hidden_size // 16) if automatic else fields.whole("mamba_dt_rank", "time_step_rank") or 1
    heads = fields.whole("n_mamba_heads") or 1  # Zamba splits d_inner into heads
    matrices = hidden_size * 2 * inner + inner * (rank + 2 * states) + rank * inner + inner * hidden_size
    norms = rank + 2 * states if fields.model_type == "jamba" else 0
    bias = inner if fields.flag("mamba_conv_bias", "use_conv_bias") else 0
    projection_bias = (2 * inner + hidden_size) if fields.flag("mamba_proj_bias", "use_bias") else 0
    small = inner * kernel + bias + inner + inner * states + inner + norms + projection_bias + 0 * heads
    return Mixer(inner, kernel, inner * states, matrices, small)


def mamba2(fields: Fields, hidden_size: int) -> Mixer:
    """Mamba 2: heads x head width x state; the convolution also runs over the groups' B and C."""
    heads = fields.dimension("the mixer's heads", "mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    states = fields.dimension("the state's width", "ssm_state_size", "mamba_d_state", "state_size")
    groups = fields.whole(*GROUPS) or 1
    shared_evenly(fields, next(filter(fields.has, GROUPS), ""), groups, heads)
    kernel = fields.dimension("the convolution's length", "conv_kernel", "mamba_d_conv")
    inner = fields.whole("mamba_d_ssm") or heads * mamba2_head_dim(fields, hidden_size, heads)
    conv_width = inner + 2 * groups * states
    matrices = hidden_size * (inner + conv_width + heads) + inner * hidden_size
    bias = conv_width if fields.flag("use_conv_bias", "mamba_conv_bias") else 0
    projection_bias = (inner + conv_width + heads + hidden_size) if fields.flag("mamba_proj_bias") else 0
    gate_norm = 0 if fields.section.get("mamba_rms_norm") is False else inner
    small = conv_width * kernel + bias + 3 * heads + gate_norm + projection_bias
    return Mixer(conv_width, kernel, inner * states, matrices, small)


def mamba2_head_dim(fields: Fields, hidden_size: int, heads: int) -> int:
    entry = fields.key_and_value("mamba_head_dim", "mamba_d_head", "mamba_headdim", "head_dim")
    if entry is not None and entry[1] != "auto":
        return fields.dimension("the mixer's head width", entry[0])
    return (fields.whole("mamba_expand", "expand") or 2) * hidden_size // heads


def gated_recurrence(fields: Fields, hidden_size: int) -> Mixer:
    """RecurrentGemma: one value a channel, and a convolution."""
    width = fields.whole("lru_width") or hidden_size
    kernel = fields.dimension("the convolution's length", "conv1d_width")
    heads = fields.whole("num_attention_heads") or 1
    gates = 2 * (width // heads) * width
    small = width * kernel + width + 3 * width + 2 * width + hidden_size
    return Mixer(width, kernel, width, 3 * hidden_size * width + gates, small)


def lightning(fields: Fields, hidden_size: int) -> Mixer:
    """Lightning attention (MiniMax, Ling): a matrix of D x D per head, no convolution."""
    heads = fields.dimension("attention heads", "num_attention_heads")
    dim = fields.whole("head_dim") or hidden_size // heads
    width = heads * dim
    return Mixer(0, 0, heads * dim * dim, 3 * hidden_size * width + 2 * hidden_size * width, width)


def rwkv(fields: Fields, hidden_size: int) -> Mixer:
    """RWKV: the last token's two inputs, and version 4's three values a channel or later a matrix per head."""
    width = fields.whole("attention_hidden_size") or hidden_size
    head = fields.whole("head_size", "head_dim") or 64
    state = 3 * width if fields.model_type == "rwkv" else width * head
    inner = fields.whole("intermediate_size") or 4 * hidden_size
    matrices = 4 * hidden_size * width + 2 * hidden_size * inner + hidden_size**2
    return Mixer(2 * hidden_size, 2, state, matrices, 2 * width + 5 * hidden_size)
