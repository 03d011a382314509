"""All texts a reader sees: Markdown files of sections, with `[[name]]` where a number of the model goes."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from explorer.language import current

ROOT = Path(__file__).resolve().parent.parent / "assets" / "prose"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
MARKUP = re.compile(r"[\\`*_{}\[\]()#+!|<>~$:]")
ADDRESS = re.compile(r"(?i)\bhttps?|\bwww|@")
PLACEHOLDER = re.compile(r"\[\[(\w+)\]\]")


def sections(file: str) -> dict[str, str]:
    """Section id -> Markdown of one file, in the language of the session."""
    return sections_in(current(), file)


@functools.cache
def sections_in(language: str, file: str) -> dict[str, str]:
    """The same in a language by its code."""
    pieces = SECTION.split((ROOT / language / f"{file}.md").read_text(encoding="utf-8"))
    return {pieces[i].strip(): pieces[i + 1].strip() for i in range(1, len(pieces), 2)}


def text(file: str, section: str, numbers: Mapping[str, str] | None = None) -> str:
    """One section with its numbers filled in. Raises KeyError for a section or a number that is missing."""
    values = numbers or {}
    return PLACEHOLDER.sub(lambda match: values[match.group(1)], sections(file)[section])


def escaped(words: str) -> str:
    """Text that may hold what a visitor wrote, with nothing in it that Markdown would act on.

    Bare addresses become links even so, unless something that cannot be seen stands inside them.
    """
    unlinked = ADDRESS.sub("\\g<0>\N{WORD JOINER}", words)
    return MARKUP.sub(r"\\\g<0>", unlinked)


def label(file: str, section: str) -> str:
    """The first line of a section: a title, or a widget's label."""
    return sections(file)[section].splitlines()[0]


def detail(file: str, section: str) -> str | None:
    """What follows the first line, for help texts; None where there is nothing."""
    return "\n".join(sections(file)[section].splitlines()[1:]).strip() or None
