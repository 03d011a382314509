"""Simple faults that could be planted in a file, read from its syntax tree: operators, constants, swapped arguments.

What nobody could notice is left out: annotations, docstrings, messages of errors, how much a cache keeps, guards such
as `zip(strict=True)`; and what fails at import wherever it stands, such as `&` between two types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"), ast.Eq: ("!=",),
    ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "/", ast.Mod: "*", ast.Pow: "*",
    ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip
EITHER_WAY = set("add hypot isinstance larger max maximum min minimum multiply union zip".split())
UNNOTICED = set("allow_nan compare encoding frozen kw_only maxsize repr slots stacklevel strict".split())
MODULE = "<module>"


@dataclass(frozen=True)
class Fault:
    """`new` in place of the bytes `start` to `end` of a file; `scope` is the qualified name of their function."""

    path: str
    line: int
    scope: str
    kind: str
    start: int
    end: int
    new: str

    def planted(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


@dataclass(frozen=True)
class _File:
    path: str
    source: bytes
    starts: tuple[int, ...]

    def span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def fault(self, node: ast.expr, scope: str, kind: str, new: str) -> Fault:
        start, end = self.span(node)
        return Fault(self.path, node.lineno, scope, kind, start, end, new)


def faults(path: str, source: bytes) -> Iterator[Fault]:
    """All simple faults of a file, in the order of its text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    yield from _below(_File(path, source, tuple(starts)), ast.parse(source), MODULE)


def _below(file: _File, node: ast.AST, scope: str) -> Iterator[Fault]:
    if isinstance(node, (ast.Raise, ast.JoinedStr)) or _is_guard(node):
        return
    if isinstance(node, ast.expr):
        yield from _here(file, node, scope)
    if isinstance(node, ast.If) and node.orelse and not isinstance(node.orelse[0], ast.If):
        yield file.fault(node.test, _ran_in(scope), "branches", f"not ({file.text(node.test)})")
    inner = _inner(node, scope)
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _below(file, child, inner)


def _is_guard(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg in UNNOTICED
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
    return called in {"isinstance", "issubclass", "TypeVar"} or (
        isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and "__main__" in ast.unparse(node.test)
    )


def _here(file: _File, node: ast.expr, scope: str) -> Iterator[Fault]:
    """The faults of one expression, but not of those within it."""
    name = _ran_in(scope)
    match node:
        case ast.Compare(ops=[op], comparators=[right]):
            for other in COMPARISONS[type(op)]:
                yield file.fault(node, name, "comparison", f"(({file.text(node.left)}) {other} ({file.text(right)}))")
        case ast.Compare(ops=ops, comparators=comparators):
            terms = [file.text(each) for each in (node.left, *comparators)]
            for at, op in enumerate(ops):
                signs = [SIGNS[type(each)] for each in ops]
                signs[at] = COMPARISONS[type(op)][0]
                joined = "".join(f" {sign} ({term})" for sign, term in zip(signs, terms[1:], strict=True))
                yield file.fault(node, name, "comparison", f"(({terms[0]}){joined})")
        case ast.BinOp() if type(node.op) in ARITHMETIC and not _of_text(node) and not _of_types(node, scope):
            other = ARITHMETIC[type(node.op)]
            yield file.fault(node, name, "arithmetic", f"(({file.text(node.left)}) {other} ({file.text(node.right)}))")
        case ast.BoolOp():
            other = " or " if isinstance(node.op, ast.And) else " and "
            yield file.fault(node, name, "boolean", f"({other.join(f'({file.text(one)})' for one in node.values)})")
        case ast.UnaryOp(op=ast.Not()):
            yield file.fault(node, name, "not", f"({file.text(node.operand)})")
        case ast.IfExp():
            then, test, other = file.text(node.orelse), file.text(node.test), file.text(node.body)
            yield file.fault(node, name, "branches", f"(({then}) if ({test}) else ({other}))")
        case ast.Constant(value=bool() | int() | float()) if file.text(node) in {repr(node.value), *_written(node)}:
            yield file.fault(node, name, "constant", _other(node.value))
        case ast.Call(func=func, args=[_, _, *_]) if getattr(func, "attr", getattr(func, "id", "")) not in EITHER_WAY:
            yield from _swapped(file, node, name)


def _written(node: ast.Constant) -> tuple[str, ...]:
    """The ways to write a number that `repr` does not give: 1e9, 65_536."""
    value = node.value
    return () if isinstance(value, bool) else (f"{value:_}", f"{value:g}", f"{value:.0e}".replace("e+0", "e"))


def _other(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return str(not value)
    return str(value + 1) if isinstance(value, int) or value == 0 else repr(value * 2)


def _of_text(node: ast.BinOp) -> bool:
    """Whether text or lists are put together, which any other operator refuses."""
    sides = (node.left, node.right)
    return any(
        isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp))
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


def _of_types(node: ast.BinOp, scope: str) -> bool:
    return scope == MODULE and isinstance(node.op, ast.BitOr)


def _swapped(file: _File, node: ast.Call, scope: str) -> Iterator[Fault]:
    for one, two in zip(node.args, node.args[1:], strict=False):
        starred = isinstance(one, ast.Starred) or isinstance(two, ast.Starred)
        start, end = file.span(one)[0], file.span(two)[1]
        if starred or file.text(one) == file.text(two):
            continue
        between = file.source[file.span(one)[1] : file.span(two)[0]].decode()
        if between.strip() == ",":
            new = f"{file.text(two)}, {file.text(one)}"
            yield Fault(file.path, node.lineno, scope, "arguments", start, end, new)


def scope_at(source: bytes, line: int) -> str:
    """The qualified name of the innermost function around a line, or that of the module."""
    found = [
        (node.lineno, scope)
        for node, scope in functions(ast.parse(source), MODULE)
        if node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(found, default=(0, MODULE))[1]


def functions(node: ast.AST, scope: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    """All functions below a node with their qualified names."""
    for child in ast.iter_child_nodes(node):
        inner = _inner(child, scope)
        if isinstance(child, ast.FunctionDef):
            yield child, inner
        yield from functions(child, inner)


def _inner(node: ast.AST, scope: str) -> str:
    """The scope of what stands in a node; that of a class, which runs at import, ends with a brace."""
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
        return scope
    outer = "" if scope == MODULE else f"{scope[:-1]}." if scope.endswith("}") else f"{scope}.<locals>."
    return f"{outer}{getattr(node, 'name', '<lambda>')}" + ("}" if isinstance(node, ast.ClassDef) else "")


def _ran_in(scope: str) -> str:
    return MODULE if scope.endswith("}") else scope
