"""Whether the server lives, and whether it can answer a visitor now."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from explorer import prose
from explorer.language import LANGUAGES
from kvmodel import __version__, catalog
from kvmodel.inputs.case import Case
from kvmodel.recovery.comparison import compare_case

CHECK_S = 5.0
UNCACHED = {"Cache-Control": "no-store"}


def read_catalog() -> None:
    """Raises CatalogError where a row cannot be read."""
    for model_id in catalog.model_ids():
        catalog.model(model_id)
    for gpu_id in catalog.gpu_ids():
        catalog.gpu(gpu_id)
    for link_id in catalog.link_ids():
        catalog.link(link_id)


def price_default_case() -> None:
    """Raises where the default Case has no finite price."""
    prices = compare_case(Case()).prices
    if not all(math.isfinite(float(price.victim_delay_s)) for price in prices.values()):
        raise ValueError("a price of the default case is not finite")


def read_pages(root: Path) -> None:
    """Raises where a page or its text is missing."""
    for page in (root / "app.py", *sorted((root / "pages").glob("*.py"))):
        page.read_bytes()
    for language in LANGUAGES:
        prose.sections_in(language, "nav")


def checks(root: Path) -> dict[str, Callable[[], None]]:
    return {"catalog": read_catalog, "default_case": price_default_case, "pages": lambda: read_pages(root)}


async def alive(request: Request) -> Response:
    """200 where the event loop and the threads behind it still work."""
    try:
        await asyncio.wait_for(asyncio.to_thread(time.monotonic), CHECK_S)
    except TimeoutError:
        return PlainTextResponse("no thread answers", status_code=503, headers=UNCACHED)
    return PlainTextResponse("ok", headers=UNCACHED)


class Readiness:
    """Runs every check anew; 503 with the names of those that fail."""

    def __init__(self, named: dict[str, Callable[[], None]]) -> None:
        self._named = named

    async def answer(self, request: Request) -> Response:
        failed = {}
        for name, check in self._named.items():
            try:
                await asyncio.wait_for(asyncio.to_thread(check), CHECK_S)
            except Exception as error:  # whatever it is, this replica is not ready
                failed[name] = type(error).__name__
        answer = {"ready": not failed, "failed": failed, "version": __version__}
        return JSONResponse(answer, status_code=503 if failed else 200, headers=UNCACHED)
