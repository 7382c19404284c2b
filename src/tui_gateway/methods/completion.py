"""Completion of what is being typed: slash commands, and paths of files."""

from __future__ import annotations

import os
from pathlib import Path

from .. import live
from .. import shapes_input as wire
from ..clients import READ
from ..rpc import Call, method

MOST = 50
LOOKED_AT = 5_000
"""Entries of a folder that are looked at: completion must stay quick."""


@method("complete.slash", scope=READ, slow=True)
def slash(call: Call, text: str, session_id: str | None = None) -> wire.SlashCompletion:
    """Candidates for a line that begins with a slash: names, and arguments where they are known."""
    from agent.slash import complete

    from ..surface import LiveSurface

    if session_id is None:
        session = live.new_session("")
    else:
        session = call.session(session_id)
    completion = complete(LiveSurface(call.hub, session_id or "", session, call.principal), text)
    return {
        "items": [
            {"text": item.text, "display": item.display, "meta": item.meta}
            for item in completion[0]
        ],
        "replace_from": completion.replace_from,
    }


@method("complete.path", slow=True)
def path(call: Call, word: str, session_id: str | None = None) -> wire.PathCompletion:
    """Files and folders that a word could become; "@" before it is kept."""
    folder = Path(call.session(session_id)["cwd"]) if session_id else Path.cwd()
    mark = "@" if word.startswith("@") else ""
    typed = word[len(mark) :]
    head, slash, tail = typed.rpartition("/")
    try:
        place = folder / Path(head + slash).expanduser() if slash else folder
        names = _names(place, tail)
    except (OSError, ValueError, RuntimeError):  # no such folder, or nobody's home: no candidates
        return {"items": []}
    return {
        "items": [
            {"text": f"{mark}{head}{slash}{name}", "display": name, "meta": meta}
            for name, meta in names[:MOST]
        ]
    }


def _names(place: Path, typed: str) -> list[tuple[str, str]]:
    names = []
    with os.scandir(place) as entries:
        for number, entry in enumerate(entries):
            if number >= LOOKED_AT:
                break
            name = entry.name
            if not name.lower().startswith(typed.lower()) or not name.isprintable():
                continue
            if name.startswith(".") and not typed.startswith("."):
                continue
            is_folder = entry.is_dir()
            names.append((f"{name}/", "folder") if is_folder else (name, "file"))
    return sorted(names, key=lambda item: (item[1] != "folder", item[0].lower()))
