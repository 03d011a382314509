"""Which messages of a visitor reach Streamlit: against the server, and each limit from both sides."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.WidgetStates_pb2 import WidgetStates

from benchmarks.pages import asked, received
from hosting import messages
from hosting.pace import Pace
from tests.helpers.replicas import ANSWER_S, Replica, cookie_of, in_a_loop, opened, run_script, session_of


def test_messages_that_no_page_sends_are_left_out(replica: Replica) -> None:
    with opened(replica, cookie_of(replica)) as connection:
        session_id = session_of(connection)
        for kind in ("clear_cache", "set_run_on_save", "load_git_info", "debug_shutdown_runtime"):
            message = BackMsg()
            setattr(message, kind, True)
            connection.send(message.SerializeToString())
        assert not run_script(connection, "", "kv_size").failed
        assert session_of(connection) == session_id


def is_taken(message: BackMsg) -> bool:
    return messages.is_taken(message.SerializeToString(), {})


FORGED = {
    "trigger_value": True, "bool_value": True, "double_value": 1e308, "int_value": -(2**60), "string_value": "forged",
    "json_value": "{", "bytes_value": b"\xff",
}  # fmt: skip


@pytest.mark.parametrize("page", ["kv_size", "diagnose", "pressure"])
def test_values_that_are_none_of_a_widgets(replica: Replica, page: str) -> None:
    """A value of another type for each widget of a page: the page goes on, and no traceback is logged."""
    with opened(replica, cookie_of(replica)) as connection:
        connection.send(asked(page, WidgetStates()))
        elements = [message.delta.new_element for message in received(connection, ANSWER_S)]
        kinds = [(getattr(each, kind), kind) for each in elements if (kind := each.WhichOneof("type"))]
        ids = {widget.id: kind for widget, kind in kinds if getattr(widget, "id", "")}
        ids = {widget_id: kind for widget_id, kind in ids.items() if kind in messages.VALUES}
        assert "button_group" in ids.values()
        for name, value in FORGED.items():
            for kind in dict.fromkeys(ids.values()):
                states = WidgetStates()
                for widget_id in (each for each, its in ids.items() if its == kind):
                    setattr(states.widgets.add(id=widget_id), name, value)
                connection.send(asked(page, states))
            connection.send(asked(page, WidgetStates()))
            shown = received(connection, ANSWER_S)
            with suppress(TimeoutError):  # those that are of the widget's kind ran as well
                while True:
                    shown += received(connection, 0.5)
            assert not any(each.delta.new_element.WhichOneof("type") == "exception" for each in shown), name
    assert "Uncaught app execution" not in replica.log.read_text()


class TestWhichMessagesAreTaken:
    def test_of_all_that_the_protocol_has(self) -> None:
        kinds = list(BackMsg.DESCRIPTOR.oneofs_by_name["type"].fields)
        taken = set()
        for each in kinds:
            message = BackMsg()
            if each.message_type:
                getattr(message, each.name).SetInParent()
            else:
                setattr(message, each.name, True)
            if is_taken(message):
                taken.add(each.name)
        assert taken == set(messages.KNOWN)

    @pytest.mark.parametrize(("names", "taken"), [(messages.MOST_NAMES, True), (messages.MOST_NAMES + 1, False)])
    def test_names_of_files(self, names: int, taken: bool) -> None:
        message = BackMsg()
        message.file_urls_request.file_names.extend(["x"] * names)
        assert is_taken(message) is taken

    @pytest.mark.parametrize(
        ("operation", "taken"),
        [
            ("deferred_file", True),
            ("dataframe_chunk", True),
            ("install_skills", False),
            ("dismiss_skills_nudge", False),
        ],
    )
    def test_operations(self, operation: str, taken: bool) -> None:
        message = BackMsg()
        getattr(message.backend_operation_request, operation).SetInParent()
        assert is_taken(message) is taken

    def test_junk_is_left_to_streamlit(self) -> None:
        assert messages.is_taken(b"\xff" * 9, {})


def test_the_first_message_has_to_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "FIRST_MESSAGE_S", 0.05)

    async def silent() -> Any:
        await asyncio.sleep(10)

    async def one() -> tuple[Any, list[Any]]:
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)

        return await messages.taken(
            silent, keep, dict, Pace(at_once=messages.AT_ONCE_BYTES, per_s=messages.BYTES_PER_S), "a"
        )(), sent

    message, sent = in_a_loop(one())
    assert message["type"] == "websocket.disconnect"
    assert sent == [{"type": "websocket.close", "code": 1001}]


def test_every_message_is_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[tuple[str, int]] = []
    pace = Pace(at_once=messages.AT_ONCE_BYTES, per_s=messages.BYTES_PER_S)
    monkeypatch.setattr(pace, "use", lambda address, size_bytes, now_s: asked_for.append((address, size_bytes)) or 0)
    refused, taken = BackMsg(clear_cache=True), BackMsg(app_heartbeat=True)
    contents = [each.SerializeToString() for each in (refused, taken)]

    async def coming() -> Any:
        return {"type": "websocket.receive", "bytes": contents.pop(0)}

    async def one() -> Any:
        return await messages.taken(coming, coming, dict, pace, "a")()

    assert in_a_loop(one())["bytes"] == taken.SerializeToString()
    assert asked_for == [("a", 2), ("a", len(taken.SerializeToString()))]
