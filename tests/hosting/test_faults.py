"""What goes wrong around a server: after each fault it must still answer the next visitor.

KVMODEL_FUZZ multiplies the fuzzed addresses: 60 is the long run (3,000 through the server, 7,800 through pages).
"""

from __future__ import annotations

import http.client
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.testing.v1 import AppTest
from websockets.exceptions import ConnectionClosed

from explorer.frame import PAGES
from kvmodel import catalog, charts
from kvmodel.charts import pictures
from kvmodel.inputs.case import DEFAULTS, LIMITS
from tests.helpers.machine import missing, wait_for
from tests.helpers.replicas import ROOT, Replica, ask, run_script, visit, visitor
from tests.hosting.conftest import Start

FUZZ = int(os.environ.get("KVMODEL_FUZZ", "1"))
NAMES = [Path(file).stem.replace("app", "") for file in (*PAGES.values(), "pages/embed.py")]
NASTY = (
    "", " ", "0", "-1", "1e999", "nan", "inf", "-0.0", "9" * 400, "٤٠٩٦", "1_000", "0x10", "4096.0", "true", "None",
    "<script>alert(1)</script>", "'; DROP TABLE", "../../etc/passwd", "%00", "\x00", "\n", "💥" * 50, "{{7*7}}", "${x}",
    "[a](javascript:x)", "![i](http://x)", "auto", "Llama-3-8B", "ideal", "x" * 3000, "a,b", "\ud7ff", "‮", "$\\frac12$",
)  # fmt: skip


def answers_the_next_visitor(replica: Replica) -> None:
    shown = visit(replica.port, "tokens=2048", page="roofline")
    assert shown.charts
    assert not shown.failed
    assert replica.process.poll() is None
    assert ask(f"{replica.url}/readyz").status == 200


def fuzzed(chance: random.Random) -> list[tuple[str, str]]:
    """Inputs of a link: good ones, garbage, unknown keys, keys twice."""
    good = {
        "model": catalog.model_ids(), "gpu": catalog.gpu_ids(), "link": catalog.link_ids(), "v": ("1", "2"),
        "chart": charts.NAMES, "view": ("length", "block-size", "figure19"), "only": ("tokens", "tokens,link"),
        "embed": ("true",),
    } | {field: limits.options for field, limits in LIMITS.items() if limits.options}  # fmt: skip
    keys = [*DEFAULTS, *good, "lang", "compare", "sources", "x" * 60, "__proto__", ""]
    pairs = []
    for _ in range(chance.choice((0, 1, 2, 5, 12, 40))):
        key = chance.choice(keys)
        known = [str(value) for value in good.get(key, ())] or [str(chance.randint(-5, 200_000)), str(chance.random())]
        pairs.append((key, chance.choice(known if chance.random() < 0.6 else NASTY)))
    return pairs


@pytest.mark.parametrize("page", NAMES)
@pytest.mark.parametrize(
    "query",
    [
        pytest.param("tokens=" + "9" * 20_000, id="20 KB number"),
        pytest.param("x" * 20_000, id="20 KB key"),
        pytest.param("&".join(f"k{index}={index}" for index in range(2_000)), id="2,000 keys"),
        pytest.param("tokens=%00&gpu=%ff%fe&model=%E0%A4%A&link=%", id="bytes that are no text"),
        pytest.param("&&&===;;;???", id="separators"),
    ],
)
def test_a_garbage_query_on_every_page(replica: Replica, page: str, query: str) -> None:
    shown = visit(replica.port, query, page=page)
    assert not shown.failed
    assert ask(f"{replica.url}/{page}?{query}").status in (200, 400, 414)


def test_fuzzed_addresses_through_the_server(replica: Replica) -> None:
    chance = random.Random(8)
    for index in range(50 * FUZZ):
        page, query = chance.choice(NAMES), urlencode(fuzzed(chance))
        shown = visit(replica.port, query, page=page)
        assert not shown.failed, f"/{page}?{query}"
        if index % 3 == 0:
            path = quote("".join(chance.choices("/abc.%é\\:*?\x7f~", k=12)))
            assert ask(f"{replica.url}/{path}?{query}").status < 500, path
            name = chance.choice((*charts.NAMES, "x"))
            assert ask(f"{replica.url}/charts/{quote(name)}.csv?{query}").status in (200, 400), query
    answers_the_next_visitor(replica)


