"""Questions to a Prometheus over its HTTP API; whatever goes wrong is one sentence.

The address may hold a user and password; a token is read from KVMODEL_PROMETHEUS_TOKEN. Redirects are not followed, so
no credentials go elsewhere.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import queue
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvmodel.errors import CaseError, bad_value, refused
from kvmodel.units import DAY, HOUR, MIB, MINUTE, MS
from kvmodel.words import say

SERVERS = "KVMODEL_PROMETHEUS_SERVERS"
TOKEN = "KVMODEL_PROMETHEUS_TOKEN"
ANSWER_S = 15
LONGEST_ANSWER = 32 * MIB
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
UNITS_S = {"ms": MS, "s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
LEAST_WINDOW_S, MOST_WINDOW_S = 1, 90 * DAY


@dataclass(frozen=True)
class Address:
    """A Prometheus. `url` holds no credentials and may be shown."""

    url: str
    headers: Mapping[str, str]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect to be reported as an error."""

    def redirect_request(self, *arguments: Any, **keywords: Any) -> None:
        return None


def address(url: str) -> Address:
    """The address of a Prometheus. Raises CaseError where it is no http address."""
    echo = url.rpartition("@")[2][:60]
    refusal = refused("prometheus", repr(echo), say("an address such as http://localhost:9090"))
    try:
        parts = urllib.parse.urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise refusal from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise refusal
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_host_name = all(0 < len(part) < 64 for part in host.removesuffix(".").split("."))
    if not is_host_name or not re.fullmatch(r"[\w.\-\[\]:%]+", host, re.ASCII):
        raise refusal
    bare = f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    return Address(bare, credentials(parts))


def credentials(parts: urllib.parse.SplitResult) -> dict[str, str]:
    """The header for user and password of an address, or for the token of the environment."""
    if parts.username is not None:
        pair = ":".join(urllib.parse.unquote(part or "") for part in (parts.username, parts.password))
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    token = os.environ.get(TOKEN, "").strip()
    return {"Authorization": f"Bearer {token}"} if token else {}


