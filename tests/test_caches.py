"""What is kept for the next reader is kept under all that it depends on: any other input has another answer, or the
same one because it is the same. Held for every cache of the program, every field of its inputs in turn."""

import contextvars
import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.requests import Request

from explorer import language
from hosting import charts as by_address
from kvmodel import catalog, words
from kvmodel.catalog import custom_model
from kvmodel.cli.rows import QUESTIONS
from kvmodel.curves import live_terms, slider_stops
from kvmodel.diagnosis.server_remedies import Load
from kvmodel.errors import CaseError
from kvmodel.inputs import addresses
from kvmodel.inputs.case import DEFAULTS, LIMITS, Case
from kvmodel.recovery.comparison import compare_case
from kvmodel.simulation import remedy_rungs
from kvmodel.simulation.load_curve import Objective
from kvmodel.simulation.remedy_rungs import Server
from kvmodel.simulation.results import Results
from kvmodel.simulation.servers import Demand, Pressure
from kvmodel.simulation.simulate import Engine, simulate
from kvmodel.simulation.step_clock import StepTimes
from kvmodel.simulation.workload import Workload
from kvmodel.sweeps import row_results
from tests.helpers import caches
from tests.helpers.replicas import in_a_loop

OWN = {"copy_gb_per_s": 11.0, "per_copy_us": 3.0, "gemm_efficiency": 0.4, "request_overhead_ms": 30.0}
OTHER_IDS = {"model": "llama-2-13b", "gpu": "h100-sxm5-80gb", "link": "nvlink-c2c"}
PROCESS = {  # of the whole process: no inputs, and no answer that a reader sees
    "explorer/frame.py:warm_up", "hosting/warm.py:before_the_first_visitor", "kvmodel/charts/pictures.py:_browser",
    "explorer/share.py:has_pictures", "kvmodel/catalog/lookup.py:_validator",
}  # fmt: skip

OF_A_READER = {"kvmodel/sweeps/row_results.py:read_shared"}  # of one table: the rows of it, in the test of rows


def another(field: str) -> Any:
    """A value that a field of a Case may have, and not its default."""
    limits, default = LIMITS[field], DEFAULTS[field]
    if limits.options:
        return next(option for option in limits.options if option != default)
    if isinstance(default, (int, float)):
        return default * 2 if default else type(default)(limits.ends[1] / 2)
    return OTHER_IDS.get(field) or OWN[field]


def varied(first: Any, others: dict[str, Any]) -> list[Any]:
    """The first, and with every field of its class in turn changed alone."""
    assert set(others) == {field.name for field in dataclasses.fields(first)}, "a field without another value"
    return [first, *(dataclasses.replace(first, **{field: value}) for field, value in others.items())]


CASES = varied(Case(), {field: another(field) for field in DEFAULTS})
SMALL = Demand(requests=20, requests_per_s=50.0)
DEMANDS = varied(
    SMALL,
    {"workload": "retrieval", "requests": 21, "seed": 1, "requests_per_s": 20.0, "burstiness": 0.5, "clients": 8},
)
TIGHT = Engine(num_blocks=900)


def shorter(case: Case, workload: Workload, engine: Engine) -> Results:
    """Another way to work a run out."""
    return simulate(case, workload, engine, every_s=2.0)


ENGINES = varied(
    TIGHT,
    {"scheduler": "wait", "num_blocks": 700, "utilization": 0.8, "max_num_seqs": 4, "watermark": 0.1,
     "prefix_caching": False, "by_priority": True, "host_gib": 1.0},
)  # fmt: skip
SERVERS = varied(
    Pressure(case=Case(), demand=SMALL, engine=TIGHT),
    {"case": Case(tokens=512), "demand": DEMANDS[3], "engine": ENGINES[2], "beside": "none", "pool_percent": 40,
     "objective": Objective(ttft_s=0.1)},
)  # fmt: skip
REQUESTS = SMALL.arrivals()
LOADS = varied(
    Load(8, 200.0, 50.0, 0.3, 0.3, None),
    {"clients": 9, "prompt_tokens": 300.0, "output_tokens": 80.0, "prompt_spread": 0.6, "output_spread": 0.1,
     "requests_per_s": 2.0},
)  # fmt: skip
LANGUAGES = tuple(language.LANGUAGES)
STEPS = ((1e6, "M"), (1e3, "k"), (1.0, ""))


def each(*values: Any) -> list[tuple[Any, ...]]:
    return [(value,) for value in values]


def _server(**changes: Any) -> Server:
    return dataclasses.replace(Server(Case(), TIGHT), **changes)


