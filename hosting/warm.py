"""What is done before the first visitor comes, so that none waits for it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil

import explorer
import kvmodel
from explorer.frame import warm_up

IMPORTED_LATE = (
    "PIL.Image", "anyio._backends._asyncio", "kaleido", "plotly.offline", "streamlit.emojis",
    "streamlit.web.bootstrap", "uvloop",
)  # fmt: skip
WITH_PANDAS = "kvmodel.frames"  # of no page: it is imported where a table to sort is shown


@functools.cache
def before_the_first_visitor() -> None:
    """Import all modules that pages use, then keep what stays out of the garbage collector's way.

    What is imported before a fork, replicas share.
    """
    for name in IMPORTED_LATE:
        with contextlib.suppress(ModuleNotFoundError):  # another version has it elsewhere, and imports it when it may
            importlib.import_module(name)
    for package in (explorer, kvmodel):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name not in (WITH_PANDAS, f"{package.__name__}.__main__"):
                importlib.import_module(module.name)
    warm_up()
