"""The layers, read from the syntax tree: who may import whom, where factors stand, what a page may not do."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kvmodel"

# A package imports only from lines above its own; within one, files import each other, but not in a circle.
LAYERS = (
    ("words", "arrays"), ("units", "errors"), ("files", "limits"),
    ("catalog",),
    ("hf", "inputs", "scheduler", "metrics"),
    ("timing", "memory"),
    ("recovery", "startup_log"),
    ("evidence", "explain", "simulation"),
    ("curves", "diagnosis", "sweeps"),
    ("claims",),
    ("texts", "charts"),
    ("report", "frames"),
    ("cli",),
)  # fmt: skip
RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}
WITHOUT_NUMPY = ("words", "units", "errors", "files", "limits", "catalog", "inputs")
MOST_FILES = 24  # of one folder


def files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "__pycache__" not in path.parts]


def app_files() -> list[Path]:
    return files("pages") + [path for path in (ROOT / "app.py",) if path.exists()]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names that run-time imports bring in, wherever they stand; those for type checkers alone are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def tops(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(tree_of(path))}


def package_of(path: Path) -> str:
    """The first name below kvmodel: of a package, or of a file of the ground."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def own_imports(path: Path) -> set[str]:
    """Modules of kvmodel that a file imports, dotted; the package's face where a name is taken from that."""
    modules = set()
    for name in imported(tree_of(path)):
        if name.split(".")[0] == "kvmodel":
            modules.add(name if _is_module(name) else name.rpartition(".")[0])
    return modules


def _is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


def test_every_package_has_its_place_and_says_what_it_is():
    assert {package_of(path) for path in files("kvmodel")} - {"__init__", "__main__"} == set(RANK)
    assert len(LAYERS) <= 14
    for package in (name for name in RANK if (PACKAGE / name).is_dir()):
        said = ast.get_docstring(tree_of(PACKAGE / package / "__init__.py"))
        assert said is not None, package
        assert "May import" in said, package
        assert "never" in said, package


def test_no_folder_is_a_hall():
    folders = [PACKAGE, *(PACKAGE / name for name in RANK if (PACKAGE / name).is_dir())]
    counts = {folder.name: len([*folder.glob("*.py")]) for folder in folders}
    assert max(counts.values()) <= MOST_FILES, counts


def test_a_package_imports_only_from_above_it():
    for path in files("kvmodel"):
        mine = package_of(path)
        if path.parent == PACKAGE and mine in ("__init__", "__main__"):
            continue
        for other in own_imports(path):
            package = other.partition(".")[2].partition(".")[0]
            if package and package != mine:  # `from kvmodel import __version__` is nobody's
                assert RANK[package] < RANK[mine], f"{path} imports {other}"
        assert not tops(path) & {"explorer", "pages", "app", "run", "tests", "benchmarks"}, path


def test_no_circle_of_files():
    graph = {}
    for path in files("kvmodel"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        face = module.removesuffix(".__init__")
        graph[face] = {other for other in own_imports(path) if other != face and (path.name != "__init__.py")}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"imports run in a circle: {' -> '.join(error.args[1])}")


def test_the_ground_and_the_catalog_do_without_numpy():
    for path in files("kvmodel"):
        if package_of(path) in WITHOUT_NUMPY:
            assert not tops(path) & {"numpy", "pandas"}, path


def test_plotly_draws_in_charts_alone_and_streamlit_shows_in_the_app_alone():
    for path in files("kvmodel", "explorer", "benchmarks") + app_files():
        used = tops(path)
        if not path.is_relative_to(PACKAGE / "charts"):
            assert "plotly" not in used, path
        if path.is_relative_to(PACKAGE):
            assert not used & {"streamlit", "explorer", "pages", "app"}, path
        if path.is_relative_to(ROOT / "explorer"):
            assert not used & {"pages", "app"}, path
        if path.is_relative_to(ROOT / "pages"):
            assert not used & {"app"}, path


@pytest.mark.parametrize("module", ["kvmodel", "kvmodel.cli.command_line"])
def test_an_import_stays_light(module):
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "kvmodel" in loaded
    assert not loaded & {"pandas", "plotly", "streamlit", "matplotlib", "scipy"}


# Conversion factors: powers of a thousand and of 1,024 (1e9, 1024, 2**30, 1 << 30, 10**-3) that something is multiplied
# or divided by, or that a name or a default is set to. As a limit, a count of tokens or an argument they mean no unit.
FACTORS = {float(f"1e{3 * power}") for power in range(-5, 6) if power} | {1024.0**power for power in range(1, 6)}
NO_FACTORS = {"MOST_PREEMPTIONS", "TINY_S", "EDGE"}  # a count, a guard against dividing by nothing, a rounding error


def _number(node: ast.AST | None) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        base, power = _number(node.left), _number(node.right)
        if base is not None and power is not None and abs(power) <= 100:
            return base**power if isinstance(node.op, ast.Pow) else base * 2.0**power
    return None


