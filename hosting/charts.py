"""Charts by address: /charts/NAME.svg, .png or .csv, with the inputs of a Case as its query.

They are the figures of the pages and of the shell. Answers are kept, so that a wiki page with ten of them costs ten
drawings once.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from explorer import aside
from kvmodel import __version__, charts
from kvmodel.charts import chart_files, pictures
from kvmodel.errors import CaseError, bad_value
from kvmodel.inputs.addresses import case_of
from kvmodel.inputs.case import Case

MEDIA_TYPES = pictures.MEDIA_TYPES | {".csv": "text/csv; charset=utf-8"}
KEEP_S = 3600  # a browser's or proxy's copy; the inputs are all in the address, only the model may change
WAITING = 8  # drawings that may wait for their turn
LONGEST_REST_S = 2.0  # the first drawing opens the browser


class Busy(Exception):
    """Too many drawings wait."""


class Kept:
    """Answers by key, the least recently used given up first; no more than `most_bytes` of them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: str) -> bytes | None:
        if key in self._bodies:
            self._bodies.move_to_end(key)
        return self._bodies.get(key)

    def put(self, key: str, body: bytes) -> None:
        if len(body) > self._most_bytes or key in self._bodies:
            return
        self._bodies[key] = body
        self._bytes += len(body)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._bodies.popitem(last=False)[1])


class Charts:
    """The endpoint behind the addresses: one drawing for all who ask for the same at the same time."""

    def __init__(self, most_bytes: int) -> None:
        self._kept = Kept(most_bytes)
        self._drawing: dict[str, asyncio.Future[bytes]] = {}
        self._last_s = 0.0
        self._one = ThreadPoolExecutor(1, "charts")  # more would hold up the pages, which have one interpreter with it

    async def answer(self, request: Request) -> Response:
        try:
            name, suffix, case = asked(request)
            key = f"{name}{suffix}/{astuple(case)}"
            body = await self._body(key, lambda: drawn(name, suffix, case))
        except pictures.NoPictures as error:
            return PlainTextResponse(f"{error}\n", status_code=503, headers={"Cache-Control": "no-store"})
        except CaseError as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        except Busy:
            busy = {"Retry-After": "5", "Cache-Control": "no-store"}
            return PlainTextResponse("charts: too many are being drawn\n", status_code=503, headers=busy)
        tag = f'"{hashlib.sha256(f"{__version__}/{key}".encode()).hexdigest()[:16]}"'
        headers = {"Cache-Control": f"public, max-age={KEEP_S}", "ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        shown = {"Content-Disposition": f'inline; filename="{name}{suffix}"'}
        return Response(body, headers=headers | shown, media_type=MEDIA_TYPES[suffix])

    async def _body(self, key: str, draw: Callable[[], bytes]) -> bytes:
        body = self._kept.get(key)
        if body is not None:
            return body
        if key not in self._drawing:
            if len(self._drawing) >= WAITING:
                raise Busy
            task = self._drawing[key] = asyncio.get_running_loop().run_in_executor(self._one, self._timed, draw)
            self._one.submit(self._rest)
            task.add_done_callback(lambda done: self._drawn(key, done))
        return await asyncio.shield(self._drawing[key])

    def _timed(self, draw: Callable[[], bytes]) -> bytes:
        with alone_on_this_machine():
            start_s = time.perf_counter()
            try:
                return draw()
            finally:
                self._last_s = time.perf_counter() - start_s

    def _rest(self) -> None:
        """A browser takes a whole processor while it draws: at most half of the time, then."""
        time.sleep(min(self._last_s, LONGEST_REST_S))

    def _drawn(self, key: str, task: asyncio.Future[bytes]) -> None:
        del self._drawing[key]
        if not task.cancelled() and task.exception() is None:
            self._kept.put(key, task.result())


@contextmanager
def alone_on_this_machine() -> Iterator[None]:
    """Two browsers at a time would take both processors of a small machine; a replica that ends leaves its place."""
    with open(__file__, "rb") as place:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield


def asked(request: Request) -> tuple[str, str, Case]:
    """Chart, kind of file and Case of an address. Raises CaseError with one sentence."""
    name, dot, ending = request.path_params["file"].rpartition(".")
    if f"{dot}{ending}" not in MEDIA_TYPES:
        raise bad_value("chart", request.path_params["file"], f"{', '.join(MEDIA_TYPES)} files")
    if name not in charts.NAMES:
        raise bad_value("chart", name, ", ".join(charts.NAMES))
    return name, f"{dot}{ending}", case_of(request.query_params.multi_items())


def drawn(name: str, suffix: str, case: Case) -> bytes:
    """The file. Raises CaseError: the Case does not fit, or there is nothing to draw pictures with."""
    if suffix in pictures.SUFFIXES:
        return pictures.picture(aside.result_of(chart_files.figure, name, case), suffix)
    return str(aside.result_of(chart_files.chart_file, name, case, suffix)).encode()
