"""Which functions of the model each test runs: a pytest plugin that notes them, and the choice of tests by them.

python -m pytest -p benchmarks.mutation_map tests/...      with MUTATION_NOTES=FILE.json: writes what ran
                                                           with MUTATION_CHOICE=FILE.json: runs the chosen alone
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
WATCHED = f"{ROOT / 'kvmodel'}{os.sep}"
NOTES, CHOICE = os.environ.get("MUTATION_NOTES"), os.environ.get("MUTATION_CHOICE")

_shared: set[tuple[str, str]] = set()  # at import, while tests are collected, in fixtures that several tests share
_now = _shared
_tests: dict[str, dict[str, Any]] = {}


def _trace(frame: FrameType, event: str, value: object) -> None:
    """Called once a call, as it returns nothing to be called at each line."""
    code = frame.f_code
    if code.co_filename.startswith(WATCHED):
        _now.add((code.co_filename, code.co_qualname))


def _forget() -> None:
    """Empty every cache, so that each test runs what it rests on."""
    for module in list(sys.modules.values()):
        if str(getattr(module, "__file__", "")).startswith(str(ROOT)):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    streamlit = sys.modules.get("streamlit")
    if streamlit is not None:
        streamlit.cache_data.clear()
        streamlit.cache_resource.clear()


if NOTES:
    sys.settrace(_trace)
    threading.settrace(_trace)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
        global _now
        _forget()
        _now = set()
        sys.settrace(_trace)
        begun = time.perf_counter()
        try:
            return (yield)
        finally:
            _tests.setdefault(item.nodeid, {}).update(seconds=time.perf_counter() - begun, ran=_named(_now))
            _now = _shared

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        global _now
        before = _now
        _now = before if fixturedef.scope == "function" else _shared
        try:
            return (yield)
        finally:
            _now = before

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        if report.failed:
            _tests.setdefault(report.nodeid, {})["failed"] = True

    def pytest_sessionfinish() -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        Path(NOTES).write_text(json.dumps({"shared": _named(_shared), "tests": _tests}), encoding="utf-8")


def _named(functions: set[tuple[str, str]]) -> list[str]:
    return sorted(f"{file.removeprefix(f'{ROOT}{os.sep}')}:{name}" for file, name in functions)


if CHOICE:

    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        """Known tests that were not chosen are left out; those that a fault has given another name are run."""
        choice = json.loads(Path(CHOICE).read_text(encoding="utf-8"))
        chosen, known = set(choice["chosen"]), set(choice["known"])
        out = [item for item in items if item.nodeid in known - chosen]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item.nodeid not in known - chosen]
