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
    "PIL.Image", "anyio._backends._asyncio", "plotly.offline", "streamlit.emojis", "streamlit.web.bootstrap", "uvloop",
)  # fmt: skip


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
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    warm_up()
