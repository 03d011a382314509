"""The hosted form, asked over HTTP: health, headers, hosts, charts by address, and what it logs."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from hosting import charts as by_address
from hosting import headers, health, log
from hosting.settings import Settings
from kvmodel import charts, files
from kvmodel.charts import pictures
from kvmodel.inputs.case import Case
from kvmodel.metrics import exposition
from tests.helpers.machine import free_port, missing, wait_for
from tests.helpers.replicas import ROOT, Replica, ask, in_a_loop, visit
from tests.hosting.conftest import Start

MOST = Settings().max_body_bytes
SECURITY = {
    "x-content-type-options": "nosniff", "referrer-policy": "same-origin", "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "x-frame-options": "SAMEORIGIN",
}  # fmt: skip


def test_health_and_readiness(replica: Replica) -> None:
    assert ask(f"{replica.url}/healthz").text == "ok"
    ready = ask(f"{replica.url}/readyz")
    assert ready.status == 200
    assert json.loads(ready.body)["ready"] is True
    assert ready.headers["cache-control"] == "no-store"


def test_readiness_names_what_fails() -> None:
    def broken() -> None:
        raise OSError("a path nobody has to know")

    answer = in_a_loop(health.Readiness({"catalog": health.read_catalog, "disk": broken}).answer(None))  # type: ignore[arg-type]
    assert answer.status_code == 503
    assert json.loads(bytes(answer.body))["failed"] == {"disk": "OSError"}
    assert b"nobody" not in bytes(answer.body)


def test_readiness_notices_a_catalog_that_cannot_be_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "Case", lambda: Case(model="llama-3-70b", gpu="l4"))
    answer = in_a_loop(health.Readiness(health.checks(ROOT)).answer(None))  # type: ignore[arg-type]
    assert json.loads(bytes(answer.body))["failed"] == {"default_case": "DoesNotFit"}


@pytest.mark.parametrize("path", ["/", "/kv_size", "/charts/timeline.csv", "/charts/none.csv", "/static/none.js"])
def test_every_answer_has_the_security_headers(replica: Replica, path: str) -> None:
    sent = ask(replica.url + path).headers
    policy = re.sub(r"'sha256-[\w+/=]{44}'", "HASH", sent["content-security-policy"])
    assert policy == (
        "default-src 'self'; script-src 'self' blob: HASH; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self' blob: data:; "
        "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    )
    assert {name: sent[name] for name in SECURITY} == SECURITY
    assert "server" not in sent


def test_frame_ancestors_follow_the_setting() -> None:
    listed = headers.security_headers(("'self'", "https://wiki.example.com"), ())
    assert listed["Content-Security-Policy"].endswith("frame-ancestors 'self' https://wiki.example.com")
    assert "X-Frame-Options" not in listed, "it cannot name an origin"
    assert headers.security_headers(("'none'",), ())["X-Frame-Options"] == "DENY"


def test_the_hash_of_an_inline_script_is_the_one_browsers_compute() -> None:
    # echo -n 'alert(1)' | openssl dgst -sha256 -binary | base64
    page = "<script>alert(1)</script><script src='x.js'></script>"
    assert headers.inline_scripts(page) == ["'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"]


@pytest.mark.parametrize(
    ("host", "status"), [("127.0.0.1", 200), ("localhost:9", 200), ("evil.example", 400), ("", 400)]
)
def test_only_known_hosts_are_answered(replica: Replica, host: str, status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=10)
    connection.putrequest("GET", "/", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    assert connection.getresponse().status == status
    connection.close()


def test_no_path_leads_out_of_the_folder(replica: Replica) -> None:
    for path in (
        "/static/../../../../etc/passwd",
        "/static/%2e%2e/%2e%2e/index.html",
        "//etc/passwd",
        "/app/static/../../app.py",
    ):
        connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=10)
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (301, 400, 404), path
        assert b"root:" not in body
        connection.close()


def test_small_answers_are_sent_at_once(replica: Replica) -> None:
    """Nagle's delay would show as 40 ms on some of the answers that are sent in two pieces, however often one tries."""
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=10)
    medians = []
    while not medians or medians[-1] >= 0.035:
        assert len(medians) < 10, medians
        times = []
        for _ in range(30):
            start = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            times.append(time.perf_counter() - start)
        medians.append(sorted(times)[15])
    connection.close()


