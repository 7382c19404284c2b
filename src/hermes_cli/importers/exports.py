"""Detect the format of an export, and read its conversations."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_cli.command_run import UserError

from . import chatgpt, claude

LARGEST = 4_000_000_000
"""Bytes of one unpacked file: more than any export, less than a bomb."""


@dataclass
class Read:
    """The contents of an export."""

    kind: str
    sessions: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    """What did not come along, by a word for it."""


def read_export(path: Path) -> Read:
    """The conversations in a zip, a JSON file or an unpacked folder; raises UserError."""
    kind, export = "", Read("")
    for name, text in _texts(path):
        try:
            content = json.loads(text)
        except ValueError as error:
            raise UserError(
                f"{name} is not JSON ({error}). What hermes sessions export wrote is brought in"
                " with: hermes sessions import"
            ) from error
        conversations = content.get("conversations") if isinstance(content, dict) else content
        if not isinstance(conversations, list) or not all(
            isinstance(conversation, dict) for conversation in conversations
        ):
            raise UserError(f"{name} holds no list of conversations.")
        for conversation in conversations:
            kind = _kind(conversation, name)
            export.kind = export.kind or kind
            session, left_out = (chatgpt if kind == "chatgpt" else claude).session(conversation)
            for word, count in left_out.items():
                export.left_out[word] = export.left_out.get(word, 0) + count
            if session is None:
                export.left_out["empty conversations"] = (
                    export.left_out.get("empty conversations", 0) + 1
                )
            else:
                export.sessions.append(session)
    if not export.sessions:
        raise UserError(f"There are no conversations in {path}.")
    return export


def _kind(conversation: dict[str, Any], name: str) -> str:
    if isinstance(conversation.get("mapping"), dict):
        return "chatgpt"
    if isinstance(conversation.get("chat_messages"), list):
        return "claude"
    raise UserError(
        f"{name} is neither an export of ChatGPT nor of Claude. For an export of Hermes: "
        "hermes sessions import"
    )


def _texts(path: Path) -> Iterable[tuple[str, str]]:
    """The conversation files in what a person names, each with its text."""
    try:
        if path.is_dir():
            files = sorted(path.rglob("conversations*.json"))
            texts = [(str(file), file.read_text(encoding="utf-8-sig")) for file in files]
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                members = [
                    member
                    for member in archive.infolist()
                    if Path(member.filename).match("conversations*.json")
                    and member.file_size < LARGEST
                ]
                texts = [
                    (f"{path}: {member.filename}", archive.read(member).decode("utf-8-sig"))
                    for member in sorted(members, key=lambda member: member.filename)
                ]
        else:
            texts = [(str(path), path.read_text(encoding="utf-8-sig"))]
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError, zipfile.BadZipFile, RuntimeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not texts:
        raise UserError(f"There is no conversations.json in {path}.")
    return texts


def joined(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message, as a conversation has them."""
    together: list[dict[str, Any]] = []
    for message in messages:
        if together and together[-1]["role"] == message["role"]:
            together[-1]["content"] += f"\n\n{message['content']}"
        else:
            together.append(message)
    return together
