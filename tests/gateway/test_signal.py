"""Signal's adapter keeps the contract, and reads whatever it is told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config import load_config
from agent.config.env import parse_dotenv
from gateway.config import Platform
from gateway.config_load import load_gateway_config
from gateway.platforms import lanes
from gateway.platforms.registry import all_manifests
from gateway.platforms.signal.client import is_local
from gateway.platforms.signal.formatting import shown_bytes, split_styles, to_signal
from gateway.platforms.signal.messages import (
    Listening,
    MalformedEnvelopeError,
    identity,
    read_envelope,
)
from hermes_cli.gateway_setup import set_up

from .. import seeds
from .adapter_conformance import AdapterConformance
from .signal_chats import SignalPlace
from .signal_daemon import SignalDaemon
from .signal_world import ACCOUNT, ACI, ANN, GARDEN, World


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    monkeypatch.setattr(lanes, "FIRST_PAUSE", 0.01)


class TestSignal(AdapterConformance):
    @pytest.fixture
    async def place(self, tmp_path: Path) -> AsyncIterator[SignalPlace]:
        async with SignalDaemon() as daemon:
            yield SignalPlace(daemon, tmp_path)


US = Listening(ACCOUNT, frozenset({ACCOUNT, ACI}))


def test_markdown_as_signal_shows_it() -> None:
    for markdown, text, styles in (
        ("**bold** _it_ ~~gone~~ `code`", "bold it gone code",
         ["0:4:BOLD", "5:2:ITALIC", "8:4:STRIKETHROUGH", "13:4:MONOSPACE"]),
        ("# A **title**", "A title", ["0:7:BOLD"]),
        ("😀 **b _c_**", "😀 b c", ["5:1:ITALIC", "3:3:BOLD"]),
        ("[x](https://a.org/b)", "x (https://a.org/b)", []),
        ("[https://a.org](https://a.org)", "https://a.org", []),
        ("- one\n- [x] two", "• one\n☑ two", []),
        ("```python\na < b\n```", "a < b", ["0:5:MONOSPACE"]),
        ("\x02evil\x02", "evil", []),
        ("```\n```", "…", []),
        ("\u200b\ufffc", "…", []),
    ):  # fmt: skip
        assert split_styles(to_signal(markdown)) == (text, styles), markdown


def test_a_message_is_measured_in_bytes() -> None:
    assert shown_bytes("é") == 2 and shown_bytes("😀") == 4
    assert shown_bytes("**b**") == 5, "never less than its characters"


def test_what_people_write_is_read_as_they_see_it() -> None:
    world = World()

    def read(text: str = "", *, us: Listening = US, **more: Any) -> Any:
        data = world.data(text, **more)
        said = world.envelope(dataMessage=data, timestamp=data["timestamp"])
        incoming = read_envelope(said["envelope"], us)
        return incoming.event.text if incoming else None

    bob = {"name": "Bob", "number": None, "uuid": "x", "start": 3, "length": 1}
    us = {"number": ACCOUNT, "uuid": ACI, "start": 0, "length": 1}
    assert read("😀 \ufffc hi", mentions=[bob]) == "😀 @Bob hi"
    assert read("\ufffc hi", mentions=[us], group=GARDEN) == "hi"
    assert read("hi", group=GARDEN) is None, "nobody named us"
    assert read("hi", group=GARDEN, us=Listening(ACCOUNT, {ACCOUNT}, False)) == "hi"
    assert read("hi", group=GARDEN, quote={"id": 5, "authorUuid": ACI}) == "hi"
    assert read("hi", group=GARDEN, quote={"id": 5, "authorUuid": ANN}) is None
    assert read("!stop") == "/stop" and read("!important") == "!important"
    assert read(sticker={"packId": "aa", "stickerId": 1}) == "[A sticker]"
    contact = {"name": {"display": "Eve"}, "phone": [{"value": "+1"}]}
    assert read(contacts=[contact]) == "[A contact: Eve, +1]"
    assert read(pollCreate={"question": "Q?", "options": ["a", "b"]}) == "[A poll: Q? (a; b)]"
    seen_once = {"attachments": [{"id": "a", "contentType": "image/png"}], "viewOnce": True}
    assert "not kept" in read(**seen_once)
    assert read() is None and read("x", us=Listening(ACCOUNT, {ANN})) is None, "our own"
    for other in ({"typingMessage": {}}, {"receiptMessage": {}}, {"callMessage": {}}, {}):
        assert read_envelope(world.envelope(**other)["envelope"], US) is None


def test_people_are_known_by_their_ids_and_may_be_listed_by_number() -> None:
    world = World()
    said = world.envelope(dataMessage=world.data("hi"))["envelope"]
    event = read_envelope(said, US).event  # type: ignore[union-attr]
    assert (event.source.user_id, event.source.chat_id, event.source.door) == (
        ANN, ANN, f"signal:{ANN}",
    )  # fmt: skip
    listed = Listening(ACCOUNT, {ACCOUNT}, listed={said["sourceNumber"]})
    event = read_envelope(said, listed).event  # type: ignore[union-attr]
    assert event.source.user_id == said["sourceNumber"]
    assert event.source.door == f"signal:{ANN}", "the same person, however they are listed"


def test_where_the_daemon_is() -> None:
    assert is_local("/run/x") and is_local("localhost:7583") and is_local("127.0.0.1:1")
    assert not is_local("box:7583")


def test_setting_it_up_asks_and_enables_it(tmp_path: Path) -> None:
    offered = [one.name for one in all_manifests().values() if one.has_setup]
    answers = iter([str(offered.index("signal") + 1), ACCOUNT, "", "+15550000042"])
    assert set_up(tmp_path, lambda _: next(answers), lambda _: "", lambda _: None) == 0
    written, problems = parse_dotenv((tmp_path / ".env").read_text())
    assert not problems
    config = load_gateway_config(load_config(tmp_path, written)).platforms[Platform.SIGNAL]
    assert config.enabled and config.allowed_users == ("+15550000042",)
    assert config.extra["account"] == ACCOUNT


_NAMES = st.sampled_from(
    [
        "envelope", "source", "sourceUuid", "sourceNumber", "timestamp", "dataMessage", "message",
        "groupInfo", "groupId", "attachments", "id", "size", "contentType", "filename", "mentions",
        "start", "length", "uuid", "quote", "reaction", "emoji", "targetAuthor", "editMessage",
        "targetSentTimestamp", "syncMessage", "sentMessage", "destination", "contacts", "name",
        "phone", "pollCreate", "options", "viewOnce", "result", "subscription",
    ]
)  # fmt: skip
_VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
_LIKELY = st.sampled_from([ACCOUNT, ANN, "\ufffc", 1_700_000_000_000])
_JSON = st.recursive(
    _VALUES | _LIKELY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=6),
    max_leaves=20,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=6))
@settings(max_examples=seeds.examples(60))
def test_any_envelope_is_read_or_refused(given_: dict[str, Any]) -> None:
    with contextlib.suppress(MalformedEnvelopeError):
        identity(given_)
    for listening in (US, Listening(ACCOUNT, {ACCOUNT}, note_to_self=True)):
        with contextlib.suppress(MalformedEnvelopeError):
            read_envelope({"sourceUuid": ANN, **given_}, listening)
