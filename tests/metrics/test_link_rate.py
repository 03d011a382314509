"""The link's rate as a server's own counters tell it."""

import pytest

from kvmodel.diagnosis import from_scrapes
from kvmodel.metrics import server_window
from kvmodel.metrics.link_rate import copy_s, moved_bytes, rate_bytes_per_s
from kvmodel.metrics.server_state import server
from tests.helpers.scrapes import sample


def increase(before, after):
    pages = [server(from_scrapes.read(page)) for page in (before, after)]
    whole, _ = server_window.between(*pages, 60)
    return whole.increase


def vllm(load_bytes, load_s, store_bytes, store_s, engine="0"):
    labels = f'engine="{engine}",model_name="m"'
    return (
        f"vllm:num_requests_running{{{labels}}} 1\n"
        f"vllm:kv_offload_load_bytes_total{{{labels}}} {load_bytes}\n"
        f"vllm:kv_offload_load_time_total{{{labels}}} {load_s}\n"
        f"vllm:kv_offload_store_bytes_total{{{labels}}} {store_bytes}\n"
        f"vllm:kv_offload_store_time_total{{{labels}}} {store_s}\n"
    )


def sglang(tokens, seconds, count, size=None, ranks=2):
    page = ""
    for rank in range(ranks):
        labels = f'engine_type="unified",model_name="m",tp_rank="{rank}"'
        page += f"sglang:num_running_reqs{{{labels}}} 1\n"
        page += f'sglang:load_back_tokens_total{{{labels},pool="kv"}} {tokens}\n'
        page += f"sglang:load_back_duration_seconds_sum{{{labels}}} {seconds}\n"
        page += f"sglang:load_back_duration_seconds_count{{{labels}}} {count}\n"
        page += "" if size is None else f"sglang:load_back_bytes_total{{{labels}}} {size}\n"
    return page


def test_vllm_between_two_scrapes():
    gained = increase(vllm(10e9, 1, 3e9, 1), vllm(60e9, 3, 23e9, 2))
    assert rate_bytes_per_s(gained, "load") == 25e9
    assert rate_bytes_per_s(gained, "store") == 20e9
    assert (moved_bytes(gained, "load"), copy_s(gained, "load")) == (50e9, 2)


def test_engines_with_a_link_each_give_the_rate_of_one():
    pages = [vllm(0, 0, 0, 0) + vllm(0, 0, 0, 0, "1"), vllm(50e9, 2, 0, 0) + vllm(30e9, 2, 0, 0, "1")]
    assert rate_bytes_per_s(increase(*pages), "load") == 20e9


def test_vllm_before_0_24_names_the_way_by_a_label():
    """As a public run printed them: 71.3 GB in 2 s of copies."""
    page = "".join(
        f'vllm:kv_offload_total_{what}_total{{engine="0",transfer_type="CPU_to_GPU"}} {value}\n'
        for what, value in (("bytes", 71_326_760_960), ("time", 2))
    )
    (engine,) = server(from_scrapes.read(page)).engines
    assert rate_bytes_per_s(engine, "load") == pytest.approx(35.66e9, rel=1e-3)
    assert rate_bytes_per_s(engine, "store") is None


def test_the_tier_behind_the_host():
    page = "".join(
        f'vllm:kv_offload_tiering_{what}_total{{engine="0",tier="1:fs"}} {value}\n'
        for what, value in (("read_bytes", 6e9), ("read_time", 2), ("write_bytes", 5e9), ("write_time", 5))
    )
    (engine,) = server(from_scrapes.read(page)).engines
    assert (rate_bytes_per_s(engine, "tier_read"), rate_bytes_per_s(engine, "tier_write")) == (3e9, 1e9)


def test_sglang_counts_each_ranks_own_part():
    """Each rank has moved its half of the KV: the rate is that of one GPU."""
    gained = increase(sglang(0, 0.0, 0, 0), sglang(100_000, 0.25, 10, 6.5536e9))
    assert rate_bytes_per_s(gained, "load") == pytest.approx(6.5536e9 / 0.25)
    assert rate_bytes_per_s(gained, "store") is None


def test_sglang_before_its_byte_counters_needs_the_bytes_of_a_token():
    gained = increase(sglang(0, 0.0, 0), sglang(100_000, 0.25, 10))
    assert rate_bytes_per_s(gained, "load") is None
    assert rate_bytes_per_s(gained, "load", 65_536) == pytest.approx(6.5536e9 / 0.25)


@pytest.mark.parametrize("values", [(0, 0), (5e9, 0), (0, 2), (1e18, 5e-324)])
def test_nothing_moved_or_timed_is_no_rate(values):
    (engine,) = server(from_scrapes.read(vllm(*values, 0, 0))).engines
    assert rate_bytes_per_s(engine, "load") is None


def test_a_server_without_a_tier_reports_none():
    (engine,) = server(from_scrapes.read(sample("vllm_0_33_classes_end"))).engines
    assert [rate_bytes_per_s(engine, way) for way in ("load", "store", "tier_read", "tier_write")] == [None] * 4


def test_bytes_without_a_time_are_no_rate():
    (engine,) = server(from_scrapes.read("trtllm_kv_cache_onboard_bytes_total 5e9\n")).engines
    assert moved_bytes(engine, "load") == 5e9
    assert rate_bytes_per_s(engine, "load") is None
