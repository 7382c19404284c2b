"""Rolling back what a turn did to files.

Before the file tools first change a file in a turn, its content (or its absence) is kept; all
changes of one turn make one checkpoint. Restoring a checkpoint undoes exactly that turn's edits,
and is itself a checkpoint. What commands in the terminal do to files is not kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ..base import ToolContext, ToolError, Workspace
from ..files.atomic import Snapshot, digest_of
from ..files.diff import diff_of
from ..files.edit import Change, apply, look_at, remove_empty
from ..files.encoding import UTF8, encoding_of
from ..own_folders import conversation_of
from .store import Record, Store, Version, forget_conversation, prune

log = logging.getLogger(__name__)

__all__ = [
    "Checkpoint",
    "KeptFile",
    "Restored",
    "conversation_of",
    "diff",
    "enabled",
    "forget_conversation",
    "keep",
    "list_checkpoints",
    "prune",
    "restore",
]

_STATE = "checkpoints"

Known = dict[str, str | None]
"""What the turn last made of each file: the digest of its content, None if it removed it."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file of a checkpoint: what it was, and what the turn made of it."""

    path: Path
    before: Version | None
    """None: there was no such file before the turn."""
    afters: tuple[str | None, ...]
    """Digests of everything the turn changed it to, in order; None: it was removed."""
    made: tuple[Path, ...] = ()
    """Folders that were created for it."""
    mixed: bool = False
    """Whether something else changed it between two edits of the turn."""

    @property
    def change(self) -> str:
        """What the turn did: created, deleted or edited it."""
        if self.before is None:
            return "created"
        return "deleted" if self.afters[-1] is None else "edited"

    @property
    def kept(self) -> bool:
        """Whether the old content can be brought back."""
        return self.before is None or self.before.digest is not None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that one turn changed."""

    id: str
    session_id: str
    at: float
    """When the first change was made, in seconds since 1970."""
    tools: tuple[str, ...]
    files: tuple[KeptFile, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """What a rollback did."""

    files: tuple[Path, ...]
    """Files that were put back or removed; empty if all was as before already."""
    not_kept: tuple[Path, ...]
    """Files that stay as they are because they were too large to be kept."""
    checkpoint: str | None
    """The checkpoint that would undo this rollback."""


def keep(context: ToolContext, tool: str, changes: list[Change], made: list[Path]) -> None:
    """Keep what the changes are about to replace; called before the first of them."""
    workspace = context.workspace
    if not enabled(workspace):
        return
    conversation = conversation_of(context)
    marker = context.turn.id or context.call_id
    checkpoint = _id(conversation, marker)  # the session may change within a turn
    with workspace.lock:
        if _STATE not in workspace.state:
            forgotten = prune(workspace.home)
            log.debug("Forgot %d old checkpoints", forgotten)
        turn, known = workspace.state.get(_STATE, ("", {}))
        if turn != checkpoint:
            known = {}
            workspace.state[_STATE] = (checkpoint, known)
        who = (checkpoint, context.session_id, tool)
        _keep(Store(workspace.home, conversation), who, changes, made, known)


def _keep(
    store: Store, who: tuple[str, str, str], changes: list[Change], made: list[Path], known: Known
) -> None:
    """Record the changes, and the old contents that the turn did not write itself."""
    checkpoint, session, tool = who
    contents = [
        change.before.data
        for change in changes
        if change.before
        and change.before.data is not None
        and known.get(str(change.path)) != change.before.digest
    ]
    records = [
        Record(
            checkpoint,
            session,
            time.time(),
            tool,
            str(change.path),
            _version(change.before),
            None if change.after is None else digest_of(change.after),
            [str(folder) for folder in made if change.path.is_relative_to(folder)],
        )
        for change in changes
    ]
    try:
        store.add(records, contents)
    except OSError as error:
        raise ToolError(
            f"The old content could not be kept in {store.folder} ({error.strerror}), so nothing "
            "was changed. Free some space, or switch checkpoints off in the configuration."
        ) from error
    known.update((record.path, record.after) for record in records)


def _version(snapshot: Snapshot | None) -> Version | None:
    if snapshot is None:
        return None
    return Version(snapshot.digest, snapshot.info.st_size, snapshot.mode, snapshot.owner)


def enabled(workspace: Workspace) -> bool:
    """Whether checkpoints are kept; `checkpoints: {enabled: false}` switches them off."""
    settings = workspace.settings.get("checkpoints")
    return not isinstance(settings, dict) or settings.get("enabled", True) is not False


def _id(session: str, marker: str) -> str:
    return hashlib.sha256(f"{session}\n{marker}".encode(errors="surrogatepass")).hexdigest()[:12]


def list_checkpoints(workspace: Workspace, conversation: str) -> list[Checkpoint]:
    """The checkpoints of a conversation, newest first."""
    turns: dict[str, list[Record]] = {}
    for record in Store(workspace.home, conversation).records():
        turns.setdefault(record.checkpoint, []).append(record)
    checkpoints = [_checkpoint(records) for records in turns.values()]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.at, reverse=True)


def _checkpoint(records: list[Record]) -> Checkpoint:
    files: dict[str, KeptFile] = {}
    for record in records:
        made = tuple(Path(folder) for folder in record.made)
        if file := files.get(record.path):
            digest = record.before.digest if record.before else None
            mixed = file.mixed or digest not in (*file.afters, _digest(file.before))
            afters = (*file.afters, record.after)
            files[record.path] = replace(file, afters=afters, made=file.made + made, mixed=mixed)
        else:
            files[record.path] = KeptFile(Path(record.path), record.before, (record.after,), made)
    first = records[0]
    tools = tuple(dict.fromkeys(record.tool for record in records))
    return Checkpoint(first.checkpoint, first.session, first.at, tools, tuple(files.values()))


def _find(workspace: Workspace, conversation: str, checkpoint: str) -> tuple[Checkpoint, set[str]]:
    """A checkpoint, by the beginning of its id, and the paths that later ones changed."""
    later: set[str] = set()
    for candidate in list_checkpoints(workspace, conversation):
        if checkpoint and candidate.id.startswith(checkpoint):
            return candidate, later
        later.update(str(file.path) for file in candidate.files)
    raise ToolError(f"There is no checkpoint {checkpoint!r} in this conversation.")


def _files(checkpoint: Checkpoint, file: str | Path | None) -> list[KeptFile]:
    if file is None:
        return list(checkpoint.files)
    wanted = Path(file)
    files = [kept for kept in checkpoint.files if kept.path in (wanted, wanted.resolve())]
    if not files:
        names = ", ".join(str(kept.path) for kept in checkpoint.files)
        raise ToolError(f"The checkpoint has no file {file}. It has: {names}.")
    return files


def diff(
    workspace: Workspace, conversation: str, checkpoint: str, file: str | Path | None = None
) -> str:
    """What differs between the files before the turn and now, as a unified diff."""
    chosen, _ = _find(workspace, conversation, checkpoint)
    store = Store(workspace.home, conversation)
    parts = []
    for kept in _files(chosen, file):
        now = look_at(kept.path, workspace.home)
        data = now.data if now else b""
        if not kept.kept or data is None:
            parts.append(f"{kept.path}: too large to be compared")
            continue
        old = store.content(kept.before.digest) if kept.before and kept.before.digest else b""
        texts = _as_text(old), _as_text(data)
        if texts[0] is None or texts[1] is None:
            if old != data:
                parts.append(f"{kept.path}: binary content differs")
            continue
        names = [str(kept.path) if there else "/dev/null" for there in (kept.before, now)]
        parts.append(diff_of(texts[0], texts[1], *names).text)
    return "\n".join(part for part in parts if part)


def _as_text(data: bytes) -> str | None:
    encoding = encoding_of(data, whole=True) if data else UTF8
    return encoding.decode(data) if encoding else None


def restore(
    workspace: Workspace,
    conversation: str,
    checkpoint: str,
    file: str | Path | None = None,
    *,
    force: bool = False,
) -> Restored:
    """Undo what a turn did to its files (or to one of them), all together or not at all.

    Refused with a ToolError if one of them was changed since the turn, unless `force`.
    """
    chosen, later = _find(workspace, conversation, checkpoint)
    store = Store(workspace.home, conversation)
    changes, not_kept, conflicts = [], [], []
    for kept in _files(chosen, file):
        now = look_at(kept.path, workspace.home)
        if not kept.kept:
            not_kept.append(kept.path)
        elif not _is_before(kept, now):
            if not _is_after(kept, now):
                conflicts.append(kept.path)
            changes.append(_back(kept, now, store))
    if conflicts and not force:
        raise ToolError(_conflict(conflicts, later))
    if not changes:
        return Restored((), tuple(not_kept), None)
    undo = _id(chosen.session_id, f"restore {time.time_ns()} {os.getpid()}")
    who = (undo, chosen.session_id, "restore")
    apply(
        changes,
        home=workspace.home,
        keep=lambda changes, made: _keep(store, who, changes, made, {}),
    )
    remove_empty(sorted({folder for kept in _files(chosen, file) for folder in kept.made}))
    return Restored(tuple(change.path for change in changes), tuple(not_kept), undo)


def _is_before(kept: KeptFile, now: Snapshot | None) -> bool:
    if kept.before is None or now is None:
        return kept.before is None and now is None
    return (kept.before.digest, kept.before.mode) == (now.digest, now.mode)


def _is_after(kept: KeptFile, now: Snapshot | None) -> bool:
    """Whether a file is as the turn left it, or as before the turn: no third party changed it."""
    digest = now.digest if now else None
    if kept.mixed or (now is not None and digest is None):
        return False  # in the second case it is too large to tell
    return digest in kept.afters or (kept.before is not None and digest == kept.before.digest)


def _digest(version: Version | None) -> str | None:
    return version.digest if version else None


def _back(kept: KeptFile, now: Snapshot | None, store: Store) -> Change:
    if kept.before is None or kept.before.digest is None:
        return Change(kept.path, now, None)
    owner = kept.before.owner
    if os.geteuid() != 0:
        owner = (os.geteuid(), owner[1] if owner[1] in os.getgroups() else os.getegid())
    return Change(kept.path, now, store.content(kept.before.digest), kept.before.mode, owner)


def _conflict(conflicts: list[Path], later: set[str]) -> str:
    names = ", ".join(map(str, conflicts))
    if all(str(path) in later for path in conflicts):
        return f"Later turns changed {names} again. Restore those first, or force it."
    return f"Changed since that turn: {names}. Restoring would undo that too; force it to do so."
