"""Slack's adapter keeps the contract, and reads whatever it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("slack_sdk", reason="slack-sdk is not installed: pip install -e '.[slack]'")

import contextlib

from gateway.platforms import lanes
from gateway.platforms.slack import adapter as slack_adapter
from gateway.platforms.slack.formatting import format_message
from gateway.platforms.slack.media import is_slack
from gateway.platforms.slack.messages import (
    Listening,
    MalformedEventError,
    read_command,
    read_event,
    read_press,
)

from .. import seeds
from .adapter_conformance import AdapterConformance
from .slack_api import SlackApi
from .slack_chats import SlackPlace


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    monkeypatch.setattr(lanes, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(slack_adapter, "PING_SECONDS", 0.05)


class TestSlack(AdapterConformance):
    @pytest.fixture
    async def place(self, tmp_path: Path) -> AsyncIterator[SlackPlace]:
        async with SlackApi() as api:
            yield SlackPlace(api, tmp_path)


US = Listening("U0HERMES", "T1")


def test_markdown_as_slack_shows_it() -> None:
    for markdown, shown in (
        ("**bold** _it_ ~~gone~~ `code`", "*bold* _it_ ~gone~ `code`"),
        ("# A **title**", "*A title*"),
        ("[x](https://a.org/b) <!channel> <@U1> @everyone",
         "<https://a.org/b|x> &lt;!channel&gt; &lt;@U1&gt; @everyone"),
        ("[x](javascript:alert(1))", "x (javascript:alert(1))"),
        ("[a|b](https://a.org)", "<https://a.org|a¦b>"),
        ("> said\n> more", "> said\n> more"),
        ("```python\na < b\n```", "```\na &lt; b\n```"),
        ("- one\n- two", "• one\n• two"),
        ("```\n```", "…"),
        ("\u200b", "…"),
    ):  # fmt: skip
        assert format_message(markdown) == shown


def test_what_people_write_is_read_as_they_see_it() -> None:
    def read(text: str, **more: object) -> str | None:
        event = {
            "type": "message", "channel": "D1", "user": "U1", "ts": "1.000001", "text": text,
            **more,
        }  # fmt: skip
        incoming = read_event(event, US)
        return incoming.event.text if incoming else None

    assert read("a &lt; b &amp;amp; c") == "a < b &amp; c"
    assert read("<@U0HERMES> hi <@U2|bob> in <#C1|general>") == "hi @bob in #general"
    assert read("<https://a.org|a.org> <https://a.org/x|here>") == (
        "https://a.org here (https://a.org/x)"
    )
    assert read("!stop") == "/stop" and read("!important") == "!important"
    assert read("x", bot_id="B2") is None and read("x", subtype="channel_join") is None
    assert read("x", user="U0HERMES") is None and read("") is None
    assert read("/status") == "/status" and read("!last") == "/last"


def test_the_token_is_shown_to_slack_only() -> None:
    api = "https://slack.com/api/"
    for url in ("https://files.slack.com/x", "https://slack.com/x", "https://a.slack-files.com/"):
        assert is_slack(url, api)
    for url in (
        "", "http://files.slack.com/x", "https://evilslack.com/", "https://slack.com.evil.org/",
        "https://files.slack.com@evil.org/x", "file:///etc/passwd", "https://[", "/x",
    ):  # fmt: skip
        assert not is_slack(url, api), url


_NAMES = st.sampled_from(
    [
        "type", "channel", "user", "ts", "text", "thread_ts", "subtype", "message", "files", "id",
        "name", "size", "mode", "edited", "previous_message", "actions", "action_ts", "value",
        "trigger_id", "user_id", "channel_id", "url_private", "bot_id",
    ]
)  # fmt: skip
_VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
_LIKELY = st.sampled_from(["message", "app_mention", "1.2", "message_changed", "D1", "<@U0HERMES>"])
_JSON = st.recursive(
    _VALUES | _LIKELY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=6),
    max_leaves=20,
)


@given(_JSON)
@settings(max_examples=seeds.examples(40))
def test_any_event_is_read_or_refused(event: object) -> None:
    for read in (
        lambda: read_event(event, US),
        lambda: read_press(event, "x", US),
        lambda: read_command(event, US),
    ):
        with contextlib.suppress(MalformedEventError):
            read()
