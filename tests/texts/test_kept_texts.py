"""What the pages, the memo and the formulas say of a comparison, a pool and a run is as it was last read.

After a change that is meant, write `data/kept/texts.json` anew and read what differs:

    python -m tests.texts.test_kept_texts
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmodel import charts
from kvmodel.claims import figure19, scenarios
from kvmodel.curves import kv_table, roofline_points
from kvmodel.errors import CaseError
from kvmodel.evidence import measured_points
from kvmodel.explain import formula, guided_path, traces
from kvmodel.hf import config_file
from kvmodel.inputs.case import Case
from kvmodel.memory import as_kept, levers, pool_plan
from kvmodel.recovery.comparison import Comparison, compare_case
from kvmodel.report import memo
from kvmodel.simulation import pool_film, servers
from kvmodel.texts import comparison, evidence, guide, kv_pool, pressure, tables
from tests.charts.test_charts import CASES
from tests.helpers import kept

TRACES: tuple[Callable[[Comparison], formula.Trace], ...] = (
    traces.kv, traces.swap, traces.recompute, traces.even_rate, traces.wait_for_blocks, traces.prefill_rate,
)  # fmt: skip
HYBRID = Path(__file__).parents[1] / "startup_log" / "field" / "12-gdn-hybrid.json"
ALL_CASES = CASES | {
    "states": Case(model=config_file.read_file(str(HYBRID)).text, gpu="h200-sxm-141gb", tp=2, tokens=20000),
    "chunked": Case(model="llama-4-scout", gpu="h200-sxm-141gb", tp=8, tokens=20000, survival=0.3),
    "latent": Case(model="deepseek-v3", gpu="h200-sxm-141gb", tp=8, tokens=9000, preemptions=3),
    "nothing decodes": Case(decode_batch=0, policy="vllm-v1-offload", objective="gpu-time"),
}
SCHEDULERS = ("vllm-v1", "vllm-v0-swap", "sglang", "trtllm-no-evict", "wait")


def of_formulas(case: Case) -> Any:
    """Each line of each formula, its numbers put in, and its result."""
    result = compare_case(case)
    return {
        trace.__name__: [
            f"{line.name}: {' + '.join(f'{formula.symbols(term)} = {formula.numbers(term)}' for term in line.terms)}"
            f" = {formula.result(line)} {line.value:.9g}"
            for line in trace(result)
        ]
        for trace in TRACES
    }


def of_comparison(case: Case) -> Any:
    result = compare_case(case)
    line, step = roofline_points.roofline_of(result), roofline_points.step_curve(result)
    table = kv_table.kv_table(case, tables.link_columns(case))
    return {
        "comparison": comparison.comparison_texts(result),
        "roofline": comparison.roofline_texts(result, line, step),
        "prices": tables.price_rows(result), "sources": tables.source_rows(result),
        "kv": [tables.kv_rows(table, measured=one) for one in (False, True)],
        "evidence": evidence.lead_texts(case),
    }  # fmt: skip


def of_memo(case: Case) -> Any:
    return [kept.flat(block) for block in memo.memo(case)]


def of_pool(case: Case) -> Any:
    plan = pool_plan.plan(pool_plan.Startup(case=case))
    return {
        "plan": kv_pool.plan_texts(plan), "levers": kv_pool.lever_cells(levers.levers(plan.startup)),
        "ways": [kv_pool.storage_texts(way) for way in as_kept.sizes(case)],
    }  # fmt: skip


def of_path(case: Case) -> Any:
    """Every step of the guided path: its answer, and its texts after a guess that is off."""
    found = {}
    for step in guided_path.steps():
        result, server = compare_case(guided_path.case_of(step, vars(case))), guided_path.default_server()
        answer = guided_path.answer(step, result, server)
        gap = guide.gap_texts(step, 3 * answer, answer) if isinstance(answer, (int, float)) else None
        found[step.id] = [answer, guide.step_texts(step, result, server), gap]
    return found


def of_run(case: Case) -> Any:
    """Runs of a short load by several schedulers, and a film of the first."""
    asked = servers.Pressure(case=case, demand=servers.Demand(requests=120))
    found: dict[str, Any] = {}
    for scheduler in SCHEDULERS:
        run = servers.run(asked, scheduler)
        totals = pressure.totals(run, asked.objective)
        texts = pressure.run_texts(scheduler, totals, run, case.block_tokens)
        found[scheduler] = [
            texts,
            pressure.cause(totals),
            str(servers.load_text(asked, run)),
            servers.pool_share(asked, run),
        ]
        if scheduler == SCHEDULERS[0]:
            film = pool_film.film(run, case.block_tokens)
            stays = {name: getattr(film, name)[::17] for name in ("admitted_s", "decoding_s", "left_s", "left_blocks")}
            found["film"] = [stays, film.end_s, film.goes_on, pool_film.busiest_s(film)]
    return found


def of_catalog(case: Case) -> Any:
    """What no case changes."""
    return {
        "article": [tables.article_rows(), tables.article_header(), tables.article_round_trip()],
        "outcomes": [tables.outcome_cells(one) for row in scenarios.table() for one in row.outcomes],
        "figure 19": comparison.figure19_texts(figure19.figure19()),
        "evidence": [evidence.kinds(), evidence.gaps(), evidence.gap_texts(), evidence.source_rows()],
        "errors": evidence.error_rows(measured_points.pairs()),
        "addresses": [memo.page_address(name, case, "https://kv.example.org") for name in charts.NAMES],
        "a chart": memo.chart_note("roofline", case),
    }


ONCE = {"path": of_path, "run": of_run, "catalog": of_catalog}
EACH = {"formulas": of_formulas, "comparison": of_comparison, "memo": of_memo, "pool": of_pool}
TEXTS = [*ONCE, *(f"{name}, {case}" for name in EACH for case in ALL_CASES)]


def said(text: str) -> Any:
    name, _, case = text.partition(", ")
    try:
        found = (ONCE | EACH)[name](ALL_CASES[case or "default"])
    except CaseError as error:
        found = [str(error)]
    return kept.as_json(kept.flat(found))


def every() -> dict[str, Any]:
    """All texts; of further cases what is not as in the default one."""
    found = {text: said(text) for text in TEXTS}
    defaults = {name: found[f"{name}, default"] for name in EACH}
    is_further = {text: ", " in text and not text.endswith(", default") for text in TEXTS}
    return {
        text: kept.differing(defaults[text.partition(", ")[0]], one) if is_further[text] else one
        for text, one in found.items()
    }


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return every()


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_as_it_was_read(text: str, now: dict[str, Any], read: dict[str, Any]) -> None:
    assert now[text] == read[text]


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return kept.read("texts")


if __name__ == "__main__":
    kept.write("texts", every())
