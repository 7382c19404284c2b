"""Commands for where a conversation is reached: other chats, and the home chat."""

from __future__ import annotations

from .surface import CommandError, Surface
from .table import command

CATEGORY = "Chats"


@command("link", category=CATEGORY, args="[person] [code]", scope="gateway")
def link(surface: Surface, args: str) -> str:
    """Be in one conversation, or (person) be one person, in several chats: a code from here."""
    return surface.link(args)


@command("unlink", category=CATEGORY, args="[all | person]", scope="gateway")
def unlink(surface: Surface, args: str) -> str:
    """Give this chat a conversation of its own again, or (all) send the others out."""
    if args.lower() == "person":
        return surface.unlink_person()
    if args.lower() not in ("", "all"):
        raise CommandError(
            "/unlink knows all: it sends every other chat out; and person: it undoes /link person."
        )
    return surface.unlink(bool(args))


def _switch(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(word, "") for word in ("on", "off") if word.startswith(typed)]


@command("follow", category=CATEGORY, args="[on | off]", scope="gateway", complete=_switch)
def follow(surface: Surface, args: str) -> str:
    """Show here what you say and are told elsewhere in this chat's conversation."""
    wanted = {"": None, "on": True, "off": False}
    if args.lower() not in wanted:
        raise CommandError("/follow on shows it here, /follow off no longer does.")
    if surface.follow(wanted[args.lower()]):
        return "What you say elsewhere in this chat's conversation is shown here. /follow off"
    return "What you say elsewhere in this chat's conversation is not shown here. /follow on"


@command("sethome", category=CATEGORY, aliases=("set-home",), scope="gateway")
def sethome(surface: Surface, args: str) -> str:
    """Make this the chat to which conversations are handed over; for administrators."""
    return surface.set_home()
