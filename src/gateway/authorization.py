"""Who may talk: those on the list, those who paired, and nobody else.

A stranger who writes in a direct chat gets a short-lived code and nothing more; whoever runs the
gateway lets them in with `hermes pairing approve CODE`. Codes are kept as hashes, and each account
is given few, however many accounts ask. In groups strangers are not answered at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agent.access import ADMIN, Access, AccessTable
from hermes_state import NOBODY, is_owned

from .config import GatewayConfig, PlatformConfig
from .identify import identify
from .session import SessionSource

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

log = logging.getLogger(__name__)

PAIRING = (
    "I do not know you yet. Your pairing code is {code} (valid for an hour). Whoever runs this"
    " gateway lets you in with: hermes pairing approve {code}"
)


class Authorization:
    """Whom this gateway listens to, and whom it obeys."""

    def __init__(
        self,
        config: GatewayConfig,
        db: AsyncSessionDB,
        table: AccessTable | None = None,
        with_doors: bool = False,
    ) -> None:
        """`table` says who may use what; `with_doors` says that something else goes by the doors of
        whoever writes, too."""
        self._config = config
        self._db = db
        self._table = table or AccessTable()
        self._with_doors = with_doors or self._table.names_people

    async def admits(self, source: SessionSource) -> bool:
        """Whether a message may go on: its platform vouches for it, or its sender may talk. Then it
        is noted with the source which person that is."""
        if not source.role_authorized and not await self.is_allowed(source):
            return False
        await self.identify(source)
        return True

    async def identify(self, source: SessionSource) -> None:
        """Note with a source who its sender is. Whom a platform vouches for, such as the holder of
        a key, was let in by the operator: no guest, whatever others are at first."""
        table = self._table
        role = "member" if source.role_authorized else table.settings.new_people
        await identify(self._db, source, role, with_doors=self._with_doors)

    async def is_theirs(self, source: SessionSource, session_id: str) -> bool:
        """Whether a session is of the person who was identified with a source."""
        session = await self._db.at_hand(self._db.sync.get_session, session_id)
        return is_owned(session, source.owner or NOBODY)

    async def is_allowed(self, source: SessionSource) -> bool:
        """Whether a person is on the list of their platform, or has paired."""
        config = self._of(source)
        if config.allow_all:
            return True
        names = {source.user_id, source.user_id_alt} - {None}
        if names & set(config.allowed_users) or names & set(config.admins):
            return True
        if not source.user_id:
            return False
        return await self._db.is_paired(source.platform.value, source.user_id)

    async def offer_pairing(self, source: SessionSource) -> str | None:
        """What a stranger in a direct chat is told to be let in; None if they are told nothing."""
        log.info("A message of %s on %s was refused", source.user_id, source.platform.value)
        if source.chat_type != "dm" or self._config.unauthorized_dm_behavior != "pair":
            return None
        code = await self._db.offer_pairing(
            source.platform.value, str(source.user_id or ""), source.user_name
        )
        return PAIRING.format(code=code) if code is not None else None

    def access(self, source: SessionSource, key: str | None = None) -> Access:
        """What whoever wrote may use, in the chat of that key."""
        names = (source.owner, *source.doors) if self._table.names_people else ()
        return self._table.find(self._role(source), [name for name in names if name], key)

    def _role(self, source: SessionSource) -> str:
        person = source.person
        if person is not None and person.is_operator:
            return "operator"
        admins = self._of(source).admins
        if admins and {source.user_id, source.user_id_alt} & set(admins):
            return ADMIN
        if person is not None:
            return person.role
        # A platform that vouches for what it hands in need not say who it is from.
        return "member" if source.role_authorized or source.door is not None else "guest"

    def keep_wall(self, session_id: str, source: SessionSource) -> bool:
        """End the mode `full` of a conversation that comes into a chat where nobody may choose it;
        whether it was."""
        db = self._db.sync
        mode = db.get_wall_settings(session_id)["mode"]
        if mode != "full" or self.access(source).why_no_mode("full") is None:
            return False
        db.set_wall_mode(session_id, "guarded")
        return True

    def _of(self, source: SessionSource) -> PlatformConfig:
        return self._config.platforms.get(source.platform) or PlatformConfig()
