"""The memory bar of the Capacity page, and the plan, levers and lines that it and the page are made of."""

import itertools

import pytest

from kvmodel import catalog, charts
from kvmodel.charts import LIGHT, STREAMLIT, capacity
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.memory import as_kept, levers, pool_plan, start_lines
from kvmodel.memory.pool_plan import Startup, plan
from kvmodel.startup_log import log_reader
from kvmodel.texts import kv_pool
from kvmodel.units import GIB, format_bytes

FITS = plan(Startup(case=Case()))
TOO_LONG = plan(Startup(case=Case(model="llama-3.1-8b", gpu="l4"), max_model_len=131_072))
NO_ROOM = plan(Startup(case=Case(model="llama-3-70b")))
PLANS = {"fits": FITS, "too long": TOO_LONG, "no room": NO_ROOM}


def pieces(figure):
    """Name -> (start, length) of every bar, in GiB."""
    return {trace.name: (trace.base[0], trace.x[0]) for trace in figure.data if trace.type == "bar"}


def words(figure):
    return " | ".join(note.text for note in figure.layout.annotations)


# --- the bar ---


@pytest.mark.parametrize("found", PLANS.values(), ids=PLANS)
def test_pieces_follow_each_other_and_fill_the_gpu(found):
    drawn = pieces(capacity.memory_bar(found))
    assert tuple(drawn) == pool_plan.PARTS
    ends = list(itertools.accumulate(length for _, length in drawn.values()))
    assert [start for start, _ in drawn.values()] == pytest.approx([0.0, *ends[:-1]])
    whole = max(found.budget.total_bytes, pool_plan.spent_bytes(found.budget))
    assert ends[-1] == pytest.approx(whole / GIB)


def test_every_part_stands_in_the_key_with_its_size():
    said = words(capacity.memory_bar(FITS))
    for name, size in pool_plan.parts(FITS.budget).items():
        assert f"{name} " in said
        assert format_bytes(size) in said
    assert "55.7 to 57.2 GiB" in said
    assert "usable 72.8 GiB of 79.2 GiB" in said


def test_the_range_is_where_the_pool_may_begin():
    mark = next(trace for trace in capacity.memory_bar(FITS).data if trace.name == "range")
    usable = FITS.budget.usable_bytes
    assert list(mark.x) == pytest.approx([(usable - FITS.high_bytes) / GIB, (usable - FITS.low_bytes) / GIB])
    assert mark.x[0] < (usable - FITS.pool_bytes) / GIB < mark.x[1]


def test_without_room_there_is_no_pool_and_no_range():
    figure = capacity.memory_bar(NO_ROOM)
    assert pieces(figure)["KV pool"][1] == 0
    assert "KV pool <b>none</b>" in words(figure)
    assert not [trace for trace in figure.data if trace.name == "range"]
    assert "too little before any KV" in capacity.memory_bar_alt(NO_ROOM)


def test_the_chart_has_a_name_words_and_points():
    case = Case(model="gemma-3-27b", gpu="h200-sxm-141gb")
    assert charts.draw("capacity", case).data
    alt = charts.alt("capacity", case)
    rows = {row["part"]: row for row in charts.points("capacity", case)}
    assert tuple(rows) == pool_plan.PARTS
    assert f"KV pool {format_bytes(rows['KV pool']['bytes'])}" in alt
    assert rows["KV pool"]["low_bytes"] < rows["KV pool"]["bytes"] < rows["KV pool"]["high_bytes"]
    assert rows["weights"]["low_bytes"] is None


def test_a_page_and_a_file_draw_the_same():
    page, file = (capacity.memory_bar(FITS, palette=palette).to_dict() for palette in (STREAMLIT, LIGHT))
    assert [trace["name"] for trace in page["data"]] == [trace["name"] for trace in file["data"]]


def test_a_model_of_a_config_is_named_in_the_footer_not_spelled_out():
    text = config_file.read({**TINY, "_name_or_path": "acme/Tiny Model"}).text
    figure = charts.draw("capacity", Case(model=text))
    assert "tiny-model · a100-sxm4-80gb" in words(figure)
    assert "custom~" not in words(figure)


TINY = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128, "num_key_value_heads": 2, "max_position_embeddings": 4096,
}  # fmt: skip


# --- the plan ---


def test_requests_at_both_lengths():
    """A100 80 GB, Llama 3 8B: 1 GiB a request of 8,192 tokens, a quarter at 2,048."""
    assert FITS.need_bytes == GIB
    assert FITS.full_requests == pytest.approx(FITS.pool_bytes / GIB, rel=1e-4)
    assert FITS.mean_requests() == pytest.approx(4 * FITS.pool_bytes / GIB)
    assert FITS.starts


def test_a_refusal_has_need_has_and_the_longest_that_fits():
    """Bytes of the longest that fits are in the pool, those of one block more are not."""
    assert not TOO_LONG.starts
    assert TOO_LONG.need_bytes == 131_072 * 131_072
    assert TOO_LONG.longest_tokens * 131_072 <= TOO_LONG.pool_bytes < (TOO_LONG.longest_tokens + 16) * 131_072
    again = plan(Startup(case=TOO_LONG.startup.case, max_model_len=TOO_LONG.longest_tokens))
    assert again.starts


def test_what_is_over_where_weights_do_not_fit():
    figures = kv_pool.plan_texts(NO_ROOM)
    assert NO_ROOM.longest_tokens == 0
    assert figures["over"] == format_bytes(-NO_ROOM.pool_bytes)
    assert figures["pool"] == "0 B"


