"""Who may talk: those on the list, those who paired, and nobody else.

A stranger who writes in a direct chat gets a short-lived code and nothing more; whoever runs the
gateway lets them in with `hermes pairing approve CODE`. Codes are kept as hashes, and each account
is given few, however many accounts ask. In groups strangers are not answered at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .config import GatewayConfig, PlatformConfig
from .identify import identify
from .session import SessionSource

if TYPE_CHECKING:
    from hermes_state import AsyncSessionDB

log = logging.getLogger(__name__)

ADMIN_COMMANDS = frozenset({
    "restart", "update", "platform", "platforms", "sethome", "debug", "yolo", "reload-mcp",
    "folder",
})  # fmt: skip
"""What concerns the whole gateway, or lets a chat do everything as its account."""

OPERATOR_COMMANDS = frozenset({"people"})
"""What lets one person be another, and so see everything."""

PAIRING = (
    "I do not know you yet. Your pairing code is {code} (valid for an hour). Whoever runs this"
    " gateway lets you in with: hermes pairing approve {code}"
)


class Authorization:
    """Whom this gateway listens to, and whom it obeys."""

    def __init__(self, config: GatewayConfig, db: AsyncSessionDB) -> None:
        self._config = config
        self._db = db

    async def admits(self, source: SessionSource) -> bool:
        """Whether a message may go on: its platform vouches for it, or its sender may talk. Then it
        is noted with the source which person that is."""
        if not source.role_authorized and not await self.is_allowed(source):
            return False
        await identify(self._db, source)
        return True

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

    def may_command(self, source: SessionSource, name: str) -> bool:
        """Whether a person may use a command; some are for administrators and operators."""
        if source.person is not None and source.person.is_operator:
            return True
        if name in OPERATOR_COMMANDS:
            return False
        if name not in ADMIN_COMMANDS:
            return True
        return bool({source.user_id, source.user_id_alt} & set(self._of(source).admins))

    def keep_wall(self, session_id: str, source: SessionSource) -> bool:
        """End the mode `full` of a conversation that comes into a chat where nobody may choose it;
        whether it was."""
        db = self._db.sync
        if db.get_wall_settings(session_id)["mode"] != "full" or self.may_command(source, "yolo"):
            return False
        db.set_wall_mode(session_id, "guarded")
        return True

    def _of(self, source: SessionSource) -> PlatformConfig:
        return self._config.platforms.get(source.platform) or PlatformConfig()
