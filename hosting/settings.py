"""Settings of the hosted form: environment variables, all checked before anything starts."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

PREFIX = "KV_EXPLORER_"
PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*)(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
ORIGIN = re.compile(r"https?://(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::\d{1,5})?")
LAST_PORT = 65535
THIS_MACHINE = ("localhost", "127.0.0.1")
LOG_LEVELS = ("debug", "info", "warning", "error")


class SettingsError(ValueError):
    """A bad setting; the message is one sentence: variable, value given, what is allowed."""


def whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            raise ValueError(f"a whole number from {low:,} to {high:,}")
        return int(text)

    return read


def address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("an IP address of this machine, such as 127.0.0.1 or 0.0.0.0") from None


def base_path(text: str) -> str:
    trimmed = text.strip("/")
    if trimmed and not PATH.fullmatch(trimmed):
        raise ValueError("a path such as kv or tools/kv")
    return trimmed


def hosts(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    if not names or not all(HOST.fullmatch(name) for name in names):
        raise ValueError("host names without ports, separated by commas, such as kv.example.com,*.example.net")
    return names


def ancestors(text: str) -> tuple[str, ...]:
    if text.strip() in ("none", "self"):
        return (f"'{text.strip()}'",)
    origins = tuple(text.replace(",", " ").split())
    if not origins or not all(ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError("none, self, or origins separated by commas, such as https://wiki.example.com")
    return ("'self'", *origins)


def log_level(text: str) -> str:
    if text.lower() not in LOG_LEVELS:
        raise ValueError(", ".join(LOG_LEVELS))
    return text.lower()


def setting(default: Any, read: Callable[[str], Any]) -> Any:
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One field a variable: PORT is KV_EXPLORER_PORT.

    An upload is a body: the largest that a page takes is a scrape of 8 MiB, and a form's few lines around it.
    """

    address: str = setting("127.0.0.1", address)
    port: int = setting(8501, whole(1, LAST_PORT))
    replicas: int = setting(1, whole(1, 64))
    base_path: str = setting("", base_path)
    allowed_hosts: tuple[str, ...] = setting((), hosts)
    frame_ancestors: tuple[str, ...] = setting(("'self'",), ancestors)
    max_connections: int = setting(1000, whole(10, 100_000))
    max_body_bytes: int = setting(9_000_000, whole(1_000, 100_000_000))
    picture_cache_bytes: int = setting(32_000_000, whole(0, 1_000_000_000))
    log_level: str = setting("info", log_level)

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
    """The settings that the environment names. Raises SettingsError."""
    known = {PREFIX + each.name.upper(): each for each in fields(Settings)}
    chosen = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            nearest = ", ".join(difflib.get_close_matches(variable, known, n=2)) or ", ".join(known)
            raise SettingsError(f"{variable}: no such setting; nearest: {nearest}")
        each = known[variable]
        try:
            chosen[each.name] = each.metadata["read"](text)
        except ValueError as allowed:
            raise SettingsError(f"{variable}: {text[:40]!r} given; allowed: {allowed}") from None
    settings = Settings(**chosen)
    if settings.ports[-1] > LAST_PORT:
        raise SettingsError(
            f"{PREFIX}REPLICAS: {settings.replicas} given, one a port from {settings.port} on; "
            f"allowed: as many as there are to {LAST_PORT}"
        )
    if not ipaddress.ip_address(settings.address).is_loopback and not settings.allowed_hosts:
        raise SettingsError(
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
