"""The Capacity page: what fits, what is too little, levers, the engines' lines, host memory, and pasted logs."""

import functools
import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer import prose
from explorer.sections import start_log
from kvmodel import catalog
from kvmodel.inputs.case import Case
from kvmodel.memory import pool_plan
from kvmodel.memory.pool_plan import Startup
from kvmodel.startup_log import log_answer, log_reader
from kvmodel.texts import kv_pool
from tests.helpers import visit

ROOT = Path(__file__).resolve().parents[2]
LOG = (ROOT / "tests/data/pool_logs/vllm-0.6.4.log").read_text(encoding="utf-8")
SAMPLE = prose.text("capacity", "log_sample_text")


opened = functools.partial(visit.opened, "capacity")


def texts(at: AppTest) -> str:
    return "\n".join(element.value for element in (*at.markdown, *at.error, *at.success))


def pressed(at: AppTest, section: str) -> AppTest:
    label = prose.label("capacity", section)
    at = next(button for button in at.button if button.label == label).click().run()
    assert not at.exception
    return at


def explained(text: str, **query: str) -> AppTest:
    at = opened(**query)
    at.text_area(key=start_log.TEXT).set_value(text)
    return pressed(at, "log_explain")


def lever_rows(at: AppTest) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in visit.cells(visit.tables(at)[0])}


# --- what fits ---


def test_the_answer_comes_first():
    """56.6 GiB of an A100 80 GB for Llama 3 8B: 0.25 GiB a request of 2,048 tokens, 1 GiB of 8,192."""
    said = next(element.value for element in opened().markdown if "fit at once" in element.value)
    assert said.startswith("**226 requests of 2,048 tokens** fit at once, or **56 of the longest**, 8,192 tokens")
    assert "**56.6 GiB, 464,064 tokens**" in said
    assert "expect 55.7 GiB to 57.2 GiB, that is 222 to 228 requests" in said


def test_inputs_come_from_the_link_and_change_the_answer():
    at = opened(
        max_model_len="4096", utilization="0.9", decode_context="1024", model="llama-3.1-8b", gpu="h100-sxm5-80gb"
    )
    case = Case(model="llama-3.1-8b", gpu="h100-sxm5-80gb", decode_context=1024)
    figures = kv_pool.plan_texts(pool_plan.plan(Startup(case=case, max_model_len=4096, utilization=0.9)))
    assert prose.text("capacity", "lead", figures) in texts(at)
    assert at.number_input(key="max_model_len").value == 4096


def test_a_change_goes_into_the_link():
    at = opened()
    at.number_input(key="max_model_len").set_value(2048).run()
    at.number_input(key="decode_context").set_value(500).run()
    assert at.query_params["decode_context"] in ("500", ["500"])  # what is bound the browser writes: tests/browser
    assert "requests of 500 tokens** fit at once" in texts(at)
    assert "of the longest**, 2,048 tokens" in texts(at)


@pytest.mark.parametrize(
    "query",
    [{"max_model_len": "abc"}, {"utilization": "7"}, {"pp": "-1"}, {"offload_gib": "<b>"}, {"unchunked": "perhaps"}],
)
def test_garbage_in_a_link_falls_back(query: dict[str, str]):
    at = opened(**query)
    assert "**226 requests of 2,048 tokens**" in texts(at)


def test_the_bar_has_words_for_a_screen_reader():
    (drawn,) = opened().get("plotly_chart")
    assert "KV pool 56.6 GiB" in drawn.proto.alt
    assert [trace["name"] for trace in json.loads(drawn.proto.spec)["data"]][: len(pool_plan.PARTS)] == list(
        pool_plan.PARTS
    )


def test_a_hybrid_model_has_both_numbers():
    said = texts(opened(model="gemma-3-27b", gpu="h200-sxm-141gb"))
    assert "6.8 fit with the hybrid KV manager, **1.3 without it**" in said
    assert "without it" not in texts(opened())


# --- what is too little ---


def test_a_refusal_says_need_has_and_the_longest_that_fits():
    at = opened(model="llama-3.1-8b", gpu="l4")
    (error,) = at.error
    assert error.value.startswith("**It does not start.** One request of 131,072 tokens needs **16.0 GiB**")
    assert "The longest request that fits has **" in error.value
    said = texts(at)
    assert "- KV in fp8" not in said, "half of 16 GiB is still more than there is"
    assert "- tensor parallel over 2 GPUs" in said
    assert "- requests of at most" in said
    assert at.get("plotly_chart")


def test_weights_that_do_not_fit_say_by_how_much_and_what_would():
    at = opened(model="llama-3-70b")
    (error,) = at.error
    assert error.value.startswith("**The weights do not fit.** Weights (131 GiB)")
    assert "too much** before any KV" in error.value
    said = texts(at)
    assert "- weights of the layers in 4 bits, which leaves a pool of" in said
    assert "- tensor parallel over 2 GPUs, which leaves a pool of" in said
    larger = catalog.gpu("b200-sxm-180gb").label
    assert f"- {larger} in place of this GPU, which leaves a pool of" in said


def test_a_tp_that_does_not_divide_the_heads_is_a_sentence():
    at = opened(model="qwen2.5-7b", tp="8")
    assert [warning.value.split("\\:")[0] for warning in at.warning] == ["tp"]


# --- levers, lines, host memory ---


def test_every_lever_of_the_question_frees_something():
    rows = lever_rows(opened())
    assert rows["as it is"][0] == "–"
    assert rows["KV in fp8"][0] == "+28.32 GiB"
    assert rows["utilisation 97 %"][0] == "+3.96 GiB"
    assert set(map(len, rows.values())) == {4}
    assert len(rows) == 7


