"""Candidates for what is being typed, from the server: commands, their arguments, paths."""

from __future__ import annotations

import logging

from tui_gateway.client import Client, ConnectionLostError, RpcFailedError

from .completions import Candidate

log = logging.getLogger(__name__)

LOCAL_COMMANDS = {"/theme": "Change the colours", "/keys": "Show every key"}


async def candidates_for(
    client: Client, sid: str, before: str, asked: bool
) -> tuple[list[Candidate], int]:
    """The candidates for the text before the cursor, and from where on they replace it."""
    try:
        if before.startswith("/") and "\n" not in before:
            return await _slash(client, sid, before)
        word = before[_word_start(before) :]
        if word.startswith("@") or (asked and word):
            answer = await client.request("complete.path", session_id=sid, word=word)
            return [Candidate(**item) for item in answer["items"]], len(before) - len(word)
    except (RpcFailedError, ConnectionLostError) as error:
        log.info("No candidates: %s", error)
    return [], 0


def _word_start(text: str) -> int:
    return max(text.rfind(mark) for mark in (" ", "\n", "\t")) + 1


async def _slash(client: Client, sid: str, before: str) -> tuple[list[Candidate], int]:
    if before.startswith("/theme "):
        from .themes import NAMES

        typed = before.removeprefix("/theme ")
        return [Candidate(name, name, "") for name in NAMES if typed in name], len("/theme ")
    answer = await client.request("complete.slash", session_id=sid, text=before)
    items = [Candidate(**item) for item in answer["items"]]
    if " " not in before:
        own = [Candidate(name, name, description) for name, description in LOCAL_COMMANDS.items()]
        items = sorted([*items, *(item for item in own if item.text.startswith(before))])
    return items, answer["replace_from"]