def test_a_body_without_announced_length_is_cut_off(replica: Replica) -> None:
    with socket.create_connection(("127.0.0.1", replica.port), timeout=10) as opened:
        opened.sendall(
            b"PUT /_stcore/upload_file/a/b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        try:
            for _ in range(2 * MOST // len(chunk)):
                opened.sendall(chunk)
            assert b"HTTP/1.1 2" not in opened.recv(200)
        except (ConnectionError, TimeoutError):
            pass
    assert ask(f"{replica.url}/healthz").status == 200


def test_an_announced_body_that_is_too_large_is_refused(replica: Replica) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=10)
    connection.putrequest("PUT", "/_stcore/upload_file/a/b")
    connection.putheader("Content-Length", str(MOST + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_the_largest_scrape_that_a_page_takes_may_be_uploaded(replica: Replica) -> None:
    size = exposition.LONGEST_TEXT + 1000  # of the form around it
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=30)
    connection.request("PUT", "/_stcore/upload_file/a/b", b"x" * size)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 403, "no session of that name: the app itself has answered"


def test_one_drawing_at_a_time_on_the_machine() -> None:
    """As between two replicas: each opens the file for itself."""
    order: list[str] = []

    def other() -> None:
        with by_address.alone_on_this_machine():
            order.append("second")

    thread = threading.Thread(target=other)
    with by_address.alone_on_this_machine():
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


class TestChartsByAddress:
    def test_the_csv_is_that_of_the_shell_and_of_a_notebook(self, replica: Replica, tmp_path: Path) -> None:
        answer = ask(f"{replica.url}/charts/crossover.csv?model=llama-2-7b&tokens=3000")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        file = tmp_path / "crossover.csv"
        command = ["-m", "kvmodel", "chart", "crossover", "--model", "llama-2-7b", "--tokens", "3000", "-o", str(file)]
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True)
        assert answer.body == file.read_bytes()
        in_python = charts.points("crossover", Case(model="llama-2-7b", tokens=3000))
        assert answer.text == files.as_csv(in_python), "a notebook has the same"

    @pytest.mark.parametrize(
        ("address", "sentence"),
        [
            ("crossover.csv?tokens=x", "tokens: 'x' given; allowed: a whole number from 1 to 10,000,000"),
            ("crossover.csv?tokens=5&tokens=6", "tokens: given twice; allowed: once"),
            ("crossover.csv?colour=red", "colour: no such input; allowed: model, "),
            ("crossover.csv?v=9", "v: '9' given; allowed: 1"),
            ("crossover.csv?model=llama-3-70b&gpu=l4", "model: llama-3-70b needs"),
            ("pie.svg", "chart: 'pie' given; allowed: timeline, "),
            ("crossover.gif", "chart: 'crossover.gif' given; allowed: .svg, .png, .csv files"),
            ("crossover", "chart: 'crossover' given; allowed: .svg, .png, .csv files"),
            ("%3Cscript%3E.svg", "chart: '<script>' given; allowed: "),
        ],
    )
    def test_wrong_parameters_get_400_and_one_sentence(self, replica: Replica, address: str, sentence: str) -> None:
        answer = ask(f"{replica.url}/charts/{address}")
        assert answer.status == 400
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.text.startswith(sentence)
        assert answer.text.count("\n") == 1

    def test_a_picture_is_drawn_once_and_kept(self, replica: Replica) -> None:
        if not pictures.available():
            missing("no kaleido, Chrome or Chromium on this machine")
        url = f"{replica.url}/charts/block-size.svg?tokens=5000"
        start = time.perf_counter()
        first = ask(url)
        drawn_s = time.perf_counter() - start
        assert first.status == 200, first.text
        assert first.headers["content-type"].startswith("image/svg+xml")
        assert first.body.startswith(b"<svg")
        start = time.perf_counter()
        again = ask(f"{replica.url}/charts/block-size.svg?v=1&tokens=5000&model=llama-3-8b")
        assert again.body == first.body
        assert time.perf_counter() - start < 0.5 * drawn_s, "the same Case in other words is the same picture"
        assert ask(url, If_None_Match=first.headers["etag"]).status == 304

    def test_a_png_has_twice_the_pixels(self, replica: Replica) -> None:
        if not pictures.available():
            missing("no kaleido, Chrome or Chromium on this machine")
        body = ask(f"{replica.url}/charts/timeline.png").body
        width, height = struct.unpack(">II", body[16:24])
        assert width == 2 * pictures.WIDTH_PX
        assert height == 2 * charts.draw("timeline", Case()).layout.height
        assert zlib.crc32(body[12:29]) == struct.unpack(">I", body[29:33])[0]

    def test_without_a_browser_there_is_a_sentence_and_the_table(self, start: Start) -> None:
        without = start(command=["env", "BROWSER_PATH=/none", sys.executable, "serve.py"])
        answer = ask(f"{without.url}/charts/crossover.svg")
        assert answer.status == 503
        assert answer.text.startswith("pictures: no Chrome or Chromium")
        assert ask(f"{without.url}/charts/crossover.csv").status == 200

    def test_drawings_that_wait_are_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def slow(name: str, suffix: str, case: Case) -> bytes:
            time.sleep(0.1)
            return b"drawn"

        monkeypatch.setattr(by_address, "drawn", slow)

        async def asked_at_once() -> list[int]:
            shared = by_address.Charts(1000)
            requests = [request_for(f"tokens={tokens}") for tokens in (*range(1, 13), 1, 1)]
            return [answer.status_code for answer in await asyncio.gather(*map(shared.answer, requests))]

        statuses = in_a_loop(asked_at_once())
        assert statuses == [200] * 8 + [503] * 4 + [200, 200], "those who ask for the same wait together"

    def test_the_least_recently_used_goes_first(self) -> None:
        kept = by_address.Kept(10)
        kept.put("a", b"1234")
        kept.put("b", b"5678")
        assert kept.get("a")
        kept.put("c", b"9012")
        assert (kept.get("a"), kept.get("b"), kept.get("c")) == (b"1234", None, b"9012")
        kept.put("large", b"x" * 11)
        assert kept.get("large") is None


def request_for(query: str):
    from starlette.requests import Request

    return Request(
        {"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": [],
         "path_params": {"file": "crossover.csv"}}
    )  # fmt: skip


def test_logs_hold_paths_but_nothing_of_what_a_visitor_gave(start: Start) -> None:
    own = start()
    ask(f"{own.url}/charts/crossover.csv?tokens=424242&model=secret-model", Referer="https://secret.example/")
    ask(f"{own.url}/roofline?tokens=424242")
    visit(own.port, "tokens=424242&model=secret-model&foo=secret", page="roofline")
    wait_for(lambda: "GET /roofline 200" in own.log.read_text())
    ask(f"{own.url}/_stcore/upload_file/secret-session/secret-file", method="PUT")
    ask(f"{own.url}/media/secret.csv")
    ask(f"{own.url}/kv_size")
    wait_for(lambda: "GET /kv_size 200" in own.log.read_text())  # what came before it is written
    written = own.log.read_text()
    assert "GET /charts/crossover.csv 400" in written
    assert "PUT /_stcore/upload_file/... 403" in written
    assert "GET /media/... 404" in written
    assert "127.0.0.1" not in written.replace(f"serving on {own.url}/", "")
    for given in ("424242", "secret"):
        assert given not in written


def test_an_exception_is_logged_without_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.getLogRecordFactory()
    try:
        log.set_up("info")
        logger = logging.getLogger("hosting.requests")
        try:
            int("what a visitor wrote")
        except ValueError:
            logger.exception("a page failed")
    finally:
        logging.setLogRecordFactory(before)
    written = capsys.readouterr().err
    assert "ValueError" in written
    assert "test_hosted.py" in written
    assert "what a visitor wrote" not in written.replace('int("what a visitor wrote")', "")


def test_one_line_a_request_whatever_its_path(replica: Replica) -> None:
    ask(f"{replica.url}/a%0Afaked%20INFO%20line")
    wait_for(lambda: "faked" in replica.log.read_text())
    assert not any(line.startswith("faked") for line in replica.log.read_text().splitlines())


def test_streamlit_run_starts_the_same(start: Start) -> None:
    port = free_port()
    own = start(
        port=str(port),
        command=[sys.executable, "-m", "streamlit", "run", "serve.py", "--server.address=127.0.0.1",
                 f"--server.port={port}"],
    )  # fmt: skip
    assert ask(f"{own.url}/charts/timeline.csv").status == 200
    assert "frame-ancestors" in ask(f"{own.url}/").headers["content-security-policy"]
