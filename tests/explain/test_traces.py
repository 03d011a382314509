"""Why-traces: the numbers shown multiply and add up to what the model says, and every line names its function."""

import importlib
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer import prose
from explorer.sections.why import TEXT_COLOURS, in_markdown
from kvmodel import catalog
from kvmodel.charts import breakdown, theme
from kvmodel.curves.roofline_points import roofline_of
from kvmodel.errors import CaseError
from kvmodel.explain import formula, kv_formulas, traces
from kvmodel.explain.formula import Factor, Line, Term
from kvmodel.inputs.case import BYTES_PER_VALUE, Case, options_of
from kvmodel.memory import kv_cache
from kvmodel.recovery import break_even, resolve
from kvmodel.recovery.comparison import Comparison, compare_case

H100 = {"gpu": "h100-sxm5-80gb"}
CASES = [
    pytest.param(Case(), id="default"),
    pytest.param(Case(tokens=5000, survival=0.4, timing="kernels"), id="part survives, last chunk shorter, no engine"),
    pytest.param(
        Case(model="llama-3-70b", **H100, tp=4, tokens=9000, preemptions=3), id="four GPUs, three preemptions"
    ),
    pytest.param(Case(policy="vllm-v0", layout="per-layer-kv", timing="2023"), id="vLLM of 2023, host bound"),
    pytest.param(Case(tokens=300, timing="2023"), id="a short prefill, slower on the host than on the GPU"),
    pytest.param(
        Case(copy_method="batched", layout="per-layer-kv", pinning="first-use"), id="below the cliff, pinning"
    ),
    pytest.param(Case(model="gemma-3-12b", tokens=9001, tp=2), id="windows, blocks part-filled, heads split"),
    pytest.param(Case(model="gpt-oss-20b", **H100, tokens=3001), id="windows and experts"),
    pytest.param(Case(model="deepseek-v2-lite", tokens=8192, kv_dtype="fp8"), id="latent attention"),
    pytest.param(Case(model="llama-3.1-8b", gpu="l40s", tp=2, decode_batch=4), id="all-reduce over PCIe"),
]
UNITS = {
    "TFLOP/s": 1e12, "GB/s": 1e9, "FLOP/byte": 1, "billion": 1e9, "TFLOP": 1e12, "TB": 1e12, "GB": 1e9, "MB": 1e6,
    "kB": 1e3, "ms": 1e-3, "µs": 1e-6,
}  # fmt: skip
NUMBER = re.compile(r"([\d,]+\.?\d*)( [A-Za-zµ][A-Za-z/µ]*)?")


def evaluated(words: str) -> float:
    """What a reader with a pocket calculator gets from a text such as "2 × 537 MB / (284 ms)"."""

    def number(found: re.Match[str]) -> str:
        return f"{float(found.group(1).replace(',', '')) * UNITS.get((found.group(2) or '').strip(), 1):.12f}"

    sums = NUMBER.sub(number, words.replace("(K and V)", "")).replace("×", "*")
    return float(eval(re.sub(r"[A-Za-z]+", "", sums)))


def by_hand(line: Line) -> float:
    terms = [evaluated(formula.numbers(term)) for term in line.terms]
    return math.hypot(*terms) if line.join == "root" else math.fsum(terms)


def all_lines(result: Comparison) -> list[Line]:
    return [line for trace in traces.TRACES.values() for line in trace(result)]


@pytest.mark.parametrize("case", CASES)
def test_every_result_is_the_models(case: Case) -> None:
    result = compare_case(case)
    inputs, layers = result.inputs, catalog.model(case.model).kv_layers
    value_bytes = BYTES_PER_VALUE[case.kv_dtype]
    ends = {name: trace(result)[-1].value for name, trace in traces.TRACES.items()}
    assert ends["kv"] == pytest.approx(float(kv_cache.kv_bytes(layers, case.tokens, bytes_per_value=value_bytes)))
    lines = {line.name: line.value for line in traces.kv(result)}
    two, one = (float(kv_cache.kv_bytes(layers, tokens, bytes_per_value=value_bytes)) for tokens in (2, 1))
    assert lines["kv_token"] == pytest.approx(two - one)
    growth = float(kv_cache.growth_bytes_per_token(layers, bytes_per_value=value_bytes))
    assert lines.get("kv_growth", lines["kv_token"]) == pytest.approx(growth)
    assert ends["swap"] == pytest.approx(float(result.prices["swap"].victim_delay_s))
    assert ends["recompute"] == pytest.approx(float(result.prices["recompute"].victim_delay_s))
    assert ends["wait_for_blocks"] == pytest.approx(result.wait_for_blocks_s)
    even, here = traces.even_rate(result)
    assert even.value == pytest.approx(result.even.copy_bytes_per_s)
    assert here.value == pytest.approx(float(break_even.effective_copy_bytes_per_s(inputs)))
    assert traces.swap(result)[0].value == pytest.approx(float(resolve.moved_bytes(inputs, case.tokens)))
    line = roofline_of(result)
    ridge, _, _, intensity, rate = traces.prefill_rate(result)
    assert ridge.value == pytest.approx(line.ridge_flop_per_byte)
    assert intensity.value == pytest.approx(line.points[0].intensity_flop_per_byte)
    assert rate.value == pytest.approx(line.points[0].attained_flop_per_s)


