"""A chart as SVG or PNG: plotly's own drawing, made by kaleido in a Chrome or Chromium of this machine.

The browser stays open between pictures, so the first takes seconds and each later one a fraction of one. It closes
when none was asked for in a while.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import threading
from pathlib import Path
from typing import Any

from kvmodel.errors import CaseError

SUFFIXES = (".svg", ".png")
MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTH_PX = 900
PNG_SCALE = 2  # pixels a CSS pixel: sharp in a printed page or on a dense screen
START_S, DRAW_S, KEEP_OPEN_S = 30.0, 20.0, 30.0
NICE_BROWSER = Path(__file__).with_name("nice-browser")
INSTEAD = "the .html and .csv files need neither"


class NoPictures(CaseError):
    """kaleido or a browser is missing, or the browser failed; the message is one sentence."""


def browser_path() -> str | None:
    """The Chrome or Chromium that draws: BROWSER_PATH where that is set, else the first of BROWSERS on PATH."""
    path = os.environ.get("BROWSER_PATH")
    if path:
        return path if os.access(path, os.X_OK) else None
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def require() -> str:
    """The browser's path. Raises NoPictures where kaleido or a browser is missing."""
    if importlib.util.find_spec("kaleido") is None:
        raise NoPictures(f"pictures: kaleido is not installed; {INSTEAD}")
    path = browser_path()
    if path is None:
        raise NoPictures(f"pictures: no Chrome or Chromium on PATH or at BROWSER_PATH; {INSTEAD}")
    return path


def available() -> bool:
    """Whether kaleido and a browser are here."""
    try:
        require()
    except NoPictures:
        return False
    return True


def picture(figure: dict[str, Any], suffix: str) -> bytes:
    """A plotly figure, as plain data, as a file of kind `suffix` (of SUFFIXES). Safe to call from several threads.

    Raises NoPictures where kaleido or a browser is missing, or the browser gives no picture in time.
    """
    return _browser().picture(figure, suffix, require())


@functools.cache
def _browser() -> Browser:
    return Browser()


class Browser:
    """One open Chrome with a thread of its own, one picture at a time."""

    def __init__(self, keep_open_s: float = KEEP_OPEN_S) -> None:
        self._keep_open_s = keep_open_s
        self._kaleido: Any = None
        self._turn = asyncio.Lock()
        self._closing: asyncio.TimerHandle | None = None
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="pictures", daemon=True).start()
        atexit.register(self.close)

    @property
    def is_open(self) -> bool:
        return self._kaleido is not None

    def picture(self, figure: dict[str, Any], suffix: str, path: str) -> bytes:
        """Draw, opening the browser first where it is closed. Raises NoPictures."""
        return asyncio.run_coroutine_threadsafe(self._picture(figure, suffix, path), self._loop).result()

    def close(self) -> None:
        """Close the browser; the next picture opens another."""
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=DRAW_S)

    async def _picture(self, figure: dict[str, Any], suffix: str, path: str) -> bytes:
        async with self._turn:
            if self._closing is not None:
                self._closing.cancel()
            try:
                try:
                    return await self._draw(figure, suffix, path)
                except Exception:
                    if self._kaleido is None:
                        raise
                    await self._drop()  # it may have died since the last picture: once more with another
                    return await self._draw(figure, suffix, path)
            except Exception as error:  # a browser may fail in many ways: kaleido names no common one
                await self._drop()
                raise NoPictures(f"pictures: the browser gave none ({type(error).__name__}); {INSTEAD}") from None
            finally:
                self._closing = self._loop.call_later(self._keep_open_s, self._close_soon)

    async def _draw(self, figure: dict[str, Any], suffix: str, path: str) -> bytes:
        if self._kaleido is None:
            await asyncio.wait_for(self._open(path), START_S)
        return bytes(await asyncio.wait_for(self._kaleido.calc_fig(figure, options(figure, suffix)), DRAW_S))

    async def _open(self, path: str) -> None:
        import kaleido

        # Without MathJax, which kaleido would load from another host; plotly.js is the package's own.
        browser = kaleido.Kaleido(n=1, timeout=DRAW_S, mathjax=False, path=nice(path))
        await browser.open()
        self._kaleido = browser

    def _close_soon(self) -> None:
        self._loop.create_task(self._close())

    async def _close(self) -> None:
        async with self._turn:
            await self._drop()

    async def _drop(self) -> None:
        browser, self._kaleido = self._kaleido, None
        if browser is not None:
            with contextlib.suppress(Exception):  # already gone
                await asyncio.wait_for(browser.close(), DRAW_S)


def nice(path: str) -> str:
    """A program that starts the browser of this path after all other work of the machine."""
    os.environ["KVMODEL_BROWSER"] = path
    return str(NICE_BROWSER) if os.access(NICE_BROWSER, os.X_OK) else path


def options(figure: dict[str, Any], suffix: str) -> dict[str, Any]:
    """What kaleido is told: the figure's own height, a fixed width, and twice the pixels for a PNG."""
    return {
        "format": suffix.removeprefix("."),
        "width": WIDTH_PX,
        "height": figure["layout"]["height"],
        "scale": PNG_SCALE if suffix == ".png" else 1,
    }
