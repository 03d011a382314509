"""Which layers have experts, by every rule that a config.json may give: counted by hand, for each step there is."""

from itertools import count
from typing import Any

import pytest

from kvmodel.hf import experts
from kvmodel.hf.fields import ConfigRefused, Fields

LAYERS = 12
NUMBERS = set(range(LAYERS))


def with_experts(model_type: str = "new", **section: Any) -> set[int]:
    marks = experts.moe_layers(Fields(section, model_type), LAYERS)
    assert len(marks) == LAYERS
    return {number for number, mark in enumerate(marks) if mark}


def every(step: int, first: int) -> set[int]:
    """Numbers of layers from `first` on, in steps."""
    found = set()
    for number in count(first, step):
        if number >= LAYERS:
            return found
        found.add(number)


@pytest.mark.parametrize("step", range(1, LAYERS + 2))
def test_experts_come_once_a_step(step: int) -> None:
    last_of_each, first_of_each = every(step, step - 1), every(step, 0)
    assert with_experts(interleave_moe_layer_step=step) == last_of_each
    assert with_experts(decoder_sparse_step=step) == last_of_each
    assert with_experts(decoder_sparse_step=step, mlp_only_layers=[5, 11]) == last_of_each - {5, 11}
    for name in ("moe_layer_freq", "moe_layer_interval"):
        assert with_experts(**{name: step}) == first_of_each
        assert with_experts(**{name: step, "first_k_dense_replace": 3}) == first_of_each - {0, 1, 2}
    for offset in range(step):
        assert with_experts(expert_layer_period=step, expert_layer_offset=offset) == every(step, offset)
    assert with_experts(expert_layer_period=step) == first_of_each


@pytest.mark.parametrize("dense", range(LAYERS + 2))
@pytest.mark.parametrize("name", ["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"])
def test_the_first_layers_are_dense(name: str, dense: int) -> None:
    assert with_experts(**{name: dense}) == NUMBERS - set(range(dense))


@pytest.mark.parametrize("numbers", [set(), {0}, {11}, {2, 3, 10}, NUMBERS])
def test_a_list_says_which(numbers: set[int]) -> None:
    marks = [number in numbers for number in range(LAYERS)]
    draft = [True]  # a draft layer may follow
    for dense in ("dense", "mlp"):
        assert with_experts(mlp_layer_types=["sparse" if mark else dense for mark in marks]) == numbers
    assert with_experts(moe_layer_freq=[*map(int, marks), 1]) == numbers
    assert with_experts(mlp_layer_types=["sparse" if mark else "dense" for mark in marks + draft]) == numbers
    assert with_experts(hybrid_override_pattern="".join("E" if mark else "M" for mark in marks)) == numbers
    blocks = ["moe" if mark else "mamba" for mark in marks]
    assert with_experts("nemotron_h", layers_block_type=blocks) == numbers
    assert with_experts("other", layers_block_type=blocks) == NUMBERS
    assert with_experts(moe_layers_enum=sorted(numbers)) == numbers
    for written in (",".join(map(str, sorted(numbers))), str(sorted(numbers)), "1234567890,-1,x," + str(numbers)[1:-1]):
        if numbers:
            assert with_experts(moe_layers_enum=written) == numbers


def test_without_a_rule_all_have_them() -> None:
    assert with_experts() == NUMBERS


@pytest.mark.parametrize("name", ["mlp_layer_types", "moe_layer_freq"])
def test_a_list_for_fewer_layers_is_refused(name: str) -> None:
    one = "sparse" if name == "mlp_layer_types" else 1
    with pytest.raises(ConfigRefused, match=f"{name}: .*{LAYERS}"):
        with_experts(**{name: [one] * (LAYERS - 1)})


@pytest.mark.parametrize("value", [True, False, "2", [2], 0, 1.5])
@pytest.mark.parametrize("name", ["interleave_moe_layer_step", "expert_layer_period", "decoder_sparse_step"])
def test_a_step_is_a_whole_number(name: str, value: object) -> None:
    with pytest.raises(ConfigRefused, match=f"^{name}: "):
        with_experts(**{name: value})


@pytest.mark.parametrize(
    ("factor", "width"), [
        (1.0, 200), (0.5, 100), (2, 400), (1.3, 260), (True, 200), (False, 200), (0, None), (-1, None), (100, None),
        ("2", 200), (None, 200),
    ],
)  # fmt: skip
def test_a_width_is_two_thirds_times_a_factor_that_is_a_number(factor: object, width: int | None) -> None:
    section = {"block_auto_adjust_ff_dim": True, "block_ff_dim": 300, "block_ffn_dim_multiplier": factor}
    for multiple in (1, 64):
        expected = None if width is None else (width + multiple - 1) // multiple * multiple
        assert experts.mlp_width(Fields(section | {"block_multiple_of": multiple}, "lfm2"), 64) == expected


WIDE, HALF = {"ffn": {"intermediate_size": 600}}, {"ffn": {"ffn_mult": 1.5}}


@pytest.mark.parametrize(
    ("blocks", "widths"), [
        ([WIDE, HALF, {"ffn": {"no_op": True}}], [600, 512, 0]),
        ([WIDE, {"ffn": {"replace_with_linear": True}}], [600, 128]),
        ([WIDE, {"attention": {}}], None),
        ([WIDE, {"ffn": None}], None),
        ([WIDE, "ffn"], None),
        ([{"ffn": [600]}, 7], None),
    ],
)  # fmt: skip
def test_every_block_has_a_network_or_no_width_is_known(blocks: list[object], widths: list[int] | None) -> None:
    assert experts.mlp_width(Fields({"block_configs": blocks}, "nemotron-nas"), 384) == widths
