"""All caches of the program: found, emptied."""

import ast
import functools
import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parents[2]
KEEPERS = {"cache", "lru_cache", "cache_resource", "cache_data"}


@functools.cache
def in_source() -> set[str]:
    """Every function that is kept, as FILE:NAME, and every other use of a cache, as FILE:LINE OF TEXT."""
    found = set()
    for folder in ("kvmodel", "explorer", "pages", "hosting"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            file, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
            named = set()
            for node in ast.walk(tree):
                for decorator in getattr(node, "decorator_list", []):
                    if _keeps(decorator):
                        named |= {id(part) for part in ast.walk(decorator)}
                        found.add(f"{file}:{node.name}")  # type: ignore[attr-defined]
            calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in named)
            found |= {f"{file}:{ast.unparse(node)}" for node in calls if _keeps(node.func)}
    return found


def _keeps(node: ast.expr) -> bool:
    at = node.func if isinstance(node, ast.Call) else node
    return (at.attr if isinstance(at, ast.Attribute) else getattr(at, "id", "")) in KEEPERS


def forget() -> None:
    """Empty every cache, so that what follows is worked out anew."""
    for module in list(sys.modules.values()):
        if str(getattr(module, "__file__", "")).startswith(str(ROOT)):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    st.cache_data.clear()
    st.cache_resource.clear()