def test_fuzzed_addresses_through_pages() -> None:
    """Five one after another in a session of every page: a link may also come to a page that holds another."""
    chance = random.Random(26)
    for file in FUZZ * [*PAGES.values(), "pages/embed.py"]:
        at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        if file != "app.py":
            at.switch_page(file)
        for _ in range(5):
            pairs = fuzzed(chance)
            at.query_params.clear()
            for key, value in pairs:
                at.query_params[key] = value
            at.run()
            assert not at.exception, f"{file} {pairs}: {at.exception[0].value}"


JUNK = [
    pytest.param("text in place of bytes", id="text"),
    pytest.param(b"", id="empty"),
    pytest.param(b"\x00" * 100, id="zeros"),
    pytest.param(random.Random(1).randbytes(5000), id="noise"),
    pytest.param(b"\x0a\xff\xff\xff\xff\x0f", id="a length that lies"),
    pytest.param(b"x" * 2_000_000, id="2 MB"),
]


@pytest.mark.parametrize("frame", JUNK)
def test_junk_frames(replica: Replica, frame: str | bytes) -> None:
    with visitor(replica.port) as connection, suppress(ConnectionClosed, TimeoutError):
        connection.send(frame)
        connection.recv(timeout=2)
    answers_the_next_visitor(replica)


def test_widget_states_of_widgets_that_do_not_exist(replica: Replica) -> None:
    with visitor(replica.port) as connection:
        request = BackMsg()
        request.rerun_script.page_name = "kv_size"
        for index in range(200):
            request.rerun_script.widget_states.widgets.add(id=f"$$ID-none-{index}", string_value="<b>")
        connection.send(request.SerializeToString())
        assert not run_script(connection, "", "kv_size").failed
    answers_the_next_visitor(replica)


def test_a_foreign_page_may_not_open_a_session(replica: Replica) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    with pytest.raises(InvalidStatus) as refused, connect(
        f"ws://127.0.0.1:{replica.port}/_stcore/stream", origin="https://evil.example"
    ):  # fmt: skip
        pass
    assert refused.value.response.status_code == 403


def test_clients_that_send_slowly_or_nothing(replica: Replica) -> None:
    opened = [socket.create_connection(("127.0.0.1", replica.port), timeout=5) for _ in range(100)]
    try:
        for index, client in enumerate(opened):
            client.sendall(b"GET / HTTP/1.1\r\nHost: local"[: index % 30])
        answers_the_next_visitor(replica)
    finally:
        for client in opened:
            client.close()


def test_a_client_that_does_not_read(replica: Replica) -> None:
    """It asks for run after run and takes no answer: others are served meanwhile, and its memory is bounded."""
    with visitor(replica.port) as connection:
        request = BackMsg()
        request.rerun_script.page_name = "roofline"
        with suppress(ConnectionClosed):
            for _ in range(200):
                connection.send(request.SerializeToString())
        start = time.monotonic()
        answers_the_next_visitor(replica)
        assert time.monotonic() - start < 20, "the others wait for it"


def test_visitors_that_leave_in_the_middle(replica: Replica) -> None:
    for _ in range(30):
        connection = visitor(replica.port)
        request = BackMsg()
        request.rerun_script.page_name = "crossover"
        connection.send(request.SerializeToString())
        connection.socket.close()
    answers_the_next_visitor(replica)


def test_more_connections_than_allowed_are_turned_away(start: Start) -> None:
    small = start(max_connections="20")
    held = [visitor(small.port) for _ in range(15)]
    idle = [socket.create_connection(("127.0.0.1", small.port), timeout=5) for _ in range(15)]
    assert ask(f"{small.url}/").status == 503
    for connection in held:
        connection.close()
    for client in idle:
        client.close()
    wait_for(lambda: ask(f"{small.url}/").status == 200)
    answers_the_next_visitor(small)


def test_many_visitors_at_once(replica: Replica) -> None:
    failures: list[object] = []

    def one(index: int) -> None:
        try:
            if visit(replica.port, f"tokens={1000 + index}", page="kv_size").failed:
                failures.append(index)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def as_root(*programs: str) -> None:
    """Skip where this needs rights or programs that are not here."""
    if os.geteuid() != 0:
        missing("this needs root")
    for program in programs:
        if shutil.which(program) is None:
            missing(f"no {program} on this machine")


