"""Whether anything is limited for somebody: asked with each message, so no costs nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_state import Person

    from .config import Config
    from .limits import LimitTable


def limits_of(
    config: Config, owner: str | None, person: Person | None, doors: Collection[str] = ()
) -> LimitTable | None:
    """What a session's owner may use; None if nothing is limited for them.

    `person` is who that is, with what is kept with them; None if there is no such person. `doors`
    are theirs, wanted where limits are set for single persons.
    """
    if not config.section("limits") and not (person and person.limits):
        return None
    from .limits import build_limits

    return build_limits(config, owner, person, doors)
