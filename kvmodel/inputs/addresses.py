"""Links to the app: a query that holds every input of a Case, and a Case from such a query.

A link names its format, `v`, and every input, also those at their defaults: defaults may change. Ids of the catalog
are permanent, renamed ones stay as aliases. FORMAT goes up when an input is renamed or changes its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from kvmodel.errors import CaseError, bad_value, shown_name
from kvmodel.inputs.case import Case, case_from
from kvmodel.words import say

FORMAT = "1"
FORMAT_KEY = "v"
APP = "http://localhost:8501"
ALLOWED_APP = "an address such as https://kv.example.com/kv"
NOT_IN_ADDRESSES = set(" \"'<>()[]{}\\^`|")


def inputs(case: Case) -> dict[str, str]:
    """Every input of a Case as text, defaults too; what a reader may leave empty is left out where it is."""
    return {field: str(value) for field, value in asdict(case).items() if value is not None}


def query(case: Case) -> dict[str, str]:
    """The query of a link to a Case."""
    return {FORMAT_KEY: FORMAT} | inputs(case)


def page_address(app: str, path: str, case: Case, more: Mapping[str, str] | None = None) -> str:
    """The address of a page below the app's own, with every input; `more` is the page's own state."""
    parts = urlsplit(app)
    whole = f"{parts.path.rstrip('/')}/{path}"
    return urlunsplit((parts.scheme, parts.netloc, whole, urlencode(query(case) | dict(more or {})), ""))


def case_of(items: Iterable[tuple[str, str]]) -> Case:
    """The Case of a query in which nothing may be wrong: a picture has no room for a notice.

    Raises CaseError with one sentence on an unknown key, one given twice, another format, or a bad value.
    """
    choices: dict[str, Any] = {}
    for key, value in items:
        if key in choices:
            raise CaseError(say("{field}: given twice; allowed: once", field=shown_name(key)))
        choices[key] = value
    version = choices.pop(FORMAT_KEY, FORMAT)
    if version != FORMAT:
        raise bad_value(FORMAT_KEY, version, FORMAT)
    return case_from(choices)


def app_address(text: str) -> str:
    """An app's address without a slash at its end. Raises CaseError."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        good = False
    if not good or NOT_IN_ADDRESSES & set(text) or not text.isascii() or not text.isprintable():
        raise bad_value("app_url", text, say(ALLOWED_APP))
    return text.rstrip("/")