@pytest.mark.parametrize("case", CASES)
def test_a_reader_who_checks_the_sums_gets_the_result(case: Case) -> None:
    """Each number shown is within half a unit of its third digit, so a product of six may be 3 % off."""
    for line in all_lines(compare_case(case)):
        assert by_hand(line) == pytest.approx(line.value, rel=0.03), line.name
        first = formula.result(line).split(" = ")[0]
        assert evaluated(first) == pytest.approx(line.value, rel=0.05), line.name


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(catalog.model_ids()), st.sampled_from(catalog.gpu_ids()), st.sampled_from(options_of("timing")),
    st.sampled_from(options_of("layout")), st.sampled_from(options_of("copy_method")), st.integers(1, 20_000),
    st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([16, 100, 4096]), st.sampled_from([1, 2]),
)  # fmt: skip
def test_any_case_adds_up(model, gpu, timing, layout, copy_method, tokens, survival, chunk, preemptions):
    try:
        result = compare_case(
            Case(
                model=model, gpu=gpu, timing=timing, layout=layout, copy_method=copy_method, tokens=tokens,
                survival=survival, max_num_batched_tokens=chunk, preemptions=preemptions,
            )
        )  # fmt: skip
    except CaseError:
        return
    assert traces.swap(result)[-1].value == pytest.approx(float(result.prices["swap"].victim_delay_s))
    recomputing = traces.recompute(result)
    delay_s = float(result.prices["recompute"].victim_delay_s)
    assert (recomputing[-1].value if recomputing else 0.0) == pytest.approx(delay_s)
    for line in all_lines(result):
        assert in_markdown(line)


def test_a_model_with_an_indexer_counts_its_keys_too() -> None:
    """32 layers of one vector of 576 values and one index key of 128 values with a scale of 4 bytes, all in 8 bits."""
    group = catalog.KvLayers(kind="mla", layers=32, kv_heads=1, key_dim=576, value_dim=0, index_dim=128)
    terms = kv_formulas.kv_terms([group], 1, lambda _: (Factor("n", 10, "tokens"),))
    assert [term.value for term in terms] == [32 * 576 * 10, 32 * 132 * 10]


def test_nothing_left_to_recompute_has_no_trace_and_no_break_even() -> None:
    result = compare_case(Case(survival=1.0))
    assert traces.recompute(result) == ()
    assert [line.name for line in traces.even_rate(result)] == ["effective"]


@pytest.mark.parametrize("changed", [{"decode_batch": 0}, {"model": "llama-2-7b", "gpu": "a10g"}])
def test_without_a_batch_that_fits_there_is_no_trace_of_the_wait(changed: dict[str, object]) -> None:
    assert traces.wait_for_blocks(compare_case(Case(**changed))) == ()


def test_a_term_in_symbols_and_in_numbers() -> None:
    term = Term((Factor("M", 537e6, "bytes"),), (Factor("B", 25e9, "bytes/s"),))
    assert (formula.symbols(term), formula.numbers(term)) == (r"\dfrac{M}{B}", "537 MB / 25.0 GB/s")
    assert term.value == pytest.approx(537 / 25_000)


def test_a_root_is_of_the_sum_of_squares() -> None:
    sides = tuple(Term((Factor(name, value, "s"),)) for name, value in (("a", 3.0), ("b", 4.0)))
    assert Line("x", "c", sides, "s", "units.significant", join="root").value == 5.0


@pytest.mark.parametrize("case", CASES)
def test_every_line_names_a_function_and_has_words_and_a_colour_that_a_bar_has(case: Case) -> None:
    for line in all_lines(compare_case(case)):
        module, function = line.computed_in.rsplit(".", 1)
        assert callable(getattr(importlib.import_module(f"kvmodel.{module}"), function))
        assert prose.label("why", f"line.{line.name}")
        assert {term.part for term in line.terms} <= {*breakdown.looks(theme.LIGHT), "kv", ""}


def test_text_has_the_colours_of_the_strategies() -> None:
    words = in_markdown(traces.swap(compare_case(Case()))[-1]).replace("\N{NO-BREAK SPACE}", " ")
    assert f":{TEXT_COLOURS['swap']}[22.3 ms]" in words
    config = (prose.ROOT.parents[1] / ".streamlit" / "config.toml").read_text()
    for strategy, name in TEXT_COLOURS.items():
        if strategy != "wait":  # text needs a darker grey than a line
            assert f'{name}TextColor = "{theme.LIGHT.of(strategy)}"' in config
