"""The language of the texts that the model itself makes: charts, tables, sentences.

Texts stand in English in the code, as with gettext. Who shows them in another language speaks it with :func:`speak`,
for the running thread or task only; the command line and files never do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_spoken: ContextVar[Mapping[str, str]] = ContextVar("spoken", default=MappingProxyType({}))


def speak(translations: Mapping[str, str]) -> None:
    """From here on :func:`say` gives these texts in place of the English ones; none of them for English."""
    _spoken.set(translations)


def spoken() -> Mapping[str, str]:
    """The texts that :func:`speak` was given last."""
    return _spoken.get()


def say(english: str, **values: Any) -> str:
    """A text in the language that is spoken, with its `{named}` values filled in.

    A text without a translation stays English: tests, not readers, are told which one is missing.
    """
    text = _spoken.get().get(english, english)
    return text.format(**values) if values else text


@dataclass(frozen=True)
class Later:
    """A text with its values that is said where it is shown: for what is kept from one reader to the next.

    >>> str(Later("{n} blocks", (("n", 3),)))
    '3 blocks'
    """

    english: str
    values: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return say(self.english, **dict(self.values))