def factor_lines(tree: ast.AST) -> list[int]:
    """Lines on which a conversion factor is written."""
    fields = [node for outer in ast.walk(tree) if isinstance(outer, ast.ClassDef) for node in outer.body]
    lines = []
    for node in ast.walk(tree):
        suspects: list[ast.AST | None] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Mod):
            suspects = [node.left, node.right]
        elif isinstance(node, ast.AugAssign):
            suspects = [node.value]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node not in fields:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = {target.id for target in targets if isinstance(target, ast.Name)}
            several = getattr(node.value, "elts", ()) if isinstance(targets[0], ast.Tuple) else ()  # A, B = 1024, 1e6
            suspects = [] if named & NO_FACTORS else [node.value, *several]
        elif isinstance(node, ast.arguments):
            suspects = [*node.defaults, *node.kw_defaults]
        lines += [suspect.lineno for suspect in suspects if _number(suspect) in FACTORS]
    return lines


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = size / 1e9", 1), ("x = size * 1024 * 1024", 2), ("x = 2**30 * size", 1), ("GB = 1_000_000_000", 1),
        ("x = seconds * 1e-3", 1), ("x = 1 << 30", 1), ("def f(size, unit=1e6): ...", 1), ("x *= 1000", 1),
        ("x = size / 10**9", 1), ("A, B = 1024, 1e6", 2), ("x: float = 1e12", 1), ("ms = 1000 * seconds", 1),
        ("x = Field(ge=1, le=1000)", 0), ("x = n * 2", 0), ("x = n**2 / 2", 0), ("x = 2**n", 0), ("x = 100 * n", 0),
        ("x = size / GB", 0), ("if n > 1000: ...", 0), ("MOST_PREEMPTIONS = 1000", 0),
        ("class Case:\n    tokens: int = 1024", 0), ("x = Input(1, 10**12)", 0),
        ("TICKS = (10, 100, 1000)", 0), ("if n < 2**53: ...", 0),
        ("x = 10**-3 * s", 1),
    ],
)  # fmt: skip
def test_the_search_for_factors(code, found):
    assert len(factor_lines(ast.parse(code))) == found


def test_conversion_factors_stand_in_units_alone():
    for path in files("kvmodel"):
        if path != PACKAGE / "units.py":
            lines = factor_lines(tree_of(path))
            assert not lines, f"{path}: lines {lines}: take the factor from kvmodel.units"


ARITHMETIC = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.LShift, ast.RShift,
)  # fmt: skip
NOT_IN_PAGES = {"numpy", "pandas", "math", "plotly", "statistics", "scipy"}


def arithmetic_lines(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ARITHMETIC)
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = 1 + y", 1), ("x += 1", 1), ("f(f'{size / 2}')", 1), ("x = a | b", 0), ("x = f(-1)", 0), ("x = y % 2", 1),
        ("x: int | None = g(y)[0]", 0), ("x = [2 * y for y in z]", 1),
    ],
)  # fmt: skip
def test_the_search_for_arithmetic(code, found):
    assert len(arithmetic_lines(ast.parse(code))) == found


def test_pages_compute_nothing():
    """One test over all of them, so that it stands before there are any."""
    for path in app_files():
        name = path.relative_to(ROOT)
        assert not arithmetic_lines(tree_of(path)), (
            f"{name}: a page does no arithmetic: {arithmetic_lines(tree_of(path))}"
        )
        assert not tops(path) & NOT_IN_PAGES, f"{name}: {tops(path) & NOT_IN_PAGES}"
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree_of(path))), name


STREAMLIT_IS_REPLACED_IN = "hosting/lean.py"  # for one version of it, which it asks for, and nowhere else


def from_streamlit(tree: ast.AST) -> set[str]:
    """The names that hold Streamlit, its modules or what is in them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias for alias in node.names if alias.name.split(".")[0] == "streamlit"]
            found |= {alias.asname or "streamlit" for alias in names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "streamlit":
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def root_of(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def reaches_into_streamlit(tree: ast.AST) -> list[int]:
    """Lines that replace an attribute of Streamlit, or use a name that it keeps to itself."""
    names, lines = from_streamlit(tree), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and root_of(node) in names:
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if private or not isinstance(node.ctx, ast.Load):
                lines.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            lines += [node.lineno] if root_of(node.args[0]) in names else []
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = [getattr(node, "module", None) or ""]
            parts = ".".join([*module, *(alias.name for alias in node.names)]).split(".")
            if "streamlit" in parts and any(part.startswith("_") for part in parts):
                lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import streamlit as st\nst.table = f", 1), ("from streamlit import a\na.b.c = f", 1), ("st.table = f", 0),
        ("from streamlit.a import B\nsetattr(B, 'run', f)", 1), ("import streamlit as st\ndel st.x", 1),
        ("from streamlit.a import _b", 1), ("from streamlit import _b", 1), ("import streamlit._b", 1),
        ("import streamlit as st\nst._b()", 1), ("import streamlit as st\nst.session_state['x'] = st.table(f)", 0),
        ("import streamlit as st\nst.__version__", 0), ("from __future__ import annotations", 0),
    ],
)  # fmt: skip
def test_the_search_for_reaches_into_streamlit(code, found):
    assert len(reaches_into_streamlit(ast.parse(code))) == found


def test_nothing_of_streamlit_is_replaced_or_private():
    for path in [*files("explorer", "hosting", "pages", "kvmodel", "benchmarks"), ROOT / "app.py", ROOT / "serve.py"]:
        name = path.relative_to(ROOT).as_posix()
        if name != STREAMLIT_IS_REPLACED_IN:
            lines = reaches_into_streamlit(tree_of(path))
            assert not lines, f"{name}: lines {lines}: another version of Streamlit has something else there"
