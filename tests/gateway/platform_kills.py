"""Many kills of gateways on the platforms that tests play, from a seed.

    make conformance PLATFORMS=1000                     # over all of them
    python -m tests.gateway.platform_kills slack --kills 100 --seed 1

A gateway is killed at a named point of a message's way (`gateway.conformance.kill_checks.POINTS`)
or at a random moment, while people write, who also write while it is gone. In the end each message
is answered exactly once; where the platform cannot show a repeated text once, at most once, and a
notice in the chat says for each that may be missing that it may be. What Signal handed out right
before a kill, and the store never had, is left out. What is wrong is printed, and
the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from gateway.conformance.kill_checks import CHILD, POINTS
from gateway.conformance.serving import ECHO
from hermes_state import SessionDB

from .. import forked
from .adapter_conformance import Place, until

PEOPLE = 6
LONGEST_LIFE = 0.6
"""Seconds of a life that ends at a random moment; long enough for a turn and its delivery."""
PATIENCE = 120.0
"""Seconds in which everything that is owed must have come."""
PLACES: dict[str, Callable[[Path], AbstractAsyncContextManager[Place]]] = {}


def place(make: Callable[[Path], AsyncIterator[Place]]) -> None:
    """Add a platform under the name of the function that plays it."""
    PLACES[make.__name__] = asynccontextmanager(make)


@place
async def telegram(folder: Path) -> AsyncIterator[Place]:
    from .bot_api import BotApi
    from .telegram_chats import TelegramPlace

    async with BotApi() as api:
        yield TelegramPlace(api)


@place
async def discord(folder: Path) -> AsyncIterator[Place]:
    from .discord_api import DiscordApi
    from .discord_chats import DiscordPlace

    async with DiscordApi() as api:
        yield DiscordPlace(api, folder)


@place
async def slack(folder: Path) -> AsyncIterator[Place]:
    from .slack_api import SlackApi
    from .slack_chats import SlackPlace

    async with SlackApi() as api:
        yield SlackPlace(api, folder)


@place
async def signal(folder: Path) -> AsyncIterator[Place]:
    from .signal_chats import SignalPlace
    from .signal_daemon import SignalDaemon

    async with SignalDaemon() as daemon:
        yield SignalPlace(daemon, folder)


@place
async def whatsapp(folder: Path) -> AsyncIterator[Place]:
    from .whatsapp_api import WhatsAppApi
    from .whatsapp_chats import WhatsAppPlace

    async with WhatsAppApi() as api:
        yield WhatsAppPlace(api, folder)


@place
async def irc(folder: Path) -> AsyncIterator[Place]:
    from .irc_network import Between, IrcPlace, Ngircd

    server = Ngircd(folder)
    server.start()
    try:
        async with Between(server.port) as between:
            played = IrcPlace(between, server)
            yield played
            played.close()
    finally:
        server.stop()


@place
async def email(folder: Path) -> AsyncIterator[Place]:
    from .mail_chats import MailPlace
    from .mail_server import Dovecot, Post, Wire

    server = Dovecot()
    server.start()
    try:
        async with Post(server.new_mailbox()) as post, Wire(server.port) as wire:
            yield MailPlace(post, wire, folder)
    finally:
        server.stop()


@place
async def xmpp(folder: Path) -> AsyncIterator[Place]:
    from .xmpp_chats import XmppPlace
    from .xmpp_server import Files, Person, Prosody, Wire

    (folder / "prosody").mkdir()
    server = Prosody(folder / "prosody")
    server.start()
    try:
        async with (
            Wire(server.port) as wire,
            Files() as files,
            Person(server, server.add_account("ann")) as ann,
        ):
            played = XmppPlace(server, wire, files, ann, folder, with_room=True)
            yield played
            await played.close()
    finally:
        server.stop()


@place
async def ntfy(folder: Path) -> AsyncIterator[Place]:
    from .ntfy_server import NtfyServer
    from .test_example_platform import NtfyPlace

    async with NtfyServer() as server:
        yield NtfyPlace(server, folder)


class Trial:
    """One platform, its people, and what they were answered."""

    def __init__(self, place: Place, home: Path, seed: int) -> None:
        self.place, self.home, self.draw = place, home, random.Random(seed)
        self.asked: dict[str, list[str]] = {}
        """The questions of each chat."""
        self.killed_at: list[float] = []
        self.points: Counter[str] = Counter()
        """How often it was killed where."""
        self._count = 0

    async def ask(self) -> str:
        """Somebody writes; returns the question."""
        question = f"q{self._count}."
        self._count += 1
        chat = await self.place.person_leaves(question, self.draw.randrange(PEOPLE))
        self.asked.setdefault(chat, []).append(question)
        return question

    async def run(self, kills: int) -> list[str]:
        """Kill a gateway so often; returns what is wrong."""
        await self.place.prepare(self.home)
        # A first time, so that it knows from when on messages are for it.
        await self._live("", lambda: asyncio.sleep(0))
        keeps = self.place.keeps_for_later
        points = POINTS if keeps else POINTS[1:]
        for number in range(kills):
            if keeps:
                for _ in range(self.draw.randrange(3)):
                    await self.ask()
                if self.draw.random() < 0.5:
                    await self.place.forgets()
            if number % 2 or not keeps:
                await self._die_at(self.draw.choice(points))
            else:
                await self._die_at_random()
        with SessionDB(self.home / "state.db") as db:
            await self._live("", lambda: self._end(db))
        return self.problems()

    async def _die_at(self, point: str) -> None:
        reached = asyncio.Event()

        async def ask_and_wait() -> None:
            await self.ask()
            await asyncio.wait_for(reached.wait(), PATIENCE)

        await self._live(f"{point}:q{self._count}.", ask_and_wait, reached)
        self.points[point] += 1

    async def _die_at_random(self) -> None:
        async def chat() -> None:
            end = time.monotonic() + self.draw.uniform(0, LONGEST_LIFE)
            while time.monotonic() < end:
                if self.draw.random() < 0.3:
                    await self.ask()
                await asyncio.sleep(self.draw.uniform(0, 0.1))

        if self.draw.random() < 0.2:  # while it starts
            pause = self.draw.uniform(0, 0.2)
            await self._live("", lambda: asyncio.sleep(pause), is_awaited=False)
        else:
            await self._live("", chat)
        self.points["a random moment"] += 1

    async def _live(
        self,
        point: str,
        meanwhile: Callable[[], object],
        reached: asyncio.Event | None = None,
        *,
        is_awaited: bool = True,
    ) -> None:
        """Start a gateway, do something, and kill it."""
        name = self.place.adapter.platform.value
        section = json.dumps(self.place.section())
        child = await forked.start(
            CHILD, str(self.home), name, section, point, environ={**os.environ}
        )
        listening = asyncio.Event()

        async def listen() -> None:
            while line := await child.stdout.readline():
                (listening if json.loads(line)["at"] == "start" else reached or listening).set()

        task = asyncio.create_task(listen())
        try:
            if is_awaited:
                await asyncio.wait_for(listening.wait(), PATIENCE)
                await self.place.is_there(self.home)
            await meanwhile()  # type: ignore[misc]
        finally:
            self.killed_at.append(time.monotonic())
            child.kill()
            await child.wait()
            await task
        await self.place.is_deserted()

    async def _end(self, db: SessionDB) -> None:
        try:
            await until(
                lambda: self.is_over and not db.list_deliveries(("pending", "sending")), PATIENCE
            )
        except TimeoutError:
            print("not everything was answered in time", flush=True)

    @property
    def is_over(self) -> bool:
        """Whether everybody has got something for everything."""
        return all(len(self._missing(chat)) <= self._notices(chat) for chat in self.asked)

    def problems(self) -> list[str]:
        """What is not as it must be."""
        found = []
        for chat, asked in self.asked.items():
            texts = self.place.shown_in(chat)
            for question in asked:
                if texts.count(f"{ECHO}{question}") > 1:
                    found.append(f"{chat}: {question} was answered twice: {texts}")
            missing = self._missing(chat)
            if len(missing) > self._notices(chat):
                found.append(f"{chat}: {missing} were not answered: {texts}")
        return found

    def _missing(self, chat: str) -> list[str]:
        texts = set(self.place.shown_in(chat))
        missing = [question for question in self.asked[chat] if f"{ECHO}{question}" not in texts]
        return [each for each in missing if not self._is_lost(each)]

    def _is_lost(self, question: str) -> bool:
        """Whether a message never came into the store, and could not."""
        if not self.place.is_lost(question, self.killed_at):
            return False
        with SessionDB(self.home / "state.db") as db:
            found = db._execute_write(
                lambda conn: list(
                    conn.execute("SELECT 1 FROM inbox WHERE content LIKE ?", (f"%{question}%",))
                )
            )
        return not found

    def _notices(self, chat: str) -> int:
        return sum(text.startswith("⚠️") for text in self.place.shown_in(chat))


async def run(name: str, kills: int, seed: int) -> tuple[Trial, list[str]]:
    """Kill gateways of one platform; what was tried, and what is wrong."""
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        os.environ["HERMES_HOME"] = str(Path(folder, "own"))
        async with PLACES[name](Path(folder)) as place:
            trial = Trial(place, Path(folder, "home"), seed)
            problems = await trial.run(kills)
            unanswered = sum(len(trial._missing(chat)) for chat in trial.asked)
            questions = sum(map(len, trial.asked.values()))
            print(
                f"{name}: {kills} kills, seed {seed}, {questions} messages,"
                f" {unanswered} said to be possibly missing, {len(problems)} violations;"
                f" died at {', '.join(f'{at} {n}' for at, n in sorted(trial.points.items()))}",
                flush=True,
            )
            return trial, problems


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platform", nargs="*", help=f"of {', '.join(PLACES)}; all if left out")
    parser.add_argument("--kills", type=int, default=100, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="platforms at once")
    given = parser.parse_args()
    names = given.platform or list(PLACES)
    if unknown := set(names) - set(PLACES):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(PLACES)}")
    if len(names) == 1:
        try:
            problems = asyncio.run(run(names[0], given.kills, given.seed))[1]
        except pytest.skip.Exception as missing:
            print(f"{names[0]} is left out: {missing}", flush=True)
            return 0
        for problem in problems:
            print(problem)
        return 1 if problems else 0
    kills = str(-(-given.kills // len(names)))

    def apart(name: str) -> int:
        command = [sys.executable, "-m", __spec__.name, name]
        return subprocess.run(
            [*command, "--kills", kills, "--seed", str(given.seed)], check=False
        ).returncode

    with ThreadPoolExecutor(given.jobs) as pool:
        codes = list(pool.map(apart, names))
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
