"""A Prometheus over HTTP: what goes wrong is a sentence, and a real one that scrapes the samples gives their answer."""

import base64
import itertools
import json
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kvmodel.cli import command_line
from kvmodel.diagnosis import from_prometheus
from kvmodel.errors import CaseError
from kvmodel.metrics import prometheus_http
from tests.helpers.machine import free_port
from tests.helpers.scrapes import program, sample, vllm

START_S, STOP_S, SCRAPED_S = 30, 10, 30


@contextmanager
def answering(reply):
    """An HTTP server on loopback; `reply(path, headers)` gives status, content type and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("Content-Length", 0))
            self.rfile.read(length)
            status, kind, body = reply(self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if 300 <= status < 400:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(STOP_S)


def as_json(data, status=200):
    return lambda *_: (status, "application/json", json.dumps(data).encode())


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(prometheus_http.TOKEN, raising=False)


# --- what goes wrong ---


def test_nothing_listens():
    with pytest.raises(
        CaseError, match=r"^prometheus: http://127.0.0.1:\d+ refused the connection: nothing listens there$"
    ):
        from_prometheus.diagnose(f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (as_json({}, 401), "asks for credentials (401)"),
        (as_json({}, 403), "asks for credentials (403)"),
        (as_json({}, 404), "has no Prometheus API at that path (404)"),
        (as_json({}, 302), "redirects are not followed"),
        (as_json({"status": "error", "error": "query timed out"}, 503), "refused the question (503): query timed out"),
        (as_json(["not", "an", "object"], 500), "answered with status 500"),
        (lambda *_: (200, "text/html", b"<html>hello</html>"), "does not answer as a Prometheus does"),
        (as_json({"status": "success"}), "does not answer as a Prometheus does"),
        (as_json({"status": "error", "error": "too many\nsamples"}), "refused the question (200): too many samples"),
        (as_json({"data": None}), "does not answer as a Prometheus does"),
        (as_json({"data": {"result": []}}), "does not answer as a Prometheus does"),
        (as_json({"data": {"result": ["x"]}}), "does not answer as a Prometheus does"),
        (as_json({"data": {"result": [1e9]}}), "does not answer as a Prometheus does"),
        (lambda *_: (200, "application/json", b"[" * 200_000), "does not answer as a Prometheus does"),
        (lambda *_: (500, "application/json", b"[" * 200_000), "answered with status 500"),
        (lambda *_: (200, "application/json", b" " * (33 << 20)), "has too many series for one answer"),
    ],
)  # fmt: skip
def test_an_error_is_a_sentence(reply, sentence):
    with answering(reply) as url, pytest.raises(CaseError) as raised:
        from_prometheus.diagnose(url)
    assert str(raised.value).startswith(f"prometheus: {url} ")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_server_that_hangs(monkeypatch):
    monkeypatch.setattr(prometheus_http, "ANSWER_S", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(CaseError, match=r"did not answer within 0.2 s"):
        from_prometheus.diagnose(f"http://127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"])
def test_a_server_that_drips(start, monkeypatch):
    """A byte now and then keeps a socket's own timeout from running out."""
    monkeypatch.setattr(prometheus_http, "ANSWER_S", 0.5)
    ended = threading.Event()

    def drip(listening):
        with suppress(OSError):
            client, _ = listening.accept()
            with client:
                client.sendall(start)
                while not ended.wait(0.05):
                    client.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        begun = time.monotonic()
        with pytest.raises(CaseError, match=r"did not answer within 0.5 s"):
            from_prometheus.diagnose(f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert time.monotonic() - begun < 3
        ended.set()
        thread.join(STOP_S)


@pytest.mark.parametrize(
    "series", [None, "x", {}, {"metric": []}, {"metric": {"a": 1}, "value": [1, "1"]}, {"metric": {}, "value": "ab"}]
)
def test_a_vector_of_something_else(series):
    def reply(path, _):
        if path.endswith("query"):
            data = {"resultType": "vector", "result": [1_780_000_000, series]}
        else:
            data = ["vllm:num_requests_running", 'vllm:x"} or up', None]
        return 200, "application/json", json.dumps({"data": data}).encode()

    with answering(reply) as url, pytest.raises(CaseError, match="does not answer as a Prometheus does"):
        from_prometheus.diagnose(url)


def test_a_number_beyond_all_numbers_is_not_reported():
    def reply(path, _):
        name = "vllm:num_requests_running"
        if path.endswith("query"):
            series = {"metric": {from_prometheus.SERIES: name}, "value": [1, "1e999"]}
            vector = {"resultType": "vector", "result": [series]}
            data = vector if next(asked) else {"result": [1_780_000_000, "0"]}
        else:
            data = [name]
        return 200, "application/json", json.dumps({"data": data}).encode()

    asked = itertools.count()
    with answering(reply) as url:
        assert from_prometheus.diagnose(url)["verdict"] == "not an engine"


def test_no_such_series():
    def reply(path, _):
        data = {"resultType": "scalar", "result": [1_780_000_000, "0"]} if path.endswith("query") else ["up", "go_info"]
        return (
            200,
            "application/json",
            json.dumps({"status": "success", "data": data if "query" in path else []}).encode(),
        )

    with (
        answering(reply) as url,
        pytest.raises(CaseError, match="has no series of vLLM, .* in the last 2h"),
    ):
        from_prometheus.diagnose(url, "2h")


@pytest.mark.parametrize(
    "url",
    ["", "prom:9090", "file:///etc/passwd", "ftp://prom", "http://", "http://prom:port", "http://prom?x=1",
     "http://a b", "gopher://x:1", "http://[::1", "http://" + 64 * "a", "http://a..b"],
)  # fmt: skip
def test_what_is_no_address(url):
    with pytest.raises(CaseError, match=r"^prometheus: .* given; allowed: an address such as http://localhost:9090$"):
        prometheus_http.address(url)


def test_credentials_go_into_a_header_and_never_into_a_message(monkeypatch):
    seen = []

    def reply(path, headers):
        seen.append((path, headers.get("Authorization")))
        return 401, "text/plain", b""

    with answering(reply) as url:
        host = url.removeprefix("http://")
        with pytest.raises(CaseError) as raised:
            from_prometheus.diagnose(f"http://sre:s%40cret@{host}/prefix/")
        assert "cret" not in str(raised.value)
        assert f"http://{host}/prefix " in str(raised.value)
        monkeypatch.setenv(prometheus_http.TOKEN, "abc")
        with pytest.raises(CaseError):
            from_prometheus.diagnose(url)
    assert seen[0] == ("/prefix/api/v1/query", "Basic " + base64.b64encode(b"sre:s@cret").decode())
    assert seen[1] == ("/api/v1/query", "Bearer abc")


def test_a_refused_address_does_not_show_its_password():
    with pytest.raises(CaseError) as raised:
        prometheus_http.address("http://sre:secret@prom:port")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), ("1w", 604_800)]
)
def test_windows(text, seconds):
    assert prometheus_http.window_s(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "1 h", "-1h", "0s", "1y", "100d", "1h]", "9" * 400 + "h"])
