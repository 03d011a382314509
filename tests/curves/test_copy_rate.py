"""The chart of copy rates and the prices beside it rest on one law of copies."""

from dataclasses import replace

import pytest

from kvmodel.curves.copy_rate import copy_rates
from kvmodel.inputs.case import Case
from kvmodel.recovery import costs
from kvmodel.recovery.comparison import compare_case

H100 = Case(model="llama-3-70b", gpu="h100-sxm5-80gb", tp=8)


@pytest.mark.parametrize(
    "case",
    [H100, replace(H100, tp=4, numa="far"), replace(H100, policy="vllm-v1-offload", layout="per-layer-kv"), Case()],
    ids=["eight share the host", "far socket", "below the cliff", "alone"],
)
def test_the_rate_of_the_chart_is_that_of_the_prices(case: Case) -> None:
    result = compare_case(case)
    rates, inputs = copy_rates(result).chosen_bytes_per_s, result.inputs
    transfers = {"d2h": costs.copy_out(inputs, case.tokens), "h2d": costs.load(inputs, case.tokens).copy}
    for direction, copied in transfers.items():
        assert rates[direction] == pytest.approx(float(copied.size_bytes / copied.seconds), rel=1e-12)


def test_eight_gpus_share_the_hosts_memory() -> None:
    alone, shared = (copy_rates(compare_case(replace(H100, tp=tp, model="llama-3-8b"))) for tp in (1, 8))
    assert shared.chosen_bytes_per_s["h2d"] < 0.7 * alone.chosen_bytes_per_s["h2d"]
