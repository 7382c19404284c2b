"""The gateway, with a platform whose chats are a file: it outlives every gateway."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from gateway.config import Platform
from gateway.delivery import UNSURE
from gateway.session import SessionSource

from ..adapter import Death
from ..script import answer
from .engine import Engine
from .looking import INBOX_ID, RACE, store
from .server import CONFIG


class Gateway(Engine):
    """One chat, whose messages are accepted when the platform may forget them."""

    name = "gateway"
    forks_anywhere: bool | None = False
    subjects: tuple[str, ...] = ("turn", "inbox")
    program = "tests.conformance.children.gateway_child"

    def begin(self, home: Path) -> None:
        """A configuration."""
        (home / "config.yaml").write_text(json.dumps(CONFIG))  # JSON is YAML

    def conversation(self, home: Path) -> str | None:
        """The only session that is no branch."""
        with store(home) as db:
            found = self._select(db, "SELECT id FROM sessions WHERE parent_session_id IS NULL")
        return str(found[0]) if found else None

    def fork(self, home: Path, at: int, death: Death | None = None) -> None:
        """Branch at the end, which is where `at` must be, with a command in the chat."""
        self._order(home, death, do="fork", origin=self.conversation(home))

    def faults(self, home: Path) -> list[str]:
        """Also: answers that the chat shows twice, or neither shows nor was told about."""
        shown = self._shown(home)
        start = answer("")
        times = Counter(text for text in shown if text.startswith(start))
        twice = [f"the chat shows {n} times: {text}" for text, n in times.items() if n > 1]
        answers = [one.text for one in self.history(home) if one.text.startswith(start)]
        with store(home) as db:
            owed = [str(one["content"]) for one in db.list_deliveries(("pending", "sending"))]
        missing = [text for text in answers if text not in shown and text not in owed]
        unsure = sum(text == UNSURE for text in (*shown, *owed))
        untold = [f"not shown, and nobody was told: {missing}"] if len(missing) > unsure else []
        return [*super().faults(home), *twice, *untold]

    @staticmethod
    def _shown(home: Path) -> list[str]:
        file = home / "chat"
        lines = file.read_text().splitlines() if file.exists() else []
        return [str(json.loads(line)["text"]) for line in lines]

    def _prepare(self, home: Path, subject: str) -> dict[str, Any]:
        if subject == "turn":
            self.cut_off(home)
            return {"do": "take_race"}
        source = SessionSource(Platform.LOCAL, "1", chat_type="dm", user_id="u1", user_name="u1")
        with store(home) as db:
            db.accept_message(
                INBOX_ID,
                str(self.conversation(home)),
                RACE,
                source="local",
                session_key="agent:main:local:dm:1",
                user_id="u1",
                facts={"source": source.to_dict()},
            )
        return {"do": "take_race"}
