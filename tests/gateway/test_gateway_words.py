"""What a chat reads where something was cut off, failed or came to nothing: never nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway import expiry
from gateway.recovery import STOPPED
from gateway.run import _normalize_empty_agent_response
from gateway.session import SessionEntry

from .chats import gateway


async def test_a_command_that_was_cut_off_is_told_once_and_not_done_again(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        entry = chats.runner.session_store.entry(chats.key())
        assert entry is not None and entry.origin is not None
        chats.db.accept_message(
            "local:1:99", chats.session_id(), "/undo", source="local", session_key=chats.key(),
            facts={"source": entry.origin.to_dict()},
        )  # fmt: skip
        assert chats.db.begin_command("local:1:99")
    for told in ([STOPPED.format(command="/undo")], []):
        async with gateway(tmp_path) as chats:
            assert await chats.ask("still there?", chat_id="2") == "re: still there?"
            assert chats.local.texts("1") == told
            assert chats.db.list_begun() == []
            messages = chats.db.get_messages(chats.session_id("1"))
            assert [one["content"] for one in messages] == ["hello", "re: hello"]


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ({"failed": True, "error": "maximum context length is 8k"}, "(7 messages) no longer fits"),
        ({"failed": True, "error": "no key"}, "No answer: no key"),
        ({"failed": True}, "the turn failed"),
        ({"partial": True, "error": "no steps left"}, "stopped before an answer: no steps left"),
        ({"partial": True}, "it was cut short"),
        ({"api_calls": 2}, "returned no text. Try again"),
        ({"api_calls": 2, "error": "filtered"}, "returned no text: filtered"),
        ({}, "No answer. Try again"),
        ({"error": "odd"}, "No answer: odd."),
    ],
)
def test_a_turn_without_an_answer_has_a_word(outcome: dict[str, Any], says: str) -> None:
    assert says in _normalize_empty_agent_response(outcome, "", history_len=7)
    assert _normalize_empty_agent_response(outcome, "an answer", history_len=7) == "an answer"


def test_who_interrupted_is_not_told_so() -> None:
    assert _normalize_empty_agent_response({"interrupted": True}, "", history_len=7) == ""


async def test_a_look_at_expired_sessions_that_fails_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0
    again = asyncio.Event()

    async def broken(self: object) -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            again.set()
        raise RuntimeError("no list")

    monkeypatch.setattr(expiry, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(expiry.Expiry, "look", broken)
    async with gateway(tmp_path) as chats:
        watching = asyncio.create_task(chats.runner._session_expiry_watcher(0.0))
        async with asyncio.timeout(60):
            await again.wait()
        watching.cancel()
        assert "Looking for expired sessions failed" in caplog.text


async def test_a_session_whose_end_cannot_be_noted_is_tried_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        store = chats.runner.session_store

        def broken(entry: object) -> None:
            raise OSError("locked")

        monkeypatch.setattr(store, "set_expiry_finalized", broken)
        monkeypatch.setattr(store, "_is_session_expired", lambda entry: True)
        ended = [await chats.runner.expiry().end_expired() for _ in range(4)]
        # Where gateways share a store, whoever cannot claim an end tells nobody of it.
        assert ended == ([0, 0, 0, 0] if chats.db.is_on_server else [0, 0, 1, 0])


async def test_an_end_that_cannot_be_noted_does_not_keep_others_from_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello", chat_id="1")
        await chats.ask("hello", chat_id="2")
        store, first = chats.runner.session_store, chats.session_id("1")
        finalize = store.set_expiry_finalized

        def broken(entry: SessionEntry) -> bool:
            if entry.session_id == first:
                raise OSError("locked")
            return finalize(entry)

        monkeypatch.setattr(store, "set_expiry_finalized", broken)
        monkeypatch.setattr(store, "_is_session_expired", lambda entry: True)
        assert await chats.runner.expiry().end_expired() == 1
