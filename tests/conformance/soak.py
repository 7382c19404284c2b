"""The soak: a gateway with many chats, killed every few seconds for minutes, loses nothing.

Every message that the gateway accepted is answered exactly once. Two exceptions are allowed, both
told in the chat: an answer that was on its way when the gateway was killed and may have been shown
or not, and a turn in which three gateways were killed. No effect happens twice, every history is
its script, also through compressions, and the store's own check finds nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.compression.summary import behind_record, is_bridge, is_record
from conversation.abandoned import CUT_OFF
from gateway.delivery import BROKEN, UNSURE
from hermes_state import SessionDB

from ..state.memory import memory_folder
from .adapter import effects
from .chat_platform import Chat, ChatPlatform, by_kind
from .checks import invented, wrong_effects
from .children.soak_child import PORT_FILE
from .implementations.looking import normal
from .implementations.server import CONFIG
from .implementations.wire import Wire
from .script import Message

PROGRAM = "tests.conformance.children.soak_child"
THINKING = 0.3
"""The longest the model thinks before a step, in seconds."""
SETTLE_SECONDS = 120.0
LIMIT = 300
"""Messages at which a conversation is compressed, so that ten minutes see it several times."""
KINDS = {
    "unsure": UNSURE,
    "connection broke": BROKEN,
    "closed": CUT_OFF,
    "outcome unknown": "⚠️ I was stopped while this ran",
}
MISSING_IS_TOLD = (UNSURE, BROKEN, CUT_OFF)
"""What a chat reads when an answer may be, or is, missing."""


class Soak:
    """One run."""

    def __init__(self, home: Path, chats: int, seed: int, limit: int = LIMIT) -> None:
        self.home = home
        self.config = {**CONFIG, "compression": {"hygiene_hard_message_limit": limit}}
        self.chance = random.Random(seed)
        self.platform = ChatPlatform(chats, self.chance)
        self.kills = self.compressions = 0
        self.violations: list[str] = []

    async def run(self, seconds: float, every: float, pause: float, least: int = 0) -> None:
        """Let people talk and kill the gateway; then let it finish what is left.

        Each of them asks at least `least` times, also where that takes longer.
        """
        (self.home / "config.yaml").write_text(json.dumps(self.config))
        server, port = await self.platform.serve()
        (self.home / PORT_FILE).write_text(str(port))
        until = time.monotonic() + seconds

        def goes_on(chat: Chat) -> bool:
            return time.monotonic() < until or len(chat.sent) < least

        people = [
            asyncio.create_task(self.platform.talk(chat, goes_on, pause))
            for chat in self.platform.chats.values()
        ]
        while time.monotonic() < until:
            await self._live(asyncio.sleep(every), killed=True)
        await self._live(self._settled(people), killed=False)
        server.close()
        for task in people:
            task.cancel()

    async def _live(self, meanwhile: Any, *, killed: bool) -> None:
        """One life of the gateway; it ends by SIGKILL."""
        wire = await asyncio.to_thread(
            Wire, PROGRAM, self.home, None, CONFORMANCE_THINKING=str(THINKING)
        )
        try:
            await meanwhile
        finally:
            code = await asyncio.to_thread(wire.end)
            self.kills += killed
            if code != -signal.SIGKILL:
                self.violations.append(f"the gateway ended by itself: exit {code}")

    async def _settled(self, people: Iterable[asyncio.Task[None]]) -> None:
        _, late = await asyncio.wait(people, timeout=SETTLE_SECONDS)
        if late:
            self.violations.append(f"{len(late)} people still wait for an answer")
        # A notice lets a person go on while the turn it is about still runs.
        until = time.monotonic() + SETTLE_SECONDS
        with SessionDB(self.home / "state.db") as db:
            while self._at_work(db) and time.monotonic() < until:
                await asyncio.sleep(0.2)

    def _at_work(self, db: SessionDB) -> bool:
        running = "SELECT 1 FROM turns WHERE state = 'running' LIMIT 1"
        turns = db._database.read(lambda conn: conn.execute(running).fetchall())
        return bool(turns or db.list_waiting() or db.list_deliveries(("pending", "sending")))

    def check(self) -> None:
        """What must hold when everything has come to rest."""
        with SessionDB(self.home / "state.db") as db:
            self.violations += [f"{one.rule}: {one.problem}" for one in db.check_store()]
            left = [*db.list_waiting(), *db.list_abandoned_turns()]
            if left:
                self.violations.append(f"{len(left)} messages or turns are left")
            tips = db.list_sessions_rich(limit=len(self.platform.chats) + 1)
            self.compressions = sum(len(db.get_compression_lineage(one["id"])) - 1 for one in tips)
            histories = {str(one["chat_id"]): _said(db, one["id"]) for one in tips}
        done = effects(self.home)
        sent = [name for chat in self.platform.chats.values() for name in chat.sent]
        told = [message for history in histories.values() for message in history]
        self.violations += wrong_effects(told, done, sent)
        for chat in self.platform.chats.values():
            history = histories.get(chat.name, [])
            self.violations += invented(history, open_end=False)
            asked = [one.text for one in history if one.role == "user"]
            if asked != [name for name in chat.sent if name in asked]:
                self.violations.append(f"chat {chat.name}: the order is {asked}")
            self.violations += self._unanswered(chat, asked)

    def _unanswered(self, chat: Chat, asked: list[str]) -> list[str]:
        answers = chat.answers()
        faults = [f"{name} was answered {n} times" for name, n in answers.items() if n > 1]
        faults += [
            f"{name} was accepted and is lost" for name in chat.accepted if name not in asked
        ]
        faults += [f"{name} was never asked" for name in answers if name not in chat.sent]
        missing = [name for name in asked if name not in answers]
        told = sum(text.startswith(MISSING_IS_TOLD) for text in chat.shown)
        if len(missing) > told:
            faults.append(f"chat {chat.name}: {missing} not answered, {told} notices")
        return faults

    def report(self) -> dict[str, Any]:
        """The numbers of the run."""
        chats = self.platform.chats.values()
        accepted = sum(len(chat.accepted) for chat in chats)
        answered = sum(len(chat.answers()) for chat in chats)
        return {
            "chats": len(self.platform.chats),
            "kills": self.kills,
            "compressions": self.compressions,
            "accepted": accepted,
            "answered exactly once": answered,
            "not shown, and told so": accepted - answered,
            "delivered again to the gateway": self.platform.redelivered,
            "sent again under a known key": self.platform.repeated,
            "notices": by_kind(self.platform.chats, KINDS),
            "violations": self.violations,
        }


def _said(db: SessionDB, session_id: str) -> list[Message]:
    """A conversation as it was said, without what compressions have added."""
    rows = db.get_messages_as_conversation(session_id, include_ancestors=True)
    said = [behind_record(row) if is_record(row) else row for row in rows if not is_bridge(row)]
    return [normal(row) for row in said if row is not None]


def soak(
    chats: int, seconds: float, every: float, seed: int, pause: float = 1.0, limit: int = LIMIT,
    least: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Run it; the report, with its violations. Conversations are compressed at `limit` messages;
    each person asks at least `least` times."""
    with tempfile.TemporaryDirectory() as disk, memory_folder(Path(disk)) as folder:
        run = Soak(folder, chats, seed, limit)
        asyncio.run(run.run(seconds, every, pause, least))
        run.check()
        return run.report()


def main(arguments: list[str]) -> int:
    """0 if nothing was lost or doubled."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance soak", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument("--replicas", type=int, help="so many gateways over one PostgreSQL")
    parser.add_argument("--keep", type=Path, help="with --replicas: a new folder for what is left")
    options = parser.parse_args(arguments)
    if options.replicas:
        from .replicas.run import soak as soak_replicas

        return soak_replicas(options)
    found = soak(options.chats, options.minutes * 60, options.every, options.seed)
    for name, value in found.items():
        if name != "violations":
            print(f"{name}: {value}")
    print(f"violations: {len(found['violations'])}", *found["violations"][:20], sep="\n  ")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
