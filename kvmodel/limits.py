"""Limits: which values an input takes, said in words once, checked by pydantic's core once, refused in one sentence.

Whatever a person gives goes through here: a Case, flags, columns, links, files, settings of the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic_core import SchemaValidator

from kvmodel.errors import quoted, refused
from kvmodel.words import say


@dataclass(frozen=True)
class Limits:
    """Numbers from `least` to `greatest`, one of `options`, or any of a `kind`, by its name in pydantic's core."""

    kind: str
    words: str = ""
    least: float = 0
    greatest: float = 0
    options: tuple[str, ...] = ()
    example: str = ""
    parse: Callable[[str], Any] | None = None

    @property
    def allowed(self) -> str:
        return ", ".join(self.options) or self._said(self.words)

    def _said(self, words: str) -> str:
        return say(words, least=f"{self.least:,}", greatest=f"{self.greatest:,}", example=self.example)

    @property
    def ends(self) -> tuple[float, float]:
        """Least and greatest in the type that the numbers have."""
        return (self.least, self.greatest) if self.kind == "int" else (float(self.least), float(self.greatest))

    def parsed(self, value: Any, *, strict: bool = False) -> Any:
        """The value in its type; `strict` takes no text in place of a number. Raises ValueError."""
        if isinstance(value, bool) and self.kind != "bool":
            raise ValueError("a truth value is not a number")
        return self._validator.validate_python(value, strict=strict)

    def read(self, field: str, value: Any, *, strict: bool = False, shown: Callable[[Any], str] = quoted) -> Any:
        """The value in its type. Raises CaseError, in which `shown` repeats what was given."""
        try:
            return self.parsed(value, strict=strict)
        except ValueError:
            raise refused(field, shown(value), self.allowed) from None

    def require(self, field: str, number: float) -> None:
        """For a number of the program, whose kind is no question. Raises CaseError where it is out of the limits."""
        try:
            self.parsed(number)
        except ValueError:
            raise refused(field, f"{number:,}", self._said("{least} to {greatest}")) from None

    @cached_property
    def _validator(self) -> SchemaValidator:
        schema: dict[str, Any] = {"type": self.kind}
        if self.kind in ("int", "float"):
            schema |= {"ge": self.least, "le": self.greatest}
        if self.kind == "float":
            schema["allow_inf_nan"] = False
        if self.options:
            schema["expected"] = list(self.options)
        if self.parse is not None:
            schema["function"] = {"type": "no-info", "function": self.parse}
        return SchemaValidator(schema)


def whole(least: int, greatest: int) -> Limits:
    return Limits("int", "a whole number from {least} to {greatest}", least, greatest)


def number(least: float, greatest: float, words: str = "a number from {least} to {greatest}") -> Limits:
    return Limits("float", words, least, greatest)


def one_of(*options: str) -> Limits:
    return Limits("literal", options=options)


def text(words: str, example: str = "") -> Limits:
    return Limits("str", words, example=example)


def switch(words: str = "true or false") -> Limits:
    return Limits("bool", words)


def written(parse: Callable[[str], Any], words: str) -> Limits:
    """A text that `parse` reads, which raises ValueError where it cannot."""
    return Limits("function-plain", words, parse=parse)
