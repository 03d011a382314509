"""What a browser is told with every answer: who may frame the pages, and what a page may load."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# Streamlit's pages style elements inline, and start components and workers from blobs. Nothing of the app comes from
# another host, and no script runs that is not a file of its own or stands in its index page.
POLICY = (
    "default-src 'self'",
    "script-src 'self' blob: {scripts}",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "worker-src 'self' blob:",
    "connect-src 'self' blob: data:",
    "object-src 'none'",
    "base-uri 'self'",
    "form-action 'self'",
    "frame-ancestors {ancestors}",
)
FIXED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # a link's inputs are nobody else's business
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def inline_scripts(page: str) -> list[str]:
    """The scripts written into an HTML page, as a policy names them: by their hashes."""
    digests = (hashlib.sha256(script.encode()).digest() for script in INLINE_SCRIPT.findall(page))
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


def security_headers(frame_ancestors: Sequence[str], scripts: Sequence[str]) -> dict[str, str]:
    """The headers; `frame_ancestors` as CSP writes them: "'self'", "'none'" or origins; `scripts` may run inline."""
    policy = "; ".join(POLICY).format(scripts=" ".join(scripts), ancestors=" ".join(frame_ancestors))
    headers = FIXED | {"Content-Security-Policy": policy}
    older_browsers = {"'none'": "DENY", "'self'": "SAMEORIGIN"}
    if len(frame_ancestors) == 1:  # the old header cannot name origins
        headers["X-Frame-Options"] = older_browsers[frame_ancestors[0]]
    return headers


class SecurityHeaders:
    """ASGI middleware that adds the headers to every HTTP answer."""

    def __init__(self, app: ASGIApp, *, frame_ancestors: Sequence[str], index_page: str) -> None:
        self._app = app
        self._headers = security_headers(frame_ancestors, inline_scripts(index_page))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)