def configured_servers(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Addresses by name that a hosted page may ask: KVMODEL_PROMETHEUS_SERVERS, `name=address` separated by spaces.

    An address without a name goes by its host. Raises CaseError for what is no address.

    >>> configured_servers({"KVMODEL_PROMETHEUS_SERVERS": "main=http://prom:9090 https://other.example"})
    {'main': 'http://prom:9090', 'other.example': 'https://other.example'}
    """
    addresses = {}
    for entry in environment.get(SERVERS, "").split():
        name, separator, url = entry.partition("=")
        if not separator or "://" in name:
            name, url = str(urllib.parse.urlsplit(entry).hostname), entry
        address(url)
        addresses[name] = url
    return addresses


def window_s(text: str) -> float:
    """Seconds of a Prometheus duration. Raises CaseError.

    >>> window_s("1h"), window_s("1h30m"), window_s("2d")
    (3600.0, 5400.0, 172800.0)
    """
    parts = re.findall(r"(\d+)(ms|[smhdw])", text.strip())
    seconds = float(sum(int(count[:9]) * UNITS_S[unit] for count, unit in parts))
    duration = "".join(count + unit for count, unit in parts)
    if duration != text.strip() or not LEAST_WINDOW_S <= seconds <= MOST_WINDOW_S:
        raise bad_value("window", text, say("such as 15m, 1h or 2d, up to 90d"))
    return seconds


def query(server: Address, expression: str) -> list[dict[str, Any]]:
    """The vector of an instant query: `metric` and `value` of each series. Raises CaseError."""
    data = ask(server, "query", {"query": expression})
    if not isinstance(data, dict) or data.get("resultType") != "vector":
        raise CaseError(say("prometheus: {url} gave another kind of answer than a vector", url=server.url))
    series = data.get("result")
    if not isinstance(series, list) or not all(map(is_series, series)):
        raise no_prometheus(server)
    return series


def is_series(entry: Any) -> bool:
    """Whether it is a series of a vector: labels, and a time with a value in text."""
    if not isinstance(entry, dict):
        return False
    labels, point = entry.get("metric"), entry.get("value")
    return (
        isinstance(labels, dict)
        and all(isinstance(value, str) for value in labels.values())
        and isinstance(point, list)
        and len(point) == 2
        and isinstance(point[1], str)
    )


def names(server: Address, selector: str, seconds: float) -> list[str]:
    """Names of the series that a selector finds in the last `seconds`. Raises CaseError."""
    now = ask(server, "query", {"query": "time()"})
    try:
        end = float(now["result"][0])
    except (KeyError, IndexError, TypeError, ValueError):
        raise no_prometheus(server) from None
    parameters = urllib.parse.urlencode({"match[]": selector, "start": end - seconds, "end": end})
    answer = ask(server, f"label/__name__/values?{parameters}")
    if not isinstance(answer, list):
        raise no_prometheus(server)
    return [name for name in answer if isinstance(name, str) and NAME.fullmatch(name)]


def ask(server: Address, path: str, form: Mapping[str, str] | None = None) -> Any:
    """The `data` of an API answer. Raises CaseError, one sentence, for whatever goes wrong."""
    body = None if form is None else urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(f"{server.url}/api/v1/{path}", data=body, headers=dict(server.headers))
    try:
        text = within(ANSWER_S, lambda: fetched(request))
    except urllib.error.HTTPError as error:
        raise CaseError(f"prometheus: {server.url} {refusal(error)}") from None
    except TimeoutError as error:
        raise CaseError(f"prometheus: {server.url} {unreachable(error)}") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise CaseError(f"prometheus: {server.url} {unreachable(error)}") from None
    if len(text) > LONGEST_ANSWER:
        raise CaseError(
            say("prometheus: {url} has too many series for one answer; allowed: fewer, with --match", url=server.url)
        )
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise no_prometheus(server) from None
    if isinstance(answer, dict) and "data" in answer:
        return answer["data"]
    if isinstance(answer, dict) and answer.get("status") == "error" and answer.get("error"):
        message = say("refused the question ({code}): {told}", code=200, told=in_short(answer["error"]))
        raise CaseError(f"prometheus: {server.url} {message}")
    raise no_prometheus(server)


def fetched(request: urllib.request.Request) -> bytes:
    """The body of an answer, as far as it may go."""
    with urllib.request.build_opener(NoRedirect).open(request, timeout=ANSWER_S) as answer:
        text: bytes = answer.read(LONGEST_ANSWER + 1)
        return text


def within(seconds: float, work: Callable[[], bytes]) -> bytes:
    """What `work` returns or raises. Raises TimeoutError after so many seconds.

    A socket's own timeout begins anew with every byte, so a server that drips would never end.
    """
    done: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except Exception as error:
            done.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return result


def no_prometheus(server: Address) -> CaseError:
    return CaseError(say("prometheus: {url} does not answer as a Prometheus does", url=server.url))


def in_short(message: object) -> str:
    """What a server says of an error, on one line."""
    return " ".join(str(message).split())[:120]


def unreachable(error: Exception) -> str:
    """Why there was no answer."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return say("did not answer within {seconds} s", seconds=ANSWER_S)
    if isinstance(reason, ConnectionRefusedError):
        return say("refused the connection: nothing listens there")
    message = isinstance(reason, OSError) and reason.strerror
    return say("cannot be reached: {reason}", reason=message or str(reason)[:80] or type(reason).__name__)


def refusal(error: urllib.error.HTTPError) -> str:
    """What an HTTP status says."""
    if error.code in (401, 403):
        return say(
            "asks for credentials ({code}): give http://user:password@host, or a token in {token}",
            code=error.code,
            token=TOKEN,
        )
    if error.code == 404:
        return say("has no Prometheus API at that path (404)")
    if 300 <= error.code < 400:
        return say("sends elsewhere ({code}), and redirects are not followed: give the address itself", code=error.code)
    try:
        message = json.loads(within(ANSWER_S, lambda: error.read(LONGEST_ANSWER)))["error"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError, http.client.HTTPException):
        return say("answered with status {code}", code=error.code)
    return say("refused the question ({code}): {told}", code=error.code, told=in_short(message))
