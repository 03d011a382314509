"""Refusals: one sentence that names the field, what was given and what is allowed."""

from __future__ import annotations

from kvmodel.words import say

LONGEST_ECHO = 40  # of a bad value that an error repeats


class CaseError(ValueError):
    """Bad input; the message is one sentence: field, value given, what is allowed."""


def bad_value(field: str, given: object, allowed: str) -> CaseError:
    """The usual refusal; `given` is repeated as Python writes it."""
    return CaseError(say("{field}: {given!r} given; allowed: {allowed}", field=field, given=given, allowed=allowed))


class CatalogError(CaseError):
    """An unknown id, or a row that lacks a figure; the message is one sentence."""


class DoesNotFit(CaseError):
    """The model, or this request, needs more memory than the GPU has."""
