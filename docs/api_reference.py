"""Writes docs/api.md from the docstrings: `python docs/api_reference.py`.

A test fails where the file is not what this would write.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
# What a notebook or another program calls, nearest first; all else of the package may change without notice.
MODULES = (
    "inputs.case", "recovery.comparison", "catalog.lookup", "inputs.addresses", "units", "memory.kv_cache",
    "memory.gpu_memory", "timing.roofline", "timing.step_time", "timing.transfer", "recovery.strategies",
    "recovery.break_even", "recovery.verdict", "curves.curves", "claims.figure19", "claims.scenarios", "charts.named",
    "charts.pictures", "frames", "report.memo",
)  # fmt: skip
ANNOTATION = re.compile(r"(: |-> )'([^']*)'")
HEADING = """# API reference

Written by `python docs/api_reference.py` from the docstrings of [kvmodel](../kvmodel). Names and units:
[nomenclature.md](nomenclature.md). Arguments that are numbers may be numpy arrays that broadcast together, unless a
docstring says otherwise.
"""


def reference() -> str:
    """The whole page."""
    return HEADING + "".join(map(section, MODULES))


def section(name: str) -> str:
    module = importlib.import_module(f"kvmodel.{name}")
    entries = "".join(entry(title, thing) for title, thing in public(module))
    return f"\n## kvmodel.{name}\n\n{module.__doc__ and inspect.cleandoc(module.__doc__)}\n{entries}"


def public(module: ModuleType) -> list[tuple[str, Any]]:
    """Functions and classes of a module's own that have a docstring, in the order in which they stand."""
    own = [
        (name, thing)
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and getattr(thing, "__module__", "") == module.__name__
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__doc__
    ]
    return sorted(own, key=lambda named: inspect.getsourcelines(named[1])[1])


def entry(name: str, thing: Any) -> str:
    words = inspect.cleandoc(thing.__doc__)
    if inspect.isclass(thing):
        listed = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
        fields = "".join(f"- `{each.name}`: {each.type}\n" for each in listed)
        made_by_dataclass = words.startswith(f"{name}(")
        said = "" if made_by_dataclass else f"\n{words}\n"
        return f"\n### class `{name}`\n{said}" + (f"\n{fields}" if fields else "")
    signature = ANNOTATION.sub("\\1\\2", str(inspect.signature(thing)))
    return f"\n### `{name}{signature}`\n\n{words}\n"


if __name__ == "__main__":
    (FOLDER / "api.md").write_text(reference(), encoding="utf-8")
