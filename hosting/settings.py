"""Settings of the hosted form: environment variables, all checked before anything starts."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kvmodel.errors import CaseError
from kvmodel.limits import Limits, one_of, whole, written

PREFIX = "KV_EXPLORER_"
PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*)(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
ORIGIN = re.compile(r"https?://(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::\d{1,5})?")
LAST_PORT = 65535
THIS_MACHINE = ("localhost", "127.0.0.1")
LOG_LEVELS = ("debug", "info", "warning", "error")


def address(text: str) -> str:
    return str(ipaddress.ip_address(text))


def base_path(text: str) -> str:
    trimmed = text.strip("/")
    if trimmed and not PATH.fullmatch(trimmed):
        raise ValueError
    return trimmed


def hosts(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    if not names or not all(HOST.fullmatch(name) for name in names):
        raise ValueError
    return names


def ancestors(text: str) -> tuple[str, ...]:
    if text.strip() in ("none", "self"):
        return (f"'{text.strip()}'",)
    origins = tuple(text.replace(",", " ").split())
    if not origins or not all(ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError
    return ("'self'", *origins)


def log_level(text: str) -> Any:
    return one_of(*LOG_LEVELS).parsed(text.lower())


def setting(default: Any, limits: Limits) -> Any:
    return field(default=default, metadata={"limits": limits})


ADDRESS = written(address, "an IP address of this machine, such as 127.0.0.1 or 0.0.0.0")
BASE_PATH = written(base_path, "a path such as kv or tools/kv")
HOSTS = written(hosts, "host names without ports, separated by commas, such as kv.example.com,*.example.net")
ANCESTORS = written(ancestors, "none, self, or origins separated by commas, such as https://wiki.example.com")
LOG_LEVEL = written(log_level, ", ".join(LOG_LEVELS))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One field a variable: PORT is KV_EXPLORER_PORT.

    An upload is a body: the largest that a page takes is a scrape of 8 MiB, and a form's few lines around it.
    """

    address: str = setting("127.0.0.1", ADDRESS)
    port: int = setting(8501, whole(1, LAST_PORT))
    replicas: int = setting(1, whole(1, 64))
    base_path: str = setting("", BASE_PATH)
    allowed_hosts: tuple[str, ...] = setting((), HOSTS)
    frame_ancestors: tuple[str, ...] = setting(("'self'",), ANCESTORS)
    max_connections: int = setting(1000, whole(10, 100_000))
    max_sessions_per_address: int = setting(200, whole(1, 100_000))
    max_body_bytes: int = setting(9_000_000, whole(1_000, 100_000_000))
    picture_cache_bytes: int = setting(32_000_000, whole(0, 1_000_000_000))
    log_level: str = setting("info", LOG_LEVEL)

    @property
    def prefix(self) -> str:
        """What stands before every path: empty, or a slash and the base path."""
        return f"/{self.base_path}" if self.base_path else ""

    @property
    def ports(self) -> range:
        """One a replica."""
        return range(self.port, self.port + self.replicas)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that a request may be for; this machine's own always, so that a probe beside the server works."""
        return (*THIS_MACHINE, *self.allowed_hosts)


def read(environment: Mapping[str, str]) -> Settings:
    """The settings that the environment names. Raises CaseError."""
    known = {PREFIX + each.name.upper(): each for each in fields(Settings)}
    chosen = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            nearest = ", ".join(difflib.get_close_matches(variable, known, n=2)) or ", ".join(known)
            raise CaseError(f"{variable}: no such setting; nearest: {nearest}")
        each = known[variable]
        chosen[each.name] = each.metadata["limits"].read(variable, text)
    settings = Settings(**chosen)
    if settings.ports[-1] > LAST_PORT:
        raise CaseError(
            f"{PREFIX}REPLICAS: {settings.replicas} given, one a port from {settings.port} on; "
            f"allowed: as many as there are to {LAST_PORT}"
        )
    if not ipaddress.ip_address(settings.address).is_loopback and not settings.allowed_hosts:
        raise CaseError(
            f"{PREFIX}ALLOWED_HOSTS: none given for address {settings.address}, which others can reach; "
            "allowed: the host names that visitors use"
        )
    return settings


def for_streamlit(settings: Settings) -> dict[str, Any]:
    """The options of Streamlit that follow from the settings."""
    return {
        "server.baseUrlPath": settings.base_path,
        "server.allowedHosts": list(settings.hosts),
        "logger.level": settings.log_level,
        "logger.enableRich": False,  # it would print what a visitor gave
        # A whole collection after every run grows with the number of sessions; Python's own collections stay on.
        "runner.postScriptGC": False,
        "client.showErrorDetails": "none",
    }