def test_with_whole_prompts_at_once_the_longest_length_frees_memory():
    rows = lever_rows(opened(model="llama-3.1-8b", unchunked="true", max_model_len="32768"))
    shorter = next(cells for name, cells in rows.items() if name.startswith("requests of at most 16,384"))
    assert shorter[0] == "+1.69 GiB"


def test_the_lines_of_every_engine():
    at = opened()
    lines = [element.value for element in at.code]
    assert "GPU KV cache size: 464,064 tokens, Maximum concurrency for 8,192 tokens per request: 56.65x" in lines[0]
    assert lines[2].startswith("# GPU blocks: 29004, # CPU blocks: 2048")
    assert len(lines) == 5


def test_host_memory_is_shared_among_the_gpus():
    at = opened(tp="2", offload_gib="128")
    assert "128 GiB of host memory, **64.0 GiB for each GPU**, keep **1,048,576 tokens**" in texts(at)


# --- logs ---


def test_a_log_is_explained_and_agrees():
    at = explained(LOG)
    said = texts(at)
    assert prose.label("capacity", "log_good") in said
    answer = log_answer.explain_text(LOG, Case(), {"model": start_log.model_of(LOG, Case())})
    checks = visit.cells(visit.tables(at)[1])
    assert len(checks) == len(answer["findings"])
    assert {row[4] for row in checks} <= {
        prose.label("capacity", f"log_mark.{mark}") for mark in start_log.MARKS.values()
    }
    assert len(visit.tables(at)[2]) == len(kv_pool.log_values(answer["figures"]))


def test_the_sample_is_one_of_the_field_cases():
    """D12: 10.55 GiB, 230,528 tokens, 2.31x are 49,152 bytes a token in fp8."""
    said = texts(pressed(opened(), "log_sample"))
    assert "held against **Qwen3 30B-A3B**, which the log names" in said
    assert "the model's own is **49,152**" in said
    assert prose.label("capacity", "log_good") in said


def test_a_wrong_model_is_flagged():
    """The same memory and tokens cannot be those of the chosen model."""
    nameless = "\n".join(line for line in SAMPLE.splitlines() if "model=" not in line)
    at = explained(nameless)
    assert prose.label("capacity", "log_bad") in texts(at)
    assert "held against **Llama 3 8B**, the model chosen above" in texts(at)
    marks = [row[4] for row in visit.cells(visit.tables(at)[1])]
    assert prose.label("capacity", "log_mark.wrong") in marks


def test_words_for_every_figure_and_finding_there_can_be():
    for figure in log_reader.LogValues().__dataclass_fields__:
        if figure not in log_reader.APART:
            assert prose.text("capacity", f"figure.{figure}")
    at = explained("KV Cache is allocated. #tokens: 251788, K size: 2.88 GB, V size: 2.88 GB")
    assert len(visit.tables(at)) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("hello", "log: no line of an engine's memory or KV pool in it", id="no log"),
        pytest.param("<script>alert(1)</script>", "log: no line", id="markup"),
        pytest.param("x" * 1_100_000, "log: 1.05 MiB given; allowed: up to 1.00 MiB", id="too long"),
    ],
)
def test_what_is_no_log_gets_a_sentence(text: str, sentence: str):
    (error,) = explained(text).error
    assert sentence in error.value.replace("\\", "")


def test_a_refusal_is_said_first_and_nothing_is_called_in_order():
    at = explained(
        "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache "
        "(7344)."
    )
    (error,) = at.error
    assert "0.22 of one request of 32,768" in error.value
    assert "max-model-len 7344" in error.value
    assert not at.success


def test_a_difference_that_is_not_explained_is_no_contradiction():
    text = "Available KV cache memory: 10.55 GiB\nGPU KV cache size: 230,528 tokens"
    at = explained(text, model="qwen3-30b-a3b", gpu="h100-sxm5-80gb")
    assert [element.value for element in at.info] == [prose.label("capacity", "log_open")]
    assert prose.label("capacity", "log_mark.unexplained") in [row[-1] for row in visit.cells(visit.tables(at)[1])]


def test_markup_in_a_log_stays_text():
    evil = "model='[x](http://192.0.2.1/)<img>' GPU KV cache size: 1,000 tokens Available KV cache memory: 1.00 GiB"
    at = explained(evil)
    shown = [element.value for element in at.markdown]
    assert not [words for words in shown if "](http" in words or "<img" in words.replace("\\<", "")]


def test_a_log_goes_into_no_link_and_is_forgotten():
    at = explained(LOG)
    assert set(at.query_params) == set()
    at = pressed(at, "log_forget")
    assert len(visit.tables(at)) == 1
    assert start_log.TEXT not in at.query_params


def test_weights_as_loaded_stand_in_the_bar_and_the_levers():
    """4 GiB more than the model's 15.0 are 4 less for the pool; the lever of two GPUs splits the log's figure."""
    plain, given = opened(), opened(weight_gib="19")
    assert plan_pool(plain) - plan_pool(given) == pytest.approx(19 - 14.96, abs=0.06)
    assert lever_rows(plain)["as it is"] != lever_rows(given)["as it is"]


def test_a_logs_weights_are_taken_over_with_a_press():
    at = explained(LOADED_LOG)
    at = at.button(key="use_weights").click().run()
    assert not at.exception
    assert at.number_input(key="weight_gib").value == pytest.approx(19.0)
    assert plan_pool(at) == pytest.approx(plan_pool(opened(weight_gib="19")), abs=0.01)


LOADED_LOG = "INFO gpu_model_runner.py Model loading took 19.0000 GiB and 12.8 seconds\n" + SAMPLE


def plan_pool(at):
    """The pool that the first sentence says. [GiB]"""
    return float(lever_rows(at)["as it is"][1].split()[0])
