"""When an input is moved, what it changes is drawn again, in the visitor's language, and nothing else."""

from __future__ import annotations

import re

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from websockets.sync.client import ClientConnection

from benchmarks.pages import asked, received
from explorer import frame
from tests.helpers.replicas import ANSWER_S, Replica, visitor

HANGUL = re.compile("[가-힣]")
PAGES = ("", "kv_size", "roofline", "crossover", "scenarios", "capacity", "pressure", "evidence")


def drawn(messages: list[ForwardMsg]) -> dict[str, list[str]]:
    """Texts and the like by kind of element."""
    found: dict[str, list[str]] = {}
    for message in messages:
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind:
            found.setdefault(kind, []).append(element.markdown.body if kind == "markdown" else "")
    return found


def run(
    connection: ClientConnection, page: str, states: WidgetStates, query: str = "", part: str = ""
) -> list[ForwardMsg]:
    connection.send(asked(page, states, part, query))
    return received(connection, ANSWER_S)


@pytest.mark.parametrize("page", PAGES)
def test_a_moved_input_redraws_its_part_in_the_same_language(replica: Replica, page: str) -> None:
    with visitor(replica.port) as connection:
        first = run(connection, page, WidgetStates(), "lang=ko")
        moved = next(message.delta for message in first if message.delta.new_element.number_input.label)
        number = moved.new_element.number_input
        states = WidgetStates()
        states.widgets.add(id=number.id, double_value=number.default + number.step)
        again = run(connection, page, states, part=moved.fragment_id)
    before, after = drawn(first), drawn(again)
    assert moved.fragment_id
    assert "exception" not in before.keys() | after.keys()
    assert "heading" in before
    assert len(before["page_link"]) - len(after.get("page_link", [])) == len(frame.PAGES)
    texts = [text for text in after["markdown"] if len(text) > 40]
    assert texts
    assert all(HANGUL.search(text) for text in texts)