def test_a_disk_that_takes_nothing(start: Start) -> None:
    """No file may grow by a byte, logs and temporary files included."""
    as_root("prlimit")
    own = start(command=["prlimit", "--fsize=0", sys.executable, "serve.py"])
    answers_the_next_visitor(own)
    if pictures.available():
        assert ask(f"{own.url}/charts/crossover.svg").status in (200, 503)
    assert ask(f"{own.url}/charts/crossover.csv").status == 200
    answers_the_next_visitor(own)


def test_a_full_disk(start: Start, tmp_path: Path) -> None:
    """Home and temporary folders on a file system that is full."""
    as_root("mount", "umount")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], capture_output=True).returncode:
        missing("no right to mount here")
    try:
        with suppress(OSError):
            (tmp_path / "filler").write_bytes(b"x" * 100_000)
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "more").write_bytes(b"x" * 10_000)
        places = [f"{name}={tmp_path}" for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")]
        own = start(command=["env", *places, sys.executable, "serve.py"])
        answers_the_next_visitor(own)
        if pictures.available():
            answer = ask(f"{own.url}/charts/crossover.svg")
            assert answer.status == 200 or answer.text.startswith("pictures: "), answer.text
        answers_the_next_visitor(own)
        own.stop()
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_as_nobody_without_a_home_in_a_tree_that_cannot_be_written(start: Start) -> None:
    as_root("setpriv", "unshare", "mount")
    read_only = f"mount --bind {ROOT} {ROOT} && mount -o remount,bind,ro {ROOT} && cd {ROOT} && "
    if subprocess.run(["unshare", "-m", "sh", "-c", f"{read_only} ! touch x"], capture_output=True).returncode:
        missing("no right to mount here")
    nobody = f"env -u HOME setpriv --reuid=65534 --regid=65534 --clear-groups {sys.executable}"
    if subprocess.run(["sh", "-c", f"{nobody} -c 'import streamlit'"], capture_output=True).returncode:
        missing("another user may not run this interpreter: it lies in a folder that is closed to others")
    own = start(command=["unshare", "-m", "sh", "-c", f"{read_only}exec {nobody} serve.py"])
    answers_the_next_visitor(own)
    user = next(line for line in Path(f"/proc/{own.process.pid}/status").read_text().splitlines() if "Uid" in line)
    assert user.split()[1:] == ["65534"] * 4
    assert ask(f"{own.url}/charts/crossover.csv").status == 200
    if pictures.available():
        answer = ask(f"{own.url}/charts/crossover.svg")  # kaleido starts the interpreter anew, which may be closed
        assert answer.status == 200 or answer.text.startswith("pictures: "), answer.text


WITHOUT_NETWORK = """
import os, subprocess, sys, time
sys.path.insert(0, {root!r})
from tests.helpers.replicas import ask, visit
server = subprocess.Popen([sys.executable, "serve.py"], cwd={root!r}, env=os.environ | {{"KV_EXPLORER_PORT": "8501"}})
try:
    for _ in range(200):
        try:
            if ask("http://127.0.0.1:8501/readyz").status == 200:
                break
        except OSError:
            time.sleep(0.2)
    start = time.monotonic()
    shown = visit(8501, "tokens=2048", page="roofline")
    assert shown.charts and not shown.failed
    assert time.monotonic() - start < 20
    picture = ask("http://127.0.0.1:8501/charts/crossover.svg")
    assert picture.status == 200 or b"pictures: " in picture.body, picture.body
    print("answered")
finally:
    server.terminate()
    server.wait(20)
"""


def test_without_a_network() -> None:
    """In a network of its own that has nothing but itself."""
    as_root("unshare", "ip")
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        missing("no right to make a network here")
    script = WITHOUT_NETWORK.format(root=str(ROOT))
    ended = subprocess.run(
        ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$0" -c "$1"', sys.executable, script],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert "answered" in ended.stdout, ended.stderr[-1500:]


def test_a_signal_ends_it_within_seconds(start: Start) -> None:
    own = start()
    with visitor(own.port) as connection:
        run_script(connection, "", "roofline")
        begun = time.monotonic()
        own.process.terminate()
        assert own.process.wait(20) in (0, -15)
        assert time.monotonic() - begun < 15
    with pytest.raises(OSError, match=r"refused"):
        http.client.HTTPConnection("127.0.0.1", own.port, timeout=2).request("GET", "/")