INPUTS: dict[str, list[tuple[Any, ...]]] = {
    "explorer/controls.py:comparison_of": each(*CASES),
    "explorer/language.py:words_of": each(*LANGUAGES),
    "explorer/prose.py:sections_in": [(code, file) for code in LANGUAGES for file in ("home", "verdict")],
    "explorer/sections/claims.py:cards_in": each(*LANGUAGES),
    "explorer/sections/glossary.py:numbers_in": each(*LANGUAGES),
    "explorer/sections/live.py:stop_text": [
        (name, value)
        for name in ("tokens", "copy_gb_per_s", "gemm_efficiency", "survival", "preemptions")
        for value in (1, 1.0, 0.0, 0.5, 32.25)
    ],
    "explorer/sections/live.py:terms_of": each(*CASES),
    "explorer/sections/scenarios.py:overview_in": each(*LANGUAGES),
    "explorer/show.py:together": each("1 – 2", "1 - 2", "10 GB and 3 ms", "10 MB and 3 ms"),
    "kvmodel/catalog/lookup.py:_catalog_model": each("llama-3-8b", "LLAMA-3-8B", "llama-2-13b"),
    "kvmodel/catalog/lookup.py:_custom_model": each(
        *(custom_model.as_text(catalog.model(name)) for name in ("llama-3-8b", "llama-2-13b"))
    ),
    "kvmodel/catalog/lookup.py:_names": each("model", "gpu", "link"),
    "kvmodel/catalog/lookup.py:_rows": each("model", "gpu", "link"),
    "kvmodel/catalog/lookup.py:gpu": each(*catalog.gpu_ids()),
    "kvmodel/catalog/lookup.py:link": each(*catalog.link_ids()),
    "kvmodel/catalog/lookup.py:table": each("workloads", "metrics", "remedies"),
    "kvmodel/curves/live_terms.py:_cached_sparse_terms": [
        *((case, (0, 3)) for case in CASES), *((CASES[0], columns) for columns in ((0,), (3, 0), (0, 4))),
    ],
    "kvmodel/curves/slider_stops.py:from_catalog": each(*CASES),
    "kvmodel/diagnosis/server_remedies.py:rows_of": [
        (_server(case=Case(block_tokens=32)), LOADS[0], ()),
        (_server(engine=ENGINES[3]), LOADS[0], ()),
        *((_server(), load, ()) for load in LOADS),
        *((_server(), LOADS[0], (rung.id,)) for rung in remedy_rungs.rungs("vllm-v1")),
    ],
    "kvmodel/hf/parameters.py:class_facts": each("llama", "qwen2", "mistral"),
    "kvmodel/metrics/metric_names.py:meanings": each(
        "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", "vllm:num_preemptions", "vllm:num_preemptions_total"
    ),
    "kvmodel/simulation/servers.py:cached_results": [
        *((case, SMALL, TIGHT, simulate) for case in CASES),
        *((CASES[0], demand, TIGHT, simulate) for demand in DEMANDS),
        *((CASES[0], SMALL, engine, simulate) for engine in ENGINES),
        (CASES[0], SMALL, TIGHT, shorter),
    ],
    "kvmodel/simulation/servers.py:curves": each(*SERVERS),
    "kvmodel/units.py:_scaled": [
        (value, steps, digits)
        for value in (0.0, -0.0, 1, 1.0, True, 999.6, 1e3, float("nan"), float("inf"))
        for steps in (STEPS, STEPS[1:], ((1e3, "K"), (1.0, "")))
        for digits in (2, 3)
    ],
}  # fmt: skip
OF_AN_OBJECT = {"StepTimes": ("_linear", "_attention", "_size_bytes")}  # caches that live as long as it does


def function_of(name: str) -> Any:
    path, _, attribute = name.partition(":")
    return getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), attribute)


def plain(value: Any) -> Any:
    """What can be compared, whatever was computed."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.to_json() if hasattr(value, "to_json") else repr(value)


def said(code: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """An answer, or the refusal, for a reader of a language."""

    def inside() -> Any:
        language._current.set(code)
        words.speak(language.words_of(code))
        try:
            return plain(call(*arguments))
        except CaseError as error:
            return str(error)

    return contextvars.copy_context().run(inside)


def own_caches() -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Every cache with inputs to try; without inputs of its own it is asked once."""
    for name in sorted(caches.in_source() - PROCESS - OF_A_READER):
        if "(" not in name:
            yield name, INPUTS.get(name) or [()]
    yield (
        "kvmodel/curves/live_terms.py:_cached_sparse_terms",
        INPUTS["kvmodel/curves/live_terms.py:_cached_sparse_terms"],
    )


