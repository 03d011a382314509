"""The examples of docs/hosting/, run: nginx below a path, two replicas, one of them killed."""

from __future__ import annotations

import configparser
import gzip
import http.client
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.machine import free_port, free_ports, missing, wait_for
from tests.helpers.nginx import EXAMPLES, running
from tests.helpers.replicas import HOST, ROOT, Replica, ask, visit
from tests.hosting.conftest import Start

UNIT = EXAMPLES / "kv-explorer.service"


def unit_environment() -> dict[str, str]:
    """The variables that the example unit sets for an instance."""
    lines = re.findall(r"^Environment=(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE)
    return dict(lines)


@dataclass
class Site:
    """nginx with two replicas behind it, each a server of its own: what is killed stays away."""

    port: int
    folder: Path
    replicas: tuple[Replica, ...]

    def get(self, path: str, **headers: str):
        return ask(f"http://127.0.0.1:{self.port}{path}", HOST, **headers)

    def visit(self, query: str = "", page: str = "", cookie: str = ""):
        return visit(self.port, query, page=page, path="/kv", host=HOST, cookie=cookie)


@pytest.fixture(scope="module")
def site(nginx: str, start: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("nginx")
    port, *ports = free_port(), free_port(), free_port()
    named = {name.removeprefix("KV_EXPLORER_").lower(): value for name, value in unit_environment().items()}
    settings = {name: value for name, value in named.items() if name in ("base_path", "allowed_hosts")}
    replicas = tuple(start(port=str(own), **settings) for own in ports)
    with running(nginx, folder, port, ports):
        yield Site(port, folder, replicas)


def served(site: Site, marker: str, times: int) -> list[int]:
    """How often each replica's log names a path that was asked for `times` times."""
    for _ in range(50):
        counts = [replica.log.read_text().count(marker) for replica in site.replicas]
        if sum(counts) >= times:
            break
        time.sleep(0.1)  # a line is written after the answer is sent
    return counts


def test_pages_and_links_work_below_the_path(site: Site) -> None:
    assert site.get("/kv?tokens=5").headers["location"].endswith("/kv/?tokens=5")
    page = site.get("/kv/crossover", Accept_Encoding="gzip")
    assert (page.status, page.headers["content-encoding"]) == (200, "gzip")
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    shown = site.visit("tokens=8192&gpu=h100-sxm5-80gb", page="crossover")
    assert shown.charts
    assert not shown.failed


def test_scripts_and_styles_are_compressed(site: Site) -> None:
    page = site.get("/kv/").text
    for kind in ("js", "css"):
        found = re.search(rf'(?:src|href)="\./(static/{kind}/index\.[^"]+\.{kind})"', page)
        assert found
        plain, packed = (site.get(f"/kv/{found[1]}", Accept_Encoding=taken) for taken in ("identity", "gzip"))
        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < 0.5 * len(plain.body)
        assert packed.headers["vary"] == "Accept-Encoding"
        assert "immutable" in packed.headers["cache-control"]


def test_a_visitor_stays_with_one_replica_and_visitors_are_spread(site: Site) -> None:
    cookies = [site.get("/kv/").headers["set-cookie"].split(";")[0] for _ in range(8)]
    for index, cookie in enumerate(cookies):
        for _ in range(4):
            assert "set-cookie" not in site.get(f"/kv/visitor-{index}", Cookie=cookie).headers
    counts = [served(site, f"/kv/visitor-{index} ", 4) for index in range(8)]
    assert all(sorted(count) == [0, 4] for count in counts), counts
    assert all(sum(count[side] for count in counts) > 0 for side in (0, 1)), "all eight on one replica"


@pytest.mark.parametrize(
    "path",
    ["_stcore/metrics", "kv_size/_stcore/metrics", "_stcore/agent/openapi.json", "_stcore/agent/mcp",
     "_stcore/script-health-check", "readyz", "healthz"],
)  # fmt: skip
def test_what_is_for_the_operator_is_closed(site: Site, path: str) -> None:
    assert site.get(f"/kv/{path}").status == 404


def test_a_large_body_is_refused(site: Site) -> None:
    answer = ask(
        f"http://127.0.0.1:{site.port}/kv/_stcore/upload_file/a/b", HOST, "PUT", Content_Length="10000000",
    )  # fmt: skip
    assert answer.status == 413


COSTLY = [("charts/timeline.csv", "GET", 200), ("_stcore/upload_file/a/b", "PUT", 403), ("_stcore/stream", "GET", 200)]


@pytest.mark.parametrize(("path", "method", "first"), COSTLY)
def test_what_costs_more_is_limited_for_one_address(site: Site, path: str, method: str, first: int) -> None:
    def status() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10, source_address=("127.0.0.9", 0))
        connection.request(method, f"/kv/{path}", headers={"Host": HOST})
        answer = connection.getresponse().status
        connection.close()
        return answer

    statuses = [status() for _ in range(90)]
    assert statuses[0] == first
    assert 429 in statuses
    assert ask(f"http://127.0.0.1:{site.port}/kv/{path}", HOST, method).status == first, "another address"
    wait_for(lambda: status() == first)


def test_nginx_logs_nothing_of_a_visitor(site: Site) -> None:
    def written() -> str:
        return "".join(path.read_text() for path in site.folder.glob("*.log"))

    for path in ("media/1234567.csv", "_stcore/upload_file/1234567/7654321", "roofline?tokens=777777"):
        site.get(f"/kv/{path}")
    wait_for(lambda: "/kv/roofline" in written())
    assert "/kv/media/... " in written()
    assert "/kv/_stcore/upload_file/... " in written()
    for given in ("777777", "1234567", "7654321", "127.0.0.1"):
        assert given not in written()


def test_the_other_replica_serves_the_same_link_when_one_is_killed(site: Site) -> None:
    """Last in this file: it leaves one replica."""
    query = "v=1&model=llama-2-7b&gpu=h100-sxm5-80gb&tokens=6000"
    cookie = site.get("/kv/").headers["set-cookie"].split(";")[0]
    before = site.visit(query, page="crossover", cookie=cookie)
    site.get("/kv/here", Cookie=cookie)
    mine = site.replicas[served(site, "/kv/here ", 1).index(1)]
    mine.kill()
    after = site.visit(query, page="crossover", cookie=cookie)
    assert before.charts
    assert after.charts == before.charts
    assert site.get("/kv/crossover", Cookie=cookie).status == 200


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        missing("no systemd-analyze on this machine: apt-get install systemd")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/kv-explorer", str(ROOT)))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert UNIT.name not in checked.stderr, checked.stderr


def test_the_units_command_starts_the_replicas(start: Start) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    command = shlex.split(unit["Service"]["ExecStart"])
    assert unit["Service"]["WorkingDirectory"] == "/opt/kv-explorer"
    assert command[0] == "/opt/kv-explorer/.venv/bin/python"
    settings = {
        name.removeprefix("KV_EXPLORER_").lower(): value
        for name, value in unit_environment().items()
        if name.startswith("KV_EXPLORER_")
    }
    ports = free_ports(int(settings["replicas"]))
    running = start(command=[sys.executable, *command[1:]], **settings | {"port": str(ports[0])})
    for port in ports:
        assert ask(f"http://127.0.0.1:{port}/kv/", HOST).status == 200
        assert ask(f"http://127.0.0.1:{port}/kv/", "evil.example").status == 400
    assert os.path.samefile(ROOT, f"/proc/{running.process.pid}/cwd")
