"""Whose a row is: the one place that turns a person into a condition, and back.

What belongs to the operator, who sits at the machine, has no name in the column (NULL, or '' where
a key needs a value): so it was before there were persons, and so other programs write it. Everybody
else's rows carry their person's id.

Whoever reads people's things says whose, a person's or `EVERYONE`'s (`owned`). Only the public
methods of `SessionDB`, which scripts call, take None for everybody.
"""

from __future__ import annotations

import enum
from typing import Any, Final

OPERATOR: Final = "operator"
"""The person at the machine."""
LOCAL_DOOR: Final = "terminal:local"
"""The door of whoever sits at the machine."""
NOBODY: Final = ""
"""Stands for a sender who is not known: nothing is theirs."""


class Everyone(enum.Enum):
    """In the place of a person: whoever it is."""

    EVERYONE = "everyone"


EVERYONE: Final = Everyone.EVERYONE
Owner = str | Everyone
"""A person's id, or everybody: what the operator may ask for."""


def stored_owner(person_id: str | None) -> str | None:
    """A person as a column has them that may be NULL."""
    return None if person_id in (None, OPERATOR, NOBODY) else person_id


def owner_key(person_id: str | None) -> str:
    """A person as a column has them that is part of a key."""
    return stored_owner(person_id) or ""


def person_of(owner: str | None) -> str:
    """The person that a column names."""
    return owner or OPERATOR


def is_owned(row: dict[str, Any] | None, owner: Owner) -> bool:
    """Whether a row with `user_id` is there and may be shown to `owner`."""
    if row is None:
        return False
    return isinstance(owner, Everyone) or person_of(row["user_id"]) == owner


def owned(column: str, owner: Owner) -> tuple[str, tuple[Any, ...]]:
    """A condition for rows that may be shown to `owner`, to follow others, and its values."""
    if isinstance(owner, Everyone):
        return "", ()
    if owner == NOBODY:
        return " AND 1 = 0", ()
    if owner == OPERATOR:
        return f" AND ({column} IS NULL OR {column} = '')", ()
    return f" AND {column} = ?", (owner,)


def asked_owner(user_id: str | None) -> Owner:
    """Whom a public method means by `user_id`: None is everybody."""
    return EVERYONE if user_id is None else user_id