def test_whole_prompts_at_once_make_the_pool_shrink_with_the_length():
    """vLLM issue 10517: 9,000 tokens more cost 107 KiB each."""
    case = Case(model="llama-3.1-8b", gpu="rtx-4090")
    short, long = (plan(Startup(case=case, max_model_len=n, unchunked=True)) for n in (20_000, 29_000))
    assert (short.pool_bytes - long.pool_bytes) / 9_000 == pytest.approx(107 * 1024, rel=0.02)


def test_a_model_without_known_weights_is_refused_in_a_sentence():
    whisper = config_file.read_file("tests/data/hf_configs/whisper-tiny.json", assume_defaults=True)
    with pytest.raises(CaseError, match=r"^model whisper-tiny: its config.json does not tell how many parameters"):
        plan(Startup(case=Case(model=whisper.text)))


# --- levers ---


def test_a_lever_frees_what_the_pool_gains_and_what_the_same_kv_takes_less():
    found = {lever.what: lever.plan for lever in levers.levers(Startup(case=Case()))}
    assert list(found) == [
        "now", "kv_dtype", "weights", "utilization", "max_num_batched_tokens", "max_model_len", "tp",
    ]  # fmt: skip
    now = found.pop("now")
    freed = {what: levers.freed_bytes(then, now) for what, then in found.items()}
    assert freed["kv_dtype"] == pytest.approx(now.pool_bytes / 2)
    assert freed["tp"] == pytest.approx(found["tp"].pool_bytes - now.pool_bytes / 2)
    assert freed["max_model_len"] == 0
    assert found["max_model_len"].full_requests == pytest.approx(2 * now.full_requests, rel=1e-3)


def test_levers_that_do_nothing_are_left_out():
    narrow = Startup(case=Case(kv_dtype="fp8", tp=64, model="llama-3-70b"), four_bit=True, utilization=1.0)
    assert [lever.what for lever in levers.levers(narrow)] == ["now", "max_num_batched_tokens", "max_model_len"]


@pytest.mark.parametrize("startup", [TOO_LONG.startup, NO_ROOM.startup], ids=["too long", "no room"])
def test_each_way_is_enough_alone_and_the_least_of_its_kind(startup):
    found = levers.ways(startup)
    assert {lever.what for lever in found} >= {"tp", "gpu"}
    assert all(lever.plan.starts for lever in found)
    assert [lever.what for lever in found].count("gpu") <= 3
    (wider,) = (lever for lever in found if lever.what == "tp")
    half = int(wider.value) // 2
    assert half == 1 or not plan(Startup(case=Case(**vars(startup.case) | {"tp": half}))).starts


def test_a_model_for_many_gpus_needs_many():
    assert [lever.what for lever in levers.ways(Startup(case=Case(model="deepseek-v3")))] == ["tp"]


# --- lines, and the same request elsewhere ---


@pytest.mark.parametrize("model", ["llama-3-8b", "gemma-3-27b", "deepseek-v3", "gpt-oss-20b", "qwen3-32b"])
def test_our_own_reader_reads_the_lines_back(model):
    found = plan(Startup(case=Case(model=model, gpu="h200-sxm-141gb", tp=8), swap_gib=4))
    for engine, lines in start_lines.pool_lines(found).items():
        log, line = log_reader.read_log("\n".join(lines)), found.printed[engine]
        assert log.engine == engine
        if engine == "vllm-v0":
            assert (log.gpu_blocks, log.cpu_blocks) == (line.blocks, line.cpu_blocks)
        else:
            assert log.tokens == line.tokens
            assert log.pool_bytes == pytest.approx(found.pool_bytes, abs=0.011 * GIB)
        if log.concurrency is not None:
            assert (log.concurrency, log.max_model_len) == (
                pytest.approx(line.concurrency, abs=0.006),
                found.startup.longest,
            )


def test_a_refusal_is_read_back_too():
    """Need, has and the longest that fits, rounded as printed."""
    (engine,) = start_lines.pool_lines(TOO_LONG)
    log = log_reader.read_log(" ".join(start_lines.pool_lines(TOO_LONG)[engine]))
    assert (log.max_model_len, log.longest_tokens) == (131_072, TOO_LONG.longest_tokens)
    assert (log.needed_bytes, log.pool_bytes) == pytest.approx(
        (TOO_LONG.need_bytes, TOO_LONG.pool_bytes), abs=0.006 * GIB
    )
    assert start_lines.pool_lines(NO_ROOM)["vllm"][1].startswith("No available memory")


def test_the_same_request_in_every_mode():
    """Field cases D09 (gpt-oss-120b at 8,192 tokens: 292.5 MiB, 576 MiB in full) and D11 (DeepSeek-V2-Lite)."""
    oss = config_file.read_file("tests/data/hf_configs/config_gpt_oss_120b.json").text
    ways = {way.mode: way for way in as_kept.sizes(Case(model=oss, tokens=8192))}
    assert list(ways) == ["exact", "hybrid-off", "in-flight"]
    assert (ways["exact"].kv_bytes, ways["hybrid-off"].kv_bytes) == (292.5 * 2**20, 576 * 2**20)
    assert (ways["exact"].growth_bytes_per_token, ways["hybrid-off"].growth_bytes_per_token) == (36_864, 73_728)
    lite = config_file.read_file("tests/data/hf_configs/config_deepseek_v2_lite.json").text
    ways = {way.mode: way for way in as_kept.sizes(Case(model=lite))}
    assert (ways["exact"].growth_bytes_per_token, ways["expanded"].growth_bytes_per_token) == (31_104, 442_368)


def test_a_plain_model_has_one_number():
    assert [way.mode for way in as_kept.sizes(Case())] == ["exact"]


@pytest.mark.parametrize("model", catalog.model_ids())
def test_every_model_of_the_catalog_has_a_plan(model):
    found = plan(Startup(case=Case(model=model)))
    assert found.need_bytes > 0
    assert found.mean_bytes > 0
    assert found.starts == (found.full_requests >= 1)
