"""Folders in the Hermes home with a part for each conversation: long output, and checkpoints.

What one conversation keeps there is nobody else's business. A conversation is known by the id that
it has for life, and sub-agents belong to the conversation that started them.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .base import ToolContext

OUTPUT_FOLDER = "tool-output"
"""What was too long for a result."""
CHECKPOINT_FOLDER = "checkpoints"
"""What files were before a turn changed them."""


def conversation_of(context: ToolContext) -> str:
    """The id that the conversation keeps for life, whatever session it is in."""
    if context.db is None:
        return context.session_id
    return context.db.get_conversation_root(context.session_id)


def folder_name(conversation: str) -> str:
    """The conversation's id, if it can be a file name as it is."""
    if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}", conversation):
        return conversation
    return "x-" + hashlib.sha256(conversation.encode(errors="surrogatepass")).hexdigest()[:32]


def output_folder(context: ToolContext) -> Path:
    """Where long output of this conversation is kept."""
    return output_folder_of(context.workspace.home, conversation_of(context))


def output_folder_of(home: Path, conversation: str) -> Path:
    """Where long output of a conversation is kept."""
    return home / OUTPUT_FOLDER / folder_name(conversation)


class Belongings:
    """Which of these folders are a conversation's own."""

    def __init__(self, context: ToolContext) -> None:
        home = context.workspace.home.resolve()
        self._kept = [home / OUTPUT_FOLDER, home / CHECKPOINT_FOLDER]
        self._context = context
        self._name: str | None = None

    def is_anothers(self, path: Path) -> bool:
        """Whether a real path is in one of them and not in this conversation's part of it."""
        kept = self._folder_with(path)
        return kept is not None and not self._is_own(path, kept)

    def is_own_output(self, path: Path) -> bool:
        """Whether a real path is one of this conversation's long output."""
        kept = self._folder_with(path)
        return kept == self._kept[0] and self._is_own(path, kept)

    def _folder_with(self, path: Path) -> Path | None:
        return next((folder for folder in self._kept if path.is_relative_to(folder)), None)

    def _is_own(self, path: Path, kept: Path) -> bool:
        if self._name is None:  # most paths need no look into the store
            self._name = folder_name(conversation_of(self._context))
        return path.is_relative_to(kept / self._name)
