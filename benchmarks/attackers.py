"""Attacks on the hosted form, each by one visitor from one address: `python -m benchmarks.attackers NAME PORT SECONDS`.

They are what benchmarks.attacks runs beside its visitors, on this machine alone.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.load import run
from benchmarks.pages import asked

HOST, FROM = "kv.example.com", "127.0.0.7"
Attack = Callable[[int, float], Awaitable[None]]
BOUNDARY = "part"
PASTES = {
    "log": "KV Cache is allocated. " * 40_000,
    "labels": "vllm:num_requests_running{" + ",".join(f'a{i}="b"' for i in range(80_000)) + "} 1\n",
    "scrape": '# TYPE vllm:x counter\nvllm:x{model_name="m",engine="0"} 1\n' * 16_000,
}


def replica_cookie(number: int) -> str:
    """nginx's own, by which it chooses a replica, and Streamlit's."""
    own = hashlib.sha256(str(number).encode()).digest()[:16]
    return f"kv_replica={base64.b64encode(own).decode()}; _streamlit_xsrf=2|00000000|{own.hex()}|1"


@asynccontextmanager
async def session(port: int, number: int = 0) -> Any:
    async with connect(
        f"ws://{HOST}/kv/_stcore/stream", host="127.0.0.1", port=port, max_size=None, compression=None,
        additional_headers={"Cookie": replica_cookie(number)}, local_addr=(FROM, 0), open_timeout=30,
    ) as connection:  # fmt: skip
        yield connection


async def request(port: int, head: str, body: bytes = b"") -> bytes:
    """One request over a connection of its own; the status line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(FROM, 0))
    writer.write(f"{head}\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode() + body)
    try:
        line = await asyncio.wait_for(reader.readline(), 30)
        await asyncio.wait_for(reader.read(), 30)
        return line
    finally:
        writer.close()


async def over_and_over(port: int, seconds: float, at_once: int, one: Callable[[int], Awaitable[Any]]) -> None:
    """`at_once` clients that do the same until the time is over, whatever they get."""
    until_s = time.monotonic() + seconds

    async def client(number: int) -> None:
        while time.monotonic() < until_s:
            with suppress(Exception):
                await asyncio.wait_for(one(number), max(0.1, until_s - time.monotonic()))
            await asyncio.sleep(0.01)

    await asyncio.gather(*map(client, range(at_once)))


# --- texts ---


async def pasted(connection: ClientConnection, text: str) -> None:
    """Paste a text on the Diagnose page and ask."""
    _, messages = await run(connection, "diagnose", WidgetStates())
    states = WidgetStates()
    for message in messages:
        element = message.delta.new_element
        if element.WhichOneof("type") == "text_area" and not any(each.string_value for each in states.widgets):
            states.widgets.add(id=element.text_area.id, string_value=text)
        if element.WhichOneof("type") == "button" and element.button.is_form_submitter:
            states.widgets.add(id=element.button.id, trigger_value=True)
    while True:
        await run(connection, "diagnose", states)


def pasting(name: str) -> Attack:
    async def attack(port: int, seconds: float) -> None:
        async def one(number: int) -> None:
            async with session(port, number) as connection:
                await pasted(connection, PASTES[name])

        await over_and_over(port, seconds, 4, one)

    return attack


async def a_file_address(connection: ClientConnection, count: int = 1) -> str:
    message = BackMsg()
    message.file_urls_request.request_id = "1"
    message.file_urls_request.file_names.extend(["a"] * count)
    await connection.send(message.SerializeToString())
    while True:
        answer = ForwardMsg.FromString(await connection.recv())
        if answer.WhichOneof("type") == "file_urls_response":
            return answer.file_urls_response.file_urls[0].upload_url


async def put(port: int, path: str, content: bytes, number: int) -> bytes:
    start = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n'.encode()
    body = start + content + f"\r\n--{BOUNDARY}--\r\n".encode()
    token = replica_cookie(number).rpartition("=")[2]
    head = (
        f"PUT {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\nCookie: {replica_cookie(number)}\r\n"
        f"X-Xsrftoken: {token}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}"
    )
    return await request(port, head, body)


async def uploads(port: int, seconds: float) -> None:
    """Files of 8 MB, as many as are taken, each for an id that the page asked for."""

    async def one(number: int) -> None:
        async with session(port, number) as connection:
            await run(connection, "diagnose", WidgetStates())
            while True:
                await put(port, await a_file_address(connection), b"x" * 8_000_000, number)

    await over_and_over(port, seconds, 8, one)


async def uploads_unasked(port: int, seconds: float) -> None:
    """Files for ids that nobody asked for, in a session that is one's own."""

    async def one(number: int) -> None:
        async with session(port, number) as connection:
            await run(connection, "diagnose", WidgetStates())
            path = await a_file_address(connection)
            while True:
                await put(port, f"{path}{random.random()}", b"x" * 8_000_000, number)

    await over_and_over(port, seconds, 8, one)


async def upload_and_ask(port: int, seconds: float, content: bytes) -> None:
    """A file for the first input, and the question, over and over."""

    async def one(number: int) -> None:
        async with session(port, number) as connection:
            _, messages = await run(connection, "diagnose", WidgetStates())
            states = WidgetStates()
            for message in messages:
                group = message.delta.new_element.button_group
                if "upload" in str(group).lower():
                    states.widgets.add(id=group.id).string_array_value.data.append(group.options[1].content)
            _, messages = await run(connection, "diagnose", states)
            path = await a_file_address(connection)
            await put(port, path, content, number)
            for message in messages:
                element = message.delta.new_element
                if element.WhichOneof("type") == "file_uploader" and len(states.widgets) < 2:
                    info = states.widgets.add(id=element.file_uploader.id).file_uploader_state_value
                    info.uploaded_file_info.add(file_id=path.rsplit("/", 1)[1], name="a", size=len(content))
                if element.WhichOneof("type") == "button" and element.button.is_form_submitter:
                    states.widgets.add(id=element.button.id, trigger_value=True)
            while True:
                await run(connection, "diagnose", states)

    await over_and_over(port, seconds, 4, one)


async def large_scrapes(port: int, seconds: float) -> None:
    await upload_and_ask(port, seconds, (PASTES["scrape"] * 8).encode()[:8_000_000])


async def gzip_members(port: int, seconds: float) -> None:
    await upload_and_ask(port, seconds, gzip.compress(b"", mtime=0) * 390_000)


# --- messages ---


async def sending(port: int, seconds: float, message: BackMsg) -> None:
    """The same message over and over, a hundred times a second."""

    async def one(number: int) -> None:
        async with session(port, number) as connection:
            await connection.send(asked("", WidgetStates()))
            while True:
                await connection.send(message.SerializeToString())
                await asyncio.sleep(0.01)

    await over_and_over(port, seconds, 4, one)


async def cache_clearing(port: int, seconds: float) -> None:
    message = BackMsg()
    message.clear_cache = True
    await sending(port, seconds, message)


async def file_names(port: int, seconds: float) -> None:
    message = BackMsg()
    message.file_urls_request.file_names.extend(["x"] * 100_000)
    await sending(port, seconds, message)


async def simulations(port: int, seconds: float) -> None:
    """Another seed at every run, of the largest number of requests."""

    async def one(number: int) -> None:
        async with session(port, number) as connection:
            _, messages = await run(connection, "pressure", WidgetStates())
            ids = [message.delta.new_element.number_input.id for message in messages]
            states = WidgetStates()
            states.widgets.add(id=next(each for each in ids if each.endswith("-requests")), int_value=1000)
            seed = states.widgets.add(id=next(each for each in ids if each.endswith("-seed")))
            while True:
                seed.int_value = random.randint(1, 1_000_000)
                await run(connection, "pressure", states)

    await over_and_over(port, seconds, 4, one)


async def reruns(port: int, seconds: float) -> None:
    """The heaviest page, run again as soon as it has run."""

    async def one(number: int) -> None:
        async with session(port, number) as connection:
            while True:
                await run(connection, "pressure", WidgetStates())

    await over_and_over(port, seconds, 4, one)


async def many_sessions(port: int, seconds: float) -> None:
    """Sessions that are opened and left."""

    async def one(number: int) -> None:
        async with session(port, number) as connection:
            await run(connection, "crossover", WidgetStates())

    await over_and_over(port, seconds, 20, one)


# --- requests ---


async def pictures(port: int, seconds: float) -> None:
    async def one(number: int) -> None:
        await request(port, f"GET /kv/charts/crossover.svg?tokens={random.randint(1, 100_000)} HTTP/1.1")

    await over_and_over(port, seconds, 20, one)


async def tables(port: int, seconds: float) -> None:
    async def one(number: int) -> None:
        await request(port, f"GET /kv/charts/crossover.csv?tokens={random.randint(1, 100_000)} HTTP/1.1")

    await over_and_over(port, seconds, 20, one)


async def idle(port: int, seconds: float) -> None:
    """Connections that ask for nothing, as many as one process may open."""
    opened = []
    with suppress(OSError):
        for _ in range(1500):
            opened.append(await asyncio.open_connection("127.0.0.1", port, local_addr=(FROM, 0)))
    await asyncio.sleep(seconds)
    for _, writer in opened:
        writer.close()


async def requests(port: int, seconds: float) -> None:
    async def one(number: int) -> None:
        await request(port, f"GET /kv/?tokens={random.randint(1, 100_000)} HTTP/1.1")

    await over_and_over(port, seconds, 50, one)


ATTACKS: dict[str, Attack] = {
    "none": lambda port, seconds: asyncio.sleep(seconds),
    **{f"paste_{name}": pasting(name) for name in PASTES},
    **{
        each.__name__: each
        for each in (
            uploads, uploads_unasked, large_scrapes, gzip_members, cache_clearing, file_names, simulations,
            reruns,             many_sessions, pictures, tables, idle, requests,
        )
    },
}  # fmt: skip

if __name__ == "__main__":
    os.nice(10)  # in the world it has a machine of its own
    threading.Timer(float(sys.argv[3]) + 1, os._exit, (0,)).start()  # whatever a client still waits for
    asyncio.run(ATTACKS[sys.argv[1]](int(sys.argv[2]), float(sys.argv[3])))
