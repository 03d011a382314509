"""Time of a page: a rerun on the server, and the first chart of a cold visit in Chromium.

    python -m benchmarks.pages [RERUNS]

A rerun goes over the app's own websocket, as a browser's would: from the message that changes the sequence length to
the one that says the script has finished. The browser's part is left out where no Chromium is installed.
"""

import shutil
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from websockets.sync.client import ClientConnection, connect

from benchmarks.server import free_ports, running

PAGES = ("", "kv_size", "roofline", "crossover", "scenarios")
BROWSER_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
COLD_VISITS = 5
CHARTS = ("plotly_chart", "bidi_component")
FIRST_CHART = "svg.live-plot"  # of the first page
SEQUENCE_LENGTH = "Sequence length [tokens]"


@contextmanager
def server() -> Iterator[int]:
    """The app as a reader starts it, on a free port of this machine."""
    ports = free_ports(1)
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.address=127.0.0.1"]
    with running([*command, f"--server.port={ports[0]}"], ports, "/_stcore/health"):
        yield ports[0]


def asked(page: str, states: WidgetStates, part: str = "", query: str = "") -> bytes:
    """What a browser sends when an input of a part of the page (a fragment) is changed; without one, on a visit."""
    message = BackMsg()
    message.rerun_script.query_string = query
    message.rerun_script.page_name = page
    message.rerun_script.widget_states.CopyFrom(states)
    message.rerun_script.fragment_id = part
    return message.SerializeToString()


def rerun(
    connection: ClientConnection, page: str, states: WidgetStates, part: str = ""
) -> tuple[float, list[ForwardMsg]]:
    """Seconds from the request to the end of the script, and what the server sent."""
    start = time.perf_counter()
    connection.send(asked(page, states, part))
    messages = received(connection)
    return time.perf_counter() - start, messages


def received(connection: ClientConnection, timeout_s: float | None = None) -> list[ForwardMsg]:
    """What the server sends until the script has finished."""
    messages = []
    while True:
        messages.append(ForwardMsg.FromString(connection.recv(timeout=timeout_s)))
        if messages[-1].WhichOneof("type") == "script_finished":
            return messages


def reruns_ms(port: int, page: str, count: int) -> list[float]:
    """Sorted times of reruns of one session, each with another sequence length."""
    with connect(f"ws://127.0.0.1:{port}/_stcore/stream", max_size=None) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        states, tokens, part = shown(rerun(connection, page, WidgetStates())[1])
        times = []
        for run in range(count):
            tokens.double_value = 2048 + 16 * run
            taken_s, messages = rerun(connection, page, states, part)
            if not any(message.delta.new_element.WhichOneof("type") in CHARTS for message in messages):
                raise SystemExit(f"{page}: a rerun drew no chart")
            times.append(1000 * taken_s)
    return sorted(times)


def shown(messages: list[ForwardMsg]) -> tuple[WidgetStates, WidgetState, str]:
    """What a browser holds after the first run: states of the widgets, that of the sequence length, and its part."""
    states, tokens, part = WidgetStates(), None, ""
    for message in messages:
        element = message.delta.new_element
        if element.WhichOneof("type") == "number_input":
            number = element.number_input
            widget = states.widgets.add(id=number.id, double_value=number.value if number.set_value else number.default)
            if number.label == SEQUENCE_LENGTH:
                tokens, part = widget, message.delta.fragment_id
        elif element.WhichOneof("type") == "selectbox":
            box = element.selectbox
            states.widgets.add(id=box.id, string_value=box.raw_value if box.set_value else box.options[box.default])
        elif element.WhichOneof("type") == "checkbox":
            states.widgets.add(id=element.checkbox.id, bool_value=element.checkbox.default)
    if tokens is None:
        raise SystemExit(f"the page has no input {SEQUENCE_LENGTH!r}")
    return states, tokens, part


def cold_visits_s(port: int, chromium: str) -> list[float]:
    """Sorted times from `goto` to the first chart, a fresh profile each."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_OPTIONS)
        for _ in range(COLD_VISITS):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            start = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_selector(FIRST_CHART, timeout=60_000)
            times.append(time.perf_counter() - start)
            page.context.close()
        browser.close()
    return sorted(times)


def main(count: int) -> None:
    with server() as port:
        for page in PAGES:
            times = reruns_ms(port, page, count)
            median = statistics.median(times)
            print(f"{page or 'home':<10} rerun: median {median:.1f} ms, best {times[0]:.1f} ms")
        chromium = shutil.which("chromium")
        if chromium:
            cold = cold_visits_s(port, chromium)
            listed = ", ".join(f"{seconds:.1f}" for seconds in cold)
            print(f"first chart of a cold visit: median {statistics.median(cold):.1f} s of {listed}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
