"""Commands as they are typed where a client keeps lines that begin with / to itself."""

from __future__ import annotations


def as_command(text: str) -> str | None:
    """The command a line is, if it is one; "!stop" is "/stop".

    Many clients keep a line that begins with / to themselves.
    """
    from agent.slash.table import lookup, parse

    if text[:1] not in ("!", "/") or not text[1:2].isalpha():
        return None
    line = f"/{text[1:]}"
    name = parse(line)[0]
    # Chats have a command that is not in the shared table.
    return line if name == "last" or lookup(name, "gateway") is not None else None
