"""Streamlit's own scripts and styles, compressed once each: it sends them as they are, 8 MB for a first visit."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
}
LEAST_BYTES = 1000
HASHED = "public, immutable, max-age=31536000"  # a name with a hash never has other content
UNHASHED = "no-cache"


@dataclass(frozen=True)
class Packed:
    body: bytes
    etag: str


class CompressedFiles:
    """ASGI middleware: answers for the files below `folder` whose text is worth compressing, and passes on the rest.

    Only names listed at the start are answered, so no path can lead out of the folder. A file is compressed when it
    is first asked for, in a thread, and kept: all of them are under 8 MB.
    """

    def __init__(self, app: ASGIApp, *, folder: Path, prefix: str) -> None:
        self._app = app
        found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in MEDIA_TYPES}
        self._files = {f"{prefix}/{name}": path for name, path in found.items() if path.stat().st_size >= LEAST_BYTES}
        if "index.html" in found:
            self._files[f"{prefix}/"] = found["index.html"]
        self._packing: dict[Path, asyncio.Task[Packed]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = (
            self._files.get(scope["path"]) if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") else None
        )
        if path is None or not takes_gzip(headers := Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        packed = await self._packed(path)
        kept = {
            "ETag": packed.etag,
            "Vary": "Accept-Encoding",
            "Cache-Control": UNHASHED if path.suffix in (".html", ".json") else HASHED,
        }
        if packed.etag in headers.get("if-none-match", ""):
            await Response(status_code=304, headers=kept)(scope, receive, send)
            return
        answer = Response(packed.body, headers=kept | {"Content-Encoding": "gzip"}, media_type=MEDIA_TYPES[path.suffix])
        await answer(scope, receive, send)

    async def _packed(self, path: Path) -> Packed:
        """The compressed file; visitors that ask at the same time wait for one and the same work."""
        if path not in self._packing:
            self._packing[path] = asyncio.create_task(asyncio.to_thread(pack, path))
        try:
            return await asyncio.shield(self._packing[path])
        except OSError:
            self._packing.pop(path, None)
            raise


def pack(path: Path) -> Packed:
    body = gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)
    return Packed(body, f'"{hashlib.sha256(body).hexdigest()[:16]}"')


def takes_gzip(headers: Headers) -> bool:
    """Whether the client takes gzip; a quality of zero says no, and a range wants the bytes as they are."""
    offered = [part.replace(" ", "").lower() for part in headers.get("accept-encoding", "").split(",")]
    return "range" not in headers and any(
        part.split(";")[0] in ("gzip", "*") and not part.endswith((";q=0", ";q=0.0")) for part in offered
    )
