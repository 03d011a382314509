"""Refusals: one sentence that names the field, what was given and what is allowed."""

from __future__ import annotations

from kvmodel.words import say

LONGEST_ECHO = 40  # of a bad value that an error repeats
LONGEST_PATH = 200


class CaseError(ValueError):
    """Bad input; the message is one sentence: field, value given, what is allowed."""


def refused(field: str, shown: str, allowed: str) -> CaseError:
    """The usual refusal; `shown` is the value as the sentence repeats it."""
    return CaseError(say("{field}: {given} given; allowed: {allowed}", field=field, given=shown, allowed=allowed))


def bad_value(field: str, given: object, allowed: str) -> CaseError:
    """The usual refusal of a text, and of whatever else stands where one is meant."""
    return refused(field, quoted(given), allowed)


def quoted(given: object) -> str:
    """A value as a text in quotes, cut where it is long."""
    try:
        text = str(given)
    except ValueError:  # Python prints no whole number of more than 4,300 digits
        text = say("a number of thousands of digits")
    return repr(text[:LONGEST_ECHO])


def unusable(what: str, path: object, error: Exception, verb: str = "read") -> CaseError:
    """The refusal of a file that cannot be read or written; a long path is cut."""
    shown = str(path)
    reason = "no file is named" if not shown else getattr(error, "strerror", None) or error
    cut_off = "..." if len(shown) > LONGEST_PATH else ""
    return CaseError(f"{what}: {shown[:LONGEST_PATH] + cut_off!r} cannot be {verb}: {reason}")


def shown_name(given: object) -> str:
    """A name as a sentence begins with it: cut where it is long, without line ends."""
    return "".join(mark if mark.isprintable() else "?" for mark in str(given)[:LONGEST_ECHO])


class CatalogError(CaseError):
    """An unknown id, or a row that lacks a figure; the message is one sentence."""


class DoesNotFit(CaseError):
    """The model, or this request, needs more memory than the GPU has."""
