"""Every numeric limit from both sides: the value at it is taken, one step beyond is refused; and the limits are these.

The ends stand here once more as text, so that none moves without being meant to.
"""

import math

import pytest

from kvmodel.errors import CaseError
from kvmodel.explain import guided_path
from kvmodel.inputs.case import LIMITS
from kvmodel.inputs.questions import INPUTS
from kvmodel.limits import Limits

ENDS = """
tp 1 64                         tokens 1 10_000_000             block_tokens 1 8192
runs_per_block 1 10_000         copy_gb_per_s 0.001 10_000      per_copy_us 0 100_000
gemm_efficiency 0.001 1.5       request_overhead_ms 0 100_000   preemptions 1 1000
tokens_between 0 1_000_000      generated_tokens 0 10_000_000   decode_batch 0 10_000
decode_context 1 10_000_000     remaining_output 1 1_000_000    max_num_batched_tokens 16 1_000_000
survival 0 1                    utilization 0.01 1              max_model_len 1 10_000_000
batch 1 100_000                 past 0 10_000_000               bytes_per_copy 1 1_000_000_000_000_000
copies 1 1_000_000_000_000      seconds 0.001 10_000_000        gpu_hour 0 1_000_000
prefill_s 0.000001 1_000_000    prefill2_tokens 1 10_000_000    prefill2_s 0.000001 1_000_000
copy_s 0.000001 1_000_000       copy2_tokens 1 10_000_000       copy2_s 0.000001 1_000_000
requests 1 1_000_000            requests_per_s 0.000001 1_000_000
burstiness 0 100                clients 1 1_000_000             seed 0 9_223_372_036_854_775_807
num_blocks 1 100_000_000        max_num_seqs 1 100_000          watermark 0 0.99
host_gib 0 1_000_000            processes 1 1024                slo_ttft_s 0.000001 1_000_000
slo_tpot_ms 0.001 1_000_000     draft_layers 0 8                pp 1 64
dcp 1 64                        swap_gib 0 100_000              offload_gib 0 1_000_000
weight_gib 0.001 100_000        draft_tokens 0 64
events 0 999_999_999            finished 1 999_999_999          wait_s 0.001 999_999_999
"""
STATED = dict(zip(*(iter(ENDS.split()[part::3]) for part in (0, 1)), strict=True))
GREATEST = dict(zip(ENDS.split()[::3], ENDS.split()[2::3], strict=True))
EVERY: dict[str, Limits] = {
    **LIMITS, **{name: row.limits for name, row in INPUTS.items()}, **guided_path.LIMITS,
}  # fmt: skip
NUMERIC = {name: limits for name, limits in EVERY.items() if limits.kind in ("int", "float")}


def test_the_limits_are_these() -> None:
    assert STATED.keys() == NUMERIC.keys()
    for name, limits in NUMERIC.items():
        assert limits.ends == tuple(type(limits.ends[0])(end) for end in (STATED[name], GREATEST[name])), name


@pytest.mark.parametrize("name", NUMERIC)
def test_a_limit_is_taken_and_the_next_number_is_not(name: str) -> None:
    limits = NUMERIC[name]
    whole = limits.kind == "int"
    for end, beyond in zip(limits.ends, (-math.inf, math.inf), strict=True):
        assert limits.read(name, end) == end
        assert limits.read(name, str(end)) == end
        step = end + math.copysign(1, beyond) if whole else math.nextafter(end, beyond)
        for given in (int(step) if whole else step, repr(int(step) if whole else step)):
            with pytest.raises(CaseError, match=f"^{name}: ") as refused:
                limits.read(name, given)
            assert str(refused.value).endswith(f"allowed: {limits.allowed}")
