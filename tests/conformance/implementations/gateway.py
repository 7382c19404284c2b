"""The gateway, with a platform that lives in its process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.config import Platform
from gateway.session import SessionSource

from .engine import Engine
from .looking import INBOX_ID, store
from .server import CONFIG


class Gateway(Engine):
    """One chat, whose messages are accepted when the platform may forget them."""

    name = "gateway"
    forks_anywhere: bool | None = None
    subjects: tuple[str, ...] = ("inbox",)
    program = "tests.conformance.children.gateway_child"

    def begin(self, home: Path) -> None:
        """A configuration."""
        (home / "config.yaml").write_text(json.dumps(CONFIG))  # JSON is YAML

    def conversation(self, home: Path) -> str | None:
        """The only session there is."""
        with store(home) as db:
            found = self._select(db, "SELECT id FROM sessions WHERE parent_session_id IS NULL")
        return str(found[0]) if found else None

    def _prepare(self, home: Path, subject: str) -> dict[str, Any]:
        source = SessionSource(Platform.LOCAL, "1", chat_type="dm", user_id="u1", user_name="u1")
        with store(home) as db:
            db.accept_message(
                INBOX_ID,
                str(self.conversation(home)),
                "race",
                source="local",
                session_key="agent:main:local:dm:1",
                user_id="u1",
                facts={"source": source.to_dict()},
            )
        return {"do": "take_inbox"}
