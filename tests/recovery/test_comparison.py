"""compare(): keyword arguments in, plain JSON out, one sentence on bad input."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvmodel
from kvmodel import CaseError, compare
from kvmodel.errors import DoesNotFit
from kvmodel.inputs.case import DEFAULTS, case_from, limits
from kvmodel.recovery import costs, strategies
from kvmodel.recovery.comparison import compare_case
from kvmodel.timing import engine_time, step_time
from kvmodel.units import finite_or_none

KEYS = {
    "available", "victim_delay_s", "out_s", "in_s", "gpu_s", "link_bytes", "link_s", "host_bytes",
    "recomputed_tokens", "low_s", "high_s",
}  # fmt: skip


def json_or_sentence(choices):
    """Anything but a CaseError, or a number that JSON has not, goes through and fails the test."""
    try:
        return json.dumps(compare(**choices), allow_nan=False)
    except CaseError as error:
        return str(error)


def test_the_default_case_by_hand():
    result = compare()
    swap = result["strategies"]["swap"]
    inputs = compare_case(case_from({})).inputs
    step_s = float(engine_time.decode_step_s(step_time.decode_s(1, 0, inputs.shape, inputs.gpu), 1, inputs))
    assert 0.010 < step_s < 0.015  # 16 GB of weights at 2 TB/s, and the launches
    assert swap["out_s"] == pytest.approx(256 * 3.1e-6 + 2**29 / 25e9)
    assert swap["in_s"] == pytest.approx(256 * (2.0e-6 + 5e-6) + 2**29 / 25e9 + 0.0022 + step_s)
    assert swap["victim_delay_s"] == pytest.approx(swap["out_s"] + swap["in_s"])
    assert (swap["link_bytes"], swap["host_bytes"]) == (2 * 2**29, 2**29)
    assert result["strategies"]["recompute"]["recomputed_tokens"] == 4096
    assert result["effective_copy_bytes_per_s"] == pytest.approx(2 * 2**29 / swap["victim_delay_s"])
    assert result["notes"] == []


def test_the_contract_of_the_command_line():
    result = compare()
    assert set(result["strategies"]) == set(strategies.STRATEGIES)
    assert all(set(strategy) >= KEYS for strategy in result["strategies"].values())
    assert {"winner", "factor", "objective", "close", "flips_if"} <= set(result["verdict"])
    assert set(result["break_even"]) == {
        "copy_bytes_per_s", "bytes_per_copy", "context_tokens", "survival", "preemptions",
    }  # fmt: skip
    assert result["wait_for_blocks_s"] > 0
    assert result["case"]["link"] == "pcie4-x16"
    assert set(result["case"]) == set(DEFAULTS)


def test_it_is_what_the_parts_say():
    whole = compare_case(case_from({}))
    result = compare()
    for name, price in strategies.price(whole.inputs).items():
        for key in KEYS - {"available"}:
            assert result["strategies"][name][key] == finite_or_none(getattr(price, key))
    assert result["wait_for_blocks_s"] == float(costs.wait_for_blocks_s(whole.inputs))


def test_a_batch_that_exceeds_the_pool_is_noted_and_its_prices_left_out():
    result = compare(decode_batch=1000)
    pool_tokens = compare_case(case_from({})).inputs.pool_bytes_per_gpu // 131_072
    assert result["strategies"]["recompute"]["gpu_s"] is None
    assert result["wait_for_blocks_s"] is None
    assert result["strategies"]["swap"]["victim_delay_s"] > 0
    (note,) = result["notes"]
    assert note.startswith("decode_batch: 1,000 running requests need 250 GiB of KV on each GPU")
    assert f"allowed: up to {pool_tokens // 2048:.0f}; " in note
    assert compare(decode_batch=int(pool_tokens // 2048))["notes"] == []


def test_bad_input_is_one_sentence():
    with pytest.raises(CaseError, match=r"^gpu: unknown id 'a100'; nearest: "):
        compare(gpu="a100")
    with pytest.raises(CaseError, match=r"^tokens: '0' given; allowed: a whole number from 1 to 10,000,000$"):
        compare(tokens=0)
    with pytest.raises(DoesNotFit, match=r"^tokens: 10,000,000 tokens of llama-3-8b need "):
        compare(tokens=10_000_000)


def test_the_package_names_its_parts():
    assert kvmodel.compare is compare
    assert issubclass(DoesNotFit, CaseError)
    assert issubclass(CaseError, ValueError)


def test_plain():
    assert finite_or_none(1) == 1.0
    assert finite_or_none(math.nan) is None
    assert finite_or_none(math.inf) is None


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(sorted(set(DEFAULTS) - {"preemptions"})),
        st.text(max_size=8)
        | st.integers(-5, 200_000)
        | st.floats()
        | st.sampled_from(
            ["llama-2-7b", "h100-sxm5-80gb", "pcie3-x16", "2023", "fp8", "per-layer", "vllm-v0", "gpu-time"]
        ),
        max_size=3,
    )
)
def test_anything_gives_json_or_one_sentence(choices):
    assert len(json_or_sentence(choices).splitlines()) == 1


@pytest.mark.parametrize(
    "field", ["tokens", "block_tokens", "decode_batch", "decode_context", "max_num_batched_tokens"]
)
@pytest.mark.parametrize("end", [0, 1])
def test_the_ends_of_every_range_give_json_or_one_sentence(field, end):
    answer = json_or_sentence({field: limits(field)[end]})
    assert answer.startswith('{"case": ') or "; allowed: " in answer
