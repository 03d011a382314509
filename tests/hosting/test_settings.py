"""Settings of the hosted form: every variable checked before anything starts, in one sentence."""

import os
import re
import socket
import subprocess
import sys

import pytest

from hosting.settings import Settings, for_streamlit, read
from kvmodel.errors import CaseError
from kvmodel.hf import config_file
from kvmodel.metrics import exposition
from kvmodel.startup_log import log_reader
from kvmodel.units import MIB
from tests.helpers.replicas import ROOT


def test_without_any_variable_it_serves_this_machine() -> None:
    assert read({"PATH": "/bin", "HOME": "/"}) == Settings()
    assert Settings().hosts == ("localhost", "127.0.0.1")
    assert Settings().prefix == ""


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("PORT", "8080", "port", 8080),
        ("REPLICAS", "2", "replicas", 2),
        ("ADDRESS", "0.0.0.0", "address", "0.0.0.0"),
        ("ADDRESS", "::1", "address", "::1"),
        ("BASE_PATH", "/tools/kv/", "base_path", "tools/kv"),
        ("BASE_PATH", "/", "base_path", ""),
        ("FRAME_ANCESTORS", "none", "frame_ancestors", ("'none'",)),
        ("FRAME_ANCESTORS", "https://wiki.example.com, https://*.example.net:8443", "frame_ancestors",
         ("'self'", "https://wiki.example.com", "https://*.example.net:8443")),
        ("PICTURE_CACHE_BYTES", "0", "picture_cache_bytes", 0),
        ("LOG_LEVEL", "WARNING", "log_level", "warning"),
    ],
)  # fmt: skip
def test_what_is_taken(name: str, text: str, field: str, value: object) -> None:
    chosen = read({f"KV_EXPLORER_{name}": text, "KV_EXPLORER_ALLOWED_HOSTS": "kv.example.com,*.Example.net"})
    assert getattr(chosen, field) == value
    assert chosen.hosts[2:] == ("kv.example.com", "*.example.net")


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("PORT", "abc", "a whole number from 1 to 65,535"),
        ("PORT", "0", "a whole number from 1 to 65,535"),
        ("PORT", "٨٠", "a whole number"),
        ("ADDRESS", "localhost", "an IP address of this machine"),
        ("BASE_PATH", "../etc", "a path such as kv"),
        ("BASE_PATH", "a b", "a path such as kv"),
        ("ALLOWED_HOSTS", "http://kv.example.com", "host names without ports"),
        ("REPLICAS", "0", "a whole number from 1 to 64"),
        ("ALLOWED_HOSTS", " , ", "host names without ports"),
        ("FRAME_ANCESTORS", "*", "none, self, or origins"),
        ("FRAME_ANCESTORS", "https://a.example; script-src *", "none, self, or origins"),
        ("MAX_CONNECTIONS", "1", "a whole number from 10 to 100,000"),
        ("LOG_LEVEL", "loud", "debug, info, warning, error"),
    ],
)
def test_what_is_refused(name: str, text: str, allowed: str) -> None:
    with pytest.raises(CaseError) as refused:
        read({f"KV_EXPLORER_{name}": text})
    sentence = str(refused.value)
    assert sentence.startswith(f"KV_EXPLORER_{name}: {text[:40]!r} given; allowed: ")
    assert allowed in sentence
    assert "\n" not in sentence


def test_a_misspelt_variable_is_named_with_the_nearest() -> None:
    with pytest.raises(CaseError, match="KV_EXPLORER_PROT: no such setting; nearest: KV_EXPLORER_PORT"):
        read({"KV_EXPLORER_PROT": "8080"})


def test_an_open_address_needs_the_names_that_visitors_use() -> None:
    with pytest.raises(CaseError, match="ALLOWED_HOSTS: none given for address 0.0.0.0"):
        read({"KV_EXPLORER_ADDRESS": "0.0.0.0"})


def test_what_pages_take_passes_the_app_and_the_proxy_before_it() -> None:
    form = 10_000  # bytes of a multipart form around a file
    largest = max(exposition.LONGEST_TEXT, config_file.LARGEST_FILE_BYTES, log_reader.LONGEST_LOG)
    most = Settings().max_body_bytes
    assert largest + form <= most
    example = (ROOT / "docs" / "hosting" / "kv-explorer.nginx.conf").read_text()
    in_mib = re.search(r"client_max_body_size +(\d+)m;", example)
    assert in_mib
    assert most <= int(in_mib[1]) * MIB
    assert f"`KV_EXPLORER_MAX_BODY_BYTES` | `{most}`" in (ROOT / "docs" / "hosting.md").read_text()


def test_each_replica_has_a_port() -> None:
    assert list(read({"KV_EXPLORER_PORT": "9000", "KV_EXPLORER_REPLICAS": "3"}).ports) == [9000, 9001, 9002]
    with pytest.raises(CaseError, match="REPLICAS: 3 given, one a port from 65534 on; allowed"):
        read({"KV_EXPLORER_PORT": "65534", "KV_EXPLORER_REPLICAS": "3"})


def test_streamlit_is_told_of_path_and_hosts() -> None:
    told = for_streamlit(Settings(base_path="kv", allowed_hosts=("kv.example.com",)))
    assert told["server.baseUrlPath"] == "kv"
    assert told["server.allowedHosts"] == ["localhost", "127.0.0.1", "kv.example.com"]


def started(**environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "serve.py"], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=60
    )


def test_a_bad_setting_ends_the_start_with_its_sentence() -> None:
    ended = started(KV_EXPLORER_PORT="99999")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "KV_EXPLORER_PORT: '99999' given; allowed: a whole number from 1 to 65,535"
    assert "Traceback" not in ended.stderr


def test_a_port_in_use_ends_the_start_with_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = started(KV_EXPLORER_PORT=str(port))
    assert ended.returncode == 1
    assert f"127.0.0.1 port {port} cannot be listened on: Address already in use." in ended.stderr
    assert "Traceback" not in ended.stderr
