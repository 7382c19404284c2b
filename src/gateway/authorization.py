"""Who may talk: those on the list, those who paired, and nobody else.

A stranger who writes in a direct chat gets a short-lived code and nothing more; whoever runs the
gateway lets them in with `hermes pairing approve CODE`. Codes are kept as hashes, and each account
is given few, however many accounts ask. In groups strangers are not answered at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .config import PlatformConfig
from .platforms.base import MessageEvent
from .session import SessionSource

if TYPE_CHECKING:
    from .run import GatewayRunner

log = logging.getLogger(__name__)

ADMIN_COMMANDS = frozenset({
    "restart", "update", "platform", "platforms", "sethome", "debug", "yolo", "reload-mcp",
    "folder",
})  # fmt: skip
"""What concerns the whole gateway, or lets a chat do everything as its account."""


async def authorise(runner: GatewayRunner, event: MessageEvent) -> bool:
    """Whether a message may go on; a stranger in a direct chat is told how to be let in."""
    source = event.source
    if source.role_authorized or await is_allowed(runner, source):
        return True
    log.info("A message of %s on %s was refused", source.user_id, source.platform.value)
    if source.chat_type == "dm" and runner.config.unauthorized_dm_behavior == "pair":
        code = await runner._session_db.offer_pairing(
            source.platform.value, str(source.user_id or ""), source.user_name
        )
        if code is not None:
            key = runner.session_store._generate_session_key(source)
            await runner.delivery.say(
                source,
                key,
                f"I do not know you yet. Your pairing code is {code} (valid for an hour). Whoever"
                f" runs this gateway lets you in with: hermes pairing approve {code}",
            )
    return False


async def is_allowed(runner: GatewayRunner, source: SessionSource) -> bool:
    """Whether a person is on the list of their platform, or has paired."""
    config = runner.config.platforms.get(source.platform) or PlatformConfig()
    if config.allow_all:
        return True
    names = {source.user_id, source.user_id_alt} - {None}
    if names & set(config.allowed_users) or names & set(config.admins):
        return True
    if not source.user_id:
        return False
    return bool(await runner._session_db.is_paired(source.platform.value, source.user_id))


def keep_wall(runner: GatewayRunner, session_id: str, source: SessionSource) -> bool:
    """End the mode `full` of a conversation that comes into a chat where nobody may choose it."""
    db = runner._session_db.sync
    if db.get_wall_settings(session_id)["mode"] != "full" or may_command(runner, source, "yolo"):
        return False
    db.set_wall_mode(session_id, "guarded")
    return True


def may_command(runner: GatewayRunner, source: SessionSource, name: str) -> bool:
    """Whether a person may use a command; some are for administrators."""
    if name not in ADMIN_COMMANDS:
        return True
    config = runner.config.platforms.get(source.platform) or PlatformConfig()
    return bool({source.user_id, source.user_id_alt} & set(config.admins))
