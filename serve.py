"""The hosted form of the app: `python serve.py`, with the settings of docs/hosting.md as environment variables.

The pages are those of `streamlit run app.py`; around them stand health checks, security headers, limits and charts
by address. `streamlit run serve.py` starts the same, with Streamlit's own address and port.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Route
from streamlit import config

from explorer import share
from hosting import health, lean, log, memory, server
from hosting.charts import Charts
from hosting.headers import SecurityHeaders
from hosting.limits import Limits
from hosting.sessions import Sessions
from hosting.settings import for_streamlit, read
from hosting.warm import before_the_first_visitor
from kvmodel.errors import CaseError

ROOT = Path(__file__).resolve().parent
SWITCH_S = 0.0005  # a tenth of Python's own: beside a simulation a page gets the interpreter sooner, 200 -> 140 ms
INDEX_PAGE = resources.files("streamlit") / "static" / "index.html"

try:
    settings = read(os.environ)
except CaseError as error:
    sys.exit(str(error))
for option, value in for_streamlit(settings).items():
    config.set_option(option, value)
log.set_up(settings.log_level)
memory.one_arena()
sys.setswitchinterval(SWITCH_S)


@asynccontextmanager
async def ready_before_the_first_visitor(_: st.App) -> AsyncIterator[None]:
    server.send_at_once()
    share.serve_charts_at(f"{settings.prefix}/charts")
    before_the_first_visitor()
    lean.spare_work()
    yield


app = st.App(
    ROOT / "app.py",
    lifespan=ready_before_the_first_visitor,
    routes=[
        Route(f"{settings.prefix}/healthz", health.alive),
        Route(f"{settings.prefix}/readyz", health.Readiness(health.checks(ROOT)).answer, methods=["GET"]),
        Route(f"{settings.prefix}/charts/{{file}}", Charts(settings.picture_cache_bytes).answer, methods=["GET"]),
    ],
    middleware=[
        Middleware(log.RequestLog),
        Middleware(
            SecurityHeaders,
            frame_ancestors=settings.frame_ancestors,
            index_page=INDEX_PAGE.read_text(encoding="utf-8"),
        ),
        Middleware(TrustedHostMiddleware, allowed_hosts=settings.hosts, www_redirect=False),
        Middleware(Limits, max_body_bytes=settings.max_body_bytes),
        Middleware(
            Sessions,
            most_of_an_address=settings.max_sessions_per_address,
            max_body_bytes=settings.max_body_bytes,
        ),
    ],
)

if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        for port in settings.ports:
            print(f"The settings are good: http://{settings.address}:{port}{settings.prefix}/")
    elif sys.argv[1:]:
        sys.exit(f"serve.py: {sys.argv[1]!r} given; allowed: --check, or nothing and settings in the environment")
    else:
        server.run(app, settings)
elif settings.replicas > 1:
    sys.exit(f"KV_EXPLORER_REPLICAS: {settings.replicas} given; allowed with streamlit run: 1, or python serve.py")
