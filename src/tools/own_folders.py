"""Folders in the Hermes home with a part for each conversation: long output, and checkpoints; and
folders with a part for each person or chat: workspaces, and files that came with messages.

What one keeps there is nobody else's business. A conversation is known by the id that it has for
life, and sub-agents belong to the conversation that started them. Memories and
skills are there for the conversations that may read them.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .base import ToolContext
from .memory_scope import spaces_of

OUTPUT_FOLDER = "tool-output"
"""What was too long for a result."""
CHECKPOINT_FOLDER = "checkpoints"
"""What files were before a turn changed them."""
UPLOAD_FOLDERS = ("media", "uploads", "pastes")
"""What came with messages."""
MEMORY_FOLDERS = ("memories", "skills", "people", "groups", "shared")
"""Whose memories are whose: `memory_scope`."""


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
        self._uploads = [home / name for name in UPLOAD_FOLDERS]
        self._real: dict[Path, Path] = {}
        self._remembered = [home / name for name in MEMORY_FOLDERS]
        self._home = home
        self._context = context
        self._name: str | None = None
        self._read: list[Path] | None = None

    def is_anothers(self, path: Path) -> bool:
        """Whether a real path is in one of them and not in this conversation's part of it."""
        if any(path.is_relative_to(folder) for folder in self._remembered):
            return not self._may_remember(path)
        kept = self._folder_with(path)
        if kept is not None:
            return not self._is_own(path, kept)
        workspace = self._context.workspace
        if workspace.uploads is not None and self._is_upload(path):
            return not self._is_within(path, workspace.uploads)
        if any(self._is_within(path, folder) for folder in workspace.others):
            own = (workspace.root, *workspace.folders)
            return not any(self._is_within(path, folder) for folder in own)
        return not self._context.permissions.may_leave and self._is_of_home(path)

    def _is_of_home(self, path: Path) -> bool:
        """Whether a path is in the home, and no file that came with this conversation's messages:
        settings, logs, exports and what came with others' are the operator's business."""
        workspace = self._context.workspace
        if not path.is_relative_to(self._home):
            return False
        if workspace.uploads is not None and self._is_within(path, workspace.uploads):
            return False
        root = workspace.root.resolve()
        is_working_there = root != self._home and root.is_relative_to(self._home)
        return not (is_working_there and path.is_relative_to(root))

    def is_readable(self, path: Path) -> bool:
        """Whether a real path in the home is one that the model was told to read: this
        conversation's long output, or a file that came with its messages."""
        kept, uploads = self._folder_with(path), self._context.workspace.uploads
        if uploads is not None and self._is_within(path, uploads):
            return True
        return kept == self._kept[0] and self._is_own(path, kept)

    def _is_upload(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self._uploads)

    def _is_within(self, path: Path, folder: Path) -> bool:
        if folder not in self._real:
            self._real[folder] = folder.resolve()
        return path.is_relative_to(self._real[folder])

    def _may_remember(self, path: Path) -> bool:
        if self._read is None:
            spaces = spaces_of(self._context)
            tops = [space.folder(self._home) for space in (*spaces.shown, *spaces.read)]
            self._read = [top / name for top in tops for name in ("memories", "skills")]
        return any(path.is_relative_to(folder) for folder in self._read)

    def _folder_with(self, path: Path) -> Path | None:
        return next((folder for folder in self._kept if path.is_relative_to(folder)), None)

    def _is_own(self, path: Path, kept: Path) -> bool:
        if self._name is None:  # most paths need no look into the store
            self._name = folder_name(conversation_of(self._context))
        return path.is_relative_to(kept / self._name)