def test_what_is_no_window(text):
    with pytest.raises(CaseError, match=r"^window: .* given; allowed: such as 15m, 1h or 2d, up to 90d$"):
        prometheus_http.window_s(text)


@pytest.mark.parametrize(
    ("match", "selector"),
    [(None, ""), ('job="a"', ',job="a"'), ('{job="a", pod=~"b.*"}', ',job="a",pod=~"b.*"'), ('a!="x,y"', ',a!="x,y"')],
)
def test_matchers(match, selector):
    assert from_prometheus.label_matchers(match) == selector


@pytest.mark.parametrize(
    "match", ["job", "job=a", 'job="a"} or up{x="', 'job="a";b="c"', '"a"="b"', 'job="a" or b="c"']
)
def test_what_is_no_matcher(match):
    with pytest.raises(CaseError, match=r"^match: "):
        from_prometheus.label_matchers(match)


def test_the_servers_that_a_page_may_ask():
    assert prometheus_http.configured_servers({}) == {}
    listed = {prometheus_http.SERVERS: "main=http://prom:9090/p https://other.example:9"}
    assert prometheus_http.configured_servers(listed) == {
        "main": "http://prom:9090/p", "other.example": "https://other.example:9",
    }  # fmt: skip
    with pytest.raises(CaseError, match="prometheus: 'file:///x' given"):
        prometheus_http.configured_servers({prometheus_http.SERVERS: "x=file:///x"})


# --- a real Prometheus ---

