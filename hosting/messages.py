"""Which messages of a visitor reach Streamlit, and how fast: those that pages of this app send, with possible values.

Streamlit takes any message of its protocol from anyone, as fast as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.types import Message, Receive, Send
from streamlit.proto.BackMsg_pb2 import BackMsg

from hosting.pace import Pace
from kvmodel.units import MB

# The others clear everybody's caches, change how the server runs, or ask for its source.
KNOWN = ("rerun_script", "stop_script", "app_heartbeat", "file_urls_request", "backend_operation_request")
OPERATION = {"request_id", "session_id", "deferred_file", "dataframe_chunk"}
LISTS = ("string_array_value", "int_array_value")
VALUES = {  # the kinds of value that a browser sends for a widget
    "bidi_component": ("json_value",), "button": ("trigger_value",), "button_group": LISTS,
    "checkbox": ("bool_value",), "download_button": ("trigger_value",),
    "file_uploader": ("file_uploader_state_value",), "multiselect": LISTS,
    "number_input": ("double_value", "int_value"), "radio": ("int_value", "string_value"),
    "selectbox": ("string_value",), "slider": ("double_array_value", *LISTS),
    "text_area": ("string_value",), "text_input": ("string_value",),
}  # fmt: skip
JSON = ("json_value", "json_trigger_value")
FIRST_MESSAGE_S = 30.0
MOST_NAMES = 8  # of files in one message: a page asks for one at a time
# Widget states are a few KB, with a pasted text up to 1 MB. Larger ones cost the replica its time, read or refused.
AT_ONCE_BYTES, BYTES_PER_S = 8 * MB, 2 * MB  # of an address


def taken(receive: Receive, send: Send, widgets: Callable[[], Mapping[str, str]], pace: Pace, address: str) -> Receive:
    """The messages of a visitor that a page of this app sends, at a pace; the first has to come in time."""
    waits: list[float | None] = [FIRST_MESSAGE_S]

    async def one() -> Message:
        while True:
            try:
                message = await asyncio.wait_for(receive(), waits[0])
            except TimeoutError:
                await send({"type": "websocket.close", "code": 1001})
                return {"type": "websocket.disconnect", "code": 1001}
            if message["type"] != "websocket.receive":
                return message
            waits[0] = None
            content = message.get("bytes") or b""
            await asyncio.sleep(pace.use(address, len(content), time.monotonic()))
            if is_taken(content, widgets()):
                return message

    return one


def is_taken(content: bytes, widgets: Mapping[str, str]) -> bool:
    """Whether Streamlit gets a message; what is none of its protocol it refuses itself."""
    message = BackMsg()
    with contextlib.suppress(DecodeError):
        message.ParseFromString(content)
        kind = message.WhichOneof("type")
        if kind == "file_urls_request":
            return len(message.file_urls_request.file_names) <= MOST_NAMES
        if kind == "backend_operation_request":
            return {each.name for each, _ in message.backend_operation_request.ListFields()} <= OPERATION
        return kind is None or (kind in KNOWN and not is_forged(message, widgets))
    return True


def is_forged(message: BackMsg, widgets: Mapping[str, str]) -> bool:
    """Whether a widget is said to have a value that it cannot have: Streamlit's own code would fail on it.

    `widgets` has the kind of each widget of the page by its id.
    """
    for state in message.rerun_script.widget_states.widgets:
        kind = state.WhichOneof("value")
        if state.id in widgets and kind not in (None, *VALUES[widgets[state.id]]):
            return True
        if kind in JSON and not is_json(getattr(state, kind)):
            return True
    return False


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
