"""Layers that keep a state: what each keeps and weighs, counted anew from the shapes of its tensors.

Shapes: transformers 5.24, `modeling_*.py` of each class; the sizes are primes, so that none can stand for another.
"""

from math import prod

import pytest

from kvmodel.hf import experts, states
from kvmodel.hf.fields import ConfigRefused, Fields

D = 64  # hidden size


def mamba(inner: int, states_: int, rank: int, *, biased: bool) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    matrices = [(2 * inner, D), (rank + 2 * states_, inner), (inner, rank), (D, inner)]
    small = [(inner, 5), (inner,), (inner, states_), (inner,), (inner,)]  # convolution, A, D, bias of the time steps
    return matrices, small + ([(2 * inner,), (D,)] if biased else [])


MIXERS = {  # class, section, (convolution's columns, its length, values of the state), matrices, other tensors
    "mamba": ("mamba", {"state_size": 7, "conv_kernel": 5, "time_step_rank": 3, "intermediate_size": 130},
              (130, 5, 130 * 7), *mamba(130, 7, 3, biased=False)),
    "mamba with biases": (
        "mamba", {"state_size": 7, "conv_kernel": 5, "time_step_rank": 3, "expand": 3, "use_conv_bias": True,
                  "use_bias": True}, (192, 5, 192 * 7), *mamba(192, 7, 3, biased=True)),
    "mamba, rank of its own": ("mamba", {"state_size": 7, "conv_kernel": 5, "time_step_rank": "auto"},
                               (128, 5, 128 * 7), *mamba(128, 7, 4, biased=False)),
    "mamba 2": (
        "mamba2", {"num_heads": 12, "state_size": 7, "n_groups": 3, "conv_kernel": 5, "head_dim": 13},
        (12 * 13 + 2 * 3 * 7, 5, 12 * 13 * 7), [(2 * 156 + 2 * 21 + 12, D), (D, 156)],
        [(156 + 42, 5), (198,), (12,), (12,), (12,), (156,)]),
    "mamba 2 with biases, without a norm": (
        "bamba", {"mamba_n_heads": 12, "mamba_d_state": 7, "mamba_n_groups": 3, "mamba_d_conv": 5, "mamba_d_head": 13,
                  "mamba_conv_bias": True, "mamba_proj_bias": True, "mamba_rms_norm": False},
        (198, 5, 1092), [(366, D), (D, 156)], [(198, 5), (12,), (12,), (12,), (198,), (366,), (D,)]),
    "mamba 2, heads by the width": (
        "bamba", {"mamba_n_heads": 8, "mamba_d_state": 7, "mamba_d_conv": 5, "mamba_d_head": "auto"},
        (128 + 14, 5, 128 * 7), [(128 + 142 + 8, D), (D, 128)], [(142, 5), (142,), (8,), (8,), (8,), (128,)]),
    "gated delta": (
        "qwen3_next", {"linear_num_key_heads": 3, "linear_num_value_heads": 6, "linear_key_head_dim": 7,
                       "linear_value_head_dim": 11, "linear_conv_kernel_dim": 5},
        (2 * 21 + 66, 5, 6 * 7 * 11), [(2 * 21 + 2 * 66, D), (2 * 6, D), (D, 66)], [(108, 5), (6,), (6,), (11,)]),
    "kimi delta": (
        "kimi_linear", {"linear_attn_config": {"num_heads": 3, "head_dim": 7, "short_conv_kernel_size": 5}},
        (3 * 21, 5, 3 * 49), [(21, D)] * 3 + [(D, 21)] + [(7, D), (21, 7)] * 2 + [(3, D)],
        [(21, 5)] * 3 + [(3,), (21,), (7,)]),
    "gated recurrence": (
        "recurrent_gemma", {"lru_width": 66, "conv1d_width": 5, "num_attention_heads": 3}, (66, 5, 66),
        [(66, D), (66, D), (D, 66)] + [(3, 22, 22)] * 2, [(66, 5), (66,)] + [(66,)] * 3 + [(66,), (66,), (D,)]),
    "lightning": (
        "minimax", {"num_attention_heads": 3, "head_dim": 7, "attn_type_list": [0]}, (0, 0, 3 * 49),
        [(3 * 21, D), (21, D), (D, 21)], [(21,)]),
    "rwkv 4": (
        "rwkv", {"attention_hidden_size": 66, "intermediate_size": 130}, (2 * D, 2, 3 * 66),
        [(66, D)] * 3 + [(D, 66), (130, D), (D, 130), (D, D)], [(66,), (66,)] + [(D,)] * 5),
    "rwkv, later": (
        "rwkv7", {"head_size": 16}, (2 * D, 2, D * 16), [(D, D)] * 5 + [(4 * D, D), (D, 4 * D)],
        [(D,), (D,)] + [(D,)] * 5),
    "short convolution": ("lfm2", {"conv_L_cache": 5, "conv_bias": True}, (D, 5, 0), [(3 * D, D), (D, D)],
                          [(D, 5), (3 * D,), (D,), (D,)]),
}  # fmt: skip


def elements(shapes: list[tuple[int, ...]]) -> int:
    return sum(map(prod, shapes))


@pytest.mark.parametrize("name", MIXERS)
def test_a_mixer_is_the_sum_of_its_tensors(name: str) -> None:
    model_type, section, kept, matrices, small = MIXERS[name]
    mixer = states.mixer_of(Fields(section, model_type), D, "conv" if "conv_L_cache" in section else "state")
    assert (mixer.conv_width, mixer.kernel, mixer.state_values) == kept
    assert mixer.matrices == elements(matrices)
    assert mixer.small == elements(small)
    columns = max(kept[1] - 1, 0)
    for drafts in (0, 3):
        assert mixer.engine_bytes(drafts) == 2 * kept[0] * (columns + drafts) + 4 * kept[2]
    assert mixer.transformers_bytes == 2 * kept[0] * kept[1] + 4 * kept[2]


@pytest.mark.parametrize(
    ("block", "width"),
    [
        ({"no_op": True}, 0), ({"replace_with_linear": True}, 1000), ({"intermediate_size": 777}, 777),
        ({"ffn_mult": 1.0}, 2048), ({"ffn_mult": 1.28}, 2560), ({"ffn_mult": 1.2806}, 2816), ({}, 0),
    ],
)  # fmt: skip
def test_the_width_of_a_block_of_nemotron_nas(block: dict[str, object], width: int) -> None:
    assert experts.block_width(Fields({}, "nemotron-nas"), block, 3000) == width


@pytest.mark.parametrize("value", [0, -1, True, "wide", 10_000_000])
@pytest.mark.parametrize("key", ["intermediate_size", "ffn_mult"])
def test_a_block_that_has_no_such_width(key: str, value: object) -> None:
    with pytest.raises(ConfigRefused, match=r"block_configs\.ffn: .* a number above 0"):
        experts.block_width(Fields({}, "nemotron-nas"), {key: value}, 3000)
