"""What is done before the first visitor comes, so that none waits for it."""

from __future__ import annotations

import importlib
import pkgutil

import explorer
import kvmodel
from explorer.frame import warm_up


def before_the_first_visitor() -> None:
    """Import all modules that pages use, then keep what stays out of the garbage collector's way."""
    for package in (explorer, kvmodel):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    warm_up()
