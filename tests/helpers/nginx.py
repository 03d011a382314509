"""The example configuration of nginx on this machine's ports."""

from __future__ import annotations

import getpass
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "hosting"
START_S, STOP_S = 10, 10
AROUND = """
user {user}; daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@contextmanager
def running(program: str, folder: Path, port: int, replicas: Sequence[int]) -> Iterator[None]:
    """The example as it stands, but for ports and the folder of the logs, while the block runs."""
    folder.chmod(0o755)
    example = (EXAMPLES / "kv-explorer.nginx.conf").read_text()
    places = {"listen      80;": f"listen 127.0.0.1:{port};", "/var/log/nginx/": f"{folder}/"}
    places["/var/cache/nginx-kv-explorer"] = f"{folder}/cache"
    places |= {f"127.0.0.1:{8501 + at} max_fails": f"127.0.0.1:{own} max_fails" for at, own in enumerate(replicas)}
    for written, here in places.items():
        assert written in example
        example = example.replace(written, here)
    (folder / "site.conf").write_text(example)
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder, user=getpass.getuser()))
    with (folder / "start.log").open("wb") as log:
        process = subprocess.Popen([program, "-c", str(folder / "nginx.conf")], stderr=log)
    try:
        wait_until_it_answers(process, port, folder / "start.log")
        yield
    finally:
        process.terminate()
        process.wait(STOP_S)


def wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end_s = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.1)
        else:
            return
