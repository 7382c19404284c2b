"""Whose door a message came by: looked up once, where it comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB, Person

    from .session import SessionSource


async def person_at(
    db: AsyncSessionDB, door: str, name: str | None = None, role: str = "member"
) -> Person:
    """The person who comes by a door; somebody new, called `name`, if nobody has yet."""
    known = await db.at_hand(db.sync.find_person, door)
    return known if known is not None else await db.ensure_person(door, name, role)


async def identify(
    db: AsyncSessionDB, source: SessionSource, role: str = "member", *, with_doors: bool = False
) -> None:
    """Note with a source who its sender is, if that is known at all; somebody new gets `role`."""
    if source.door is None:
        return
    source.person = await person_at(db, source.door, source.user_name, role)
    if with_doors:
        source.doors = tuple(await db.at_hand(db.sync.list_doors, source.person.id))
