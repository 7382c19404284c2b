"""Commands about persons: everybody for the operator, one's own doors for everyone."""

from __future__ import annotations

import shlex

from agent import people_actions as actions
from hermes_state import OPERATOR

from .owner import is_at_machine
from .surface import CommandError, Surface
from .table import command


def _words(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(word, "") for word in actions.ACTIONS if word.startswith(typed)]


@command("people", category="Chats", args="[list | show | add | merge | role | …]", complete=_words)
def people(surface: Surface, args: str) -> str:
    """List and change who there is, and by which accounts they come; for operators."""
    try:
        words = shlex.split(args)
    except ValueError as error:
        raise CommandError(f"A quote is not closed: {args}") from error
    me = OPERATOR if is_at_machine(surface) else surface.actor or surface.user_id
    if not me:
        raise CommandError("It is not known who you are here.")
    if surface.actor is not None:
        person = surface.db.get_person(surface.actor)
        if person is None or not person.is_operator:
            raise CommandError("/people is for the operator. If that is you: hermes people code")
    return actions.run(surface.db, words, me)