JOBS = {  # job: the page before and the page after the middle of the window
    "rate": (sample("composed_abs_vs_rate_t0"), sample("composed_abs_vs_rate_t1")),
    "burst": (sample("vllm_0_33_classes_mid"), sample("vllm_0_33_classes_end")),
    "sglang": (sample("sglang_dp8_retracted_excerpt"),) * 2,
    "router": (sample("router_no_preemption_counter"),) * 2,
    "python": (sample("python_only_three_digit_exponent"),) * 2,
    "pressed": tuple(
        (
            vllm(running=60, waiting=2, usage=0.97, preemptions=500 + more, finished=5000 + 3 * more)
            + vllm(engine="1", finished=900 + more)
        ).encode()
        for more in (0, 400)
    ),
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """The address of a Prometheus that has scraped each page of JOBS several times."""
    binary = program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    later = threading.Event()

    def reply(path, _):
        return 200, "text/plain; version=0.0.4", JOBS[path.strip("/")][later.is_set()]

    with answering(reply) as exporter:
        target = exporter.removeprefix("http://")
        jobs = [{"job_name": job, "metrics_path": f"/{job}", "static_configs": [{"targets": [target]}]} for job in JOBS]
        config = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"}, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        port = free_port()
        command = [
            binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        log = folder / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: scrapes(url) >= 4, server, log)
            later.set()
            wait_for(lambda: scrapes(url) >= 10, server, log)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait(STOP_S)


def wait_for(done, server, log):
    deadline = time.monotonic() + START_S + SCRAPED_S
    while not done():
        if server.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"Prometheus did not get there:\n{log.read_text()}")
        time.sleep(0.1)


def scrapes(url):
    """How often the job that was scraped least was scraped."""
    try:
        found = prometheus_http.query(prometheus_http.address(url), "count_over_time(up[1h])")
    except CaseError:
        return 0
    return min((float(series["value"][1]) for series in found), default=0) if len(found) == len(JOBS) else 0


def test_two_preemptions_in_a_thousand_are_no_incident(prometheus):
    answer = from_prometheus.diagnose(prometheus, "1m", match='job="rate"')
    assert answer["preemptions_per_100"] == pytest.approx(0.2, rel=1e-3)
    assert answer["rates"]["finished"] == pytest.approx(1000, rel=0.25)  # increase() extrapolates to the window's ends
    assert answer["verdict"] == "healthy"
    assert answer["over"] == f"the last 1m of {prometheus}"
    assert answer["era"] == "V1"
    assert not answer["lifetime"]


def test_the_end_of_a_burst_has_too_little_data(prometheus):
    answer = from_prometheus.diagnose(prometheus, "1m", match='job="burst"')
    assert answer["verdict"] == "too little data"
    assert answer["versions"] == "0.32.0 or newer"
    assert answer["state"]["pool_tokens"] == 11_200
    assert answer["preemptions_per_100"] == 0
    assert 0 < answer["state"]["running"] < 16  # the mean of 16 before and 0 after
    assert answer["rates"]["ttft_s"]["p50"] == pytest.approx(6.25, rel=0.01)


def test_the_pressed_one_of_two_engines_is_found(prometheus):
    answer = from_prometheus.diagnose(prometheus, "1m", match='job="pressed"')
    assert answer["verdict"] == "preemption pressure"
    assert answer["reason"].startswith("engine 0: 33 preemptions per 100")
    assert {row["name"]: row["verdict"] for row in answer["engines"]} == {
        "engine 0": "preemption pressure", "engine 1": "healthy",
    }  # fmt: skip
    assert answer["preemptions_per_100"] == pytest.approx(25, rel=1e-3)  # 400 of 1,600


def test_what_is_no_engine_is_said(prometheus):
    assert from_prometheus.diagnose(prometheus, "1m", match='job="router"')["verdict"] == "not an engine"
    answer = from_prometheus.diagnose(prometheus, "1m", match='job="sglang"')
    assert (answer["engine"], answer["preemptions_per_100"]) == ("sglang", None)
    assert answer["ranks"] == {"seen": [4, 5, 6, 7], "at_least": 8}
    with pytest.raises(CaseError, match=r"has no series of .* with job=\"python\""):
        from_prometheus.diagnose(prometheus, "1m", match='job="python"')


def test_the_command_line_asks_it(prometheus, capsys):
    line = ["diagnose", "--prometheus", prometheus, "--window", "1m", "--match", 'job="pressed"', "--json"]
    assert command_line.main(line) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "preemption pressure"
    assert {"engine", "era", "preemptions_per_100", "advice"} <= set(answer)


def test_the_generated_expressions_have_results_there(prometheus, capsys):
    assert (
        command_line.main(["rules", "--prometheus", prometheus, "--window", "1m", "--match", 'job="burst"', "--json"])
        == 0
    )
    promql = json.loads(capsys.readouterr().out)["promql"]
    address = prometheus_http.address(prometheus)
    for what, expression in promql.items():
        assert prometheus_http.query(address, expression.replace("[1h]", "[1m]").replace("[5m]", "[1m]")), what


def test_a_question_it_refuses_is_a_sentence(prometheus):
    with pytest.raises(CaseError, match=r"refused the question \(400\): invalid parameter"):
        prometheus_http.query(prometheus_http.address(prometheus), "sum(")


def test_health_needs_no_proxy(prometheus):
    with urllib.request.urlopen(f"{prometheus}/-/healthy", timeout=5) as answer:
        assert answer.status == 200
