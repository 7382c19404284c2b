"""WhatsApp's adapter keeps the contract, and reads whatever it is told."""

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
from gateway.platforms.base import Button
from gateway.platforms.registry import all_manifests
from gateway.platforms.whatsapp_cloud import errors
from gateway.platforms.whatsapp_cloud.api import Api
from gateway.platforms.whatsapp_cloud.errors import refusal
from gateway.platforms.whatsapp_cloud.formatting import format_message
from gateway.platforms.whatsapp_cloud.messages import (
    UNREADABLE,
    MalformedMessageError,
    read_message,
    read_posted,
)
from gateway.platforms.whatsapp_cloud.sending import _titles
from hermes_base.redaction import MASK, redact
from hermes_cli.gateway_setup import set_up

from .. import seeds
from .adapter_conformance import AdapterConformance
from .whatsapp_api import ANN, NUMBER, SECRET, TOKEN, VERIFY, WhatsAppApi
from .whatsapp_chats import WhatsAppPlace


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if pair limits were over after seven seconds."""
    monkeypatch.setitem(errors._SOON, 131056, 7.0)


class TestWhatsApp(AdapterConformance):
    @pytest.fixture
    async def place(self, tmp_path: Path) -> AsyncIterator[WhatsAppPlace]:
        async with WhatsAppApi() as api:
            yield WhatsAppPlace(api, tmp_path)


def test_markdown_as_whatsapp_shows_it() -> None:
    for markdown, shown in (
        ("**bold** _it_ ~~gone~~ `code`", "*bold* _it_ ~gone~ `code`"),
        ("# A **title**", "*A title*"),
        ("[x](https://a.org/b)", "x (https://a.org/b)"),
        ("> said\n> more", "> said\n> more"),
        ("```python\na < b\n```", "```a < b```"),
        ("- one\n- [ ] two", "• one\n☐ two"),
        ("```\n```", "…"),
        ("\u200b", "…"),
    ):
        assert format_message(markdown) == shown


def test_what_people_send_is_read_as_they_see_it() -> None:
    def read(kind: str, content: Any, **more: Any) -> Any:
        message = {"from": ANN, "id": "wamid.1", "timestamp": "5", "type": kind, kind: content}
        return read_message({**message, **more}, {ANN: "Ann"}, {})

    def text(kind: str, content: Any, **more: Any) -> str | None:
        incoming = read(kind, content, **more)
        return incoming.event.text if incoming else None

    assert text("text", {"body": "hello"}) == "hello"
    assert text("text", {"body": "!stop"}) == "/stop"
    place = {"latitude": 1.5, "longitude": 2, "name": "Café", "address": "1 Road"}
    assert text("location", place) == "[A place: Café, 1 Road (1.5, 2)]"
    contact = {"name": {"formatted_name": "Eve"}, "phones": [{"phone": "+1 2"}]}
    assert text("contacts", [contact]) == "[A contact: Eve, +1 2]"
    assert text("button", {"payload": "x", "text": "Show me"}) == "Show me"
    assert text("interactive", {"type": "nfm_reply", "nfm_reply": {}}) == UNREADABLE
    assert text("unsupported", {}, errors=[{"code": 131051}]) == UNREADABLE
    assert text("order", {"product_items": []}) == UNREADABLE
    assert text("system", {"body": "changed"}) is None
    assert text("text", {"body": "in a group"}, group_id="g") is None
    reply = {"type": "list_reply", "list_reply": {"id": "approval:1:deny", "title": "Deny"}}
    assert read("interactive", reply).event.button == "approval:1:deny"
    document = {"id": "77", "mime_type": "application/pdf", "filename": "../a b.pdf"}
    (attachment,) = read("document", {**document, "caption": "see"}).attachments
    assert attachment.name == "77-a_b.pdf"
    (voice,) = read("audio", {"id": "78", "mime_type": "audio/ogg; codecs=opus"}).attachments
    assert voice.name == "78-audio.ogg"
    event = read("text", {"body": "x"}, context={"id": "wamid.0"}).event
    assert (event.reply_to, event.source.user_name, event.source.chat_id) == ("wamid.0", "Ann", ANN)
    hidden = read_message(
        {"from_user_id": "US.12", "id": "w", "type": "text", "text": {"body": "x"}}, {}, {}
    )
    assert hidden is not None and hidden.event.source.chat_id == "US.12"
    listed = read_message({**event.raw}, {}, {ANN: f"+{ANN}"})
    assert listed is not None and listed.event.source.user_id == f"+{ANN}"
    assert listed.event.source.door == f"whatsapp_cloud:{ANN}"


def test_errors_are_told_apart_by_their_numbers() -> None:
    for code, permanent, held, retried in (
        (131047, False, True, False),
        (131056, False, False, True),
        (130429, False, False, True),
        (80007, False, False, True),
        (190, False, False, True),
        (10, False, False, True),
        (131042, False, False, True),
        (131016, False, False, False),
        (131026, True, False, False),
        (131049, True, False, False),
        (132001, True, False, False),
        (100, True, False, False),
    ):
        error = refusal(code, "why")
        found = (error.permanent, error.held, error.retry_after is not None)
        assert found == (permanent, held, retried), code
        assert not error.unsure


def test_the_token_is_shown_to_meta_only() -> None:
    api = Api("https://graph.facebook.com", "v23.0", "1", "token")
    for url in ("https://lookaside.fbsbx.com/x", "https://graph.facebook.com/x"):
        assert api.may_see_token(url)
    for url in (
        "", "http://lookaside.fbsbx.com/", "https://evilfbsbx.com/", "https://fbsbx.com.evil.org/",
        "https://lookaside.fbsbx.com@evil.org/", "file:///etc/passwd", "https://[", "/x",
    ):  # fmt: skip
        assert not api.may_see_token(url), url


def test_choices_are_short_and_each_another() -> None:
    given = [Button("x" * 30, "1"), Button("x" * 40, "2"), Button("", "3")]
    titles = _titles(given, 20)
    assert len(set(titles)) == 3 and all(1 <= len(title) <= 20 for title in titles)


def test_setting_it_up_asks_and_enables_it(tmp_path: Path) -> None:
    offered = [one.name for one in all_manifests().values() if one.has_setup]
    answers = iter([str(offered.index("whatsapp_cloud") + 1), NUMBER, f"+{ANN}"])
    secrets = iter([TOKEN, SECRET, VERIFY])
    assert set_up(tmp_path, lambda _: next(answers), lambda _: next(secrets), lambda _: None) == 0
    written, problems = parse_dotenv((tmp_path / ".env").read_text())
    assert not problems
    config = load_gateway_config(load_config(tmp_path, written)).platforms[Platform.WHATSAPP_CLOUD]
    assert config.enabled and config.allowed_users == (f"+{ANN}",)
    for secret in (TOKEN, SECRET, VERIFY):
        assert redact(f"it is {secret}") == f"it is {MASK}"


_NAMES = st.sampled_from(
    [
        "object", "entry", "changes", "field", "value", "metadata", "phone_number_id", "contacts",
        "messages", "statuses", "errors", "from", "id", "timestamp", "type", "text", "body",
        "image", "caption", "filename", "mime_type", "interactive", "button_reply", "reaction",
        "message_id", "emoji", "location", "latitude", "context", "code", "profile", "wa_id",
    ]
)  # fmt: skip
_VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
_LIKELY = st.sampled_from([ANN, NUMBER, "text", "image", "messages", "whatsapp_business_account"])
_JSON = st.recursive(
    _VALUES | _LIKELY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=6),
    max_leaves=20,
)


@given(_JSON)
@settings(max_examples=seeds.examples(60))
def test_anything_that_is_posted_is_read_or_refused(posted: Any) -> None:
    value = {"metadata": {"phone_number_id": NUMBER}, "messages": [posted], "statuses": [posted]}
    change = {"field": "messages", "value": value}
    whole = {"object": "whatsapp_business_account", "entry": [{"changes": [change]}]}
    for body in (posted, whole):
        with contextlib.suppress(MalformedMessageError):
            read_posted(body, NUMBER, {})
    for kind in ("text", "image", "interactive", "reaction", "location", "contacts", "x"):
        with contextlib.suppress(MalformedMessageError):
            read_message({"from": ANN, "id": "w", "type": kind, kind: posted}, {}, {})