def test_every_cache_is_held_here() -> None:
    """A new cache needs a line above; one with inputs needs inputs to try."""
    called = {name for name in caches.in_source() if "(" in name}
    assert {name.partition(":")[0] for name in called} == {
        "kvmodel/curves/live_terms.py", "kvmodel/simulation/step_clock.py",
    }  # fmt: skip
    assert sum("(self." in name for name in called) == len(OF_AN_OBJECT["StepTimes"])
    for name, inputs in own_caches():
        parameters = inspect.signature(function_of(name)).parameters
        assert all(len(arguments) == len(parameters) for arguments in inputs), name


@pytest.mark.parametrize("order", [LANGUAGES, LANGUAGES[::-1]], ids="-".join)
@pytest.mark.parametrize(
    ("name", "inputs"), list(own_caches()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_kept_is_what_would_be_worked_out(
    name: str, inputs: list[tuple[Any, ...]], order: tuple[str, ...]
) -> None:
    """After all other inputs, and after a reader of another language."""
    kept = function_of(name)
    of_a_language = next(iter(inspect.signature(kept).parameters), "").startswith("language")

    def spoken(code: str, arguments: tuple[Any, ...]) -> str:
        return str(arguments[0]) if of_a_language else code

    caches.forget()
    for arguments in inputs:
        said(spoken(order[0], arguments), kept, arguments)
    answers = [said(spoken(order[1], arguments), kept, arguments) for arguments in inputs]
    caches.forget()
    anew = [said(spoken(order[1], arguments), kept.__wrapped__, arguments) for arguments in reversed(inputs)]
    for arguments, answer, again in zip(inputs, answers, reversed(anew), strict=True):
        assert answer == again, arguments


@pytest.mark.parametrize("name", OF_AN_OBJECT["StepTimes"])
def test_what_an_object_keeps_is_what_would_be_worked_out(name: str) -> None:
    kept = getattr(StepTimes(compare_case(Case()).inputs), name)
    number = len(inspect.signature(kept).parameters)
    inputs = [(4, 900)[:number], (900, 4)[:number], (4.0, 901)[:number], (5, 900)[:number]]
    first = [kept(*arguments) for arguments in inputs]
    assert [kept(*arguments) for arguments in inputs] == first == [kept.__wrapped__(*each) for each in inputs]
    assert len(set(first)) > 1


def test_the_live_chart_is_that_of_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps terms under a Case of another length: nothing else of the Case may be lost on the way."""
    round_cases = [dataclasses.replace(case, tokens=tokens) for case in CASES for tokens in (4096, 8192)]
    caches.forget()
    kept = [plain(live_terms.live_terms(compare_case(case))) for case in round_cases]
    monkeypatch.setattr(slider_stops, "is_round", lambda tokens, inputs: False)
    for case, answer in zip(round_cases, kept, strict=True):
        assert answer == plain(live_terms.live_terms(compare_case(case))), case


def test_rows_together_have_the_answers_of_each_alone() -> None:
    heavy = [dataclasses.replace(case, model="llama-3-70b") for case in CASES if case.tp == 1]
    read = row_results.row_reader(())
    for question in ("size", "compare"):
        rows = [
            read([], {field: value for field, value in vars(case).items() if value is not None})
            for case in (*CASES, *heavy)
        ]
        together = row_results.results_of(QUESTIONS[question], rows, ())
        for row, answer in zip(rows, together, strict=True):
            assert plain(row_results.results_of(QUESTIONS[question], [row], ())) == plain([answer]), row.case


def test_a_chart_by_address_is_that_of_its_inputs() -> None:
    """Asked for twice, after all others; an ETag that two addresses share is of the same bytes."""
    names, endings = ("crossover", "kv-size", "roofline"), (".csv",)
    shared = by_address.Charts(10**9)
    asked = [(name + ending, case) for name in names for ending in endings for case in CASES]

    async def answers() -> list[tuple[bytes, str]]:
        found = []
        for file, case in asked:
            query = "&".join(f"{field}={value}" for field, value in addresses.inputs(case).items())
            scope = {"type": "http", "method": "GET", "path": "", "headers": [], "path_params": {"file": file},
                     "query_string": query.encode()}  # fmt: skip
            response = await shared.answer(Request(scope))
            found.append((bytes(response.body), response.headers["etag"]))
        return found

    async def twice() -> tuple[list[tuple[bytes, str]], list[tuple[bytes, str]]]:
        return await answers(), await answers()

    first, again = in_a_loop(twice())
    assert again == first
    bodies: dict[str, bytes] = {}
    for (file, case), (body, tag) in zip(asked, first, strict=True):
        name, _, ending = file.rpartition(".")
        assert body == by_address.drawn(name, f".{ending}", case)
        assert bodies.setdefault(tag, body) == body, case
