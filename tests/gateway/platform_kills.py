"""Many kills of a gateway on a scripted platform, at random moments, from a seed.

    python -m tests.gateway.platform_kills slack --kills 100 --seed 1

People write while it runs and while it does not. In the end each message is answered once; on
Discord, which remembers for minutes only what it was sent, and on Signal, which does not remember,
at most once, and told of if it may be missing. What Signal hands out in the very moment of a kill
is gone. What is wrong is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gateway.delivery import BROKEN, UNSURE

from .. import forked
from .chats import CONFIG

CHILD = Path(__file__).with_name("platform_child.py")
CHATS = 8
LONGEST_LIFE = 1.2
"""Seconds after its connection; long enough for a turn and its delivery."""
BLINK = 0.05
"""Seconds before a kill in which a gateway may not have read what lies in its socket."""
NOTICES = {BROKEN, UNSURE}


class Trial:
    """One platform, its people, and what they were answered."""

    def __init__(self, api: Any, section: dict[str, Any], chats: list[str]) -> None:
        self.api = api
        self.section = {**section, "base_url": api.url}
        self.chats = chats
        self.asked: dict[str, list[str]] = {chat: [] for chat in chats}
        self.killed_at: list[float] = []

    async def ask(self, chat: str, text: str) -> None:
        """Somebody writes."""
        raise NotImplementedError

    def lose_connection(self) -> None:
        """What the service forgets when a gateway is gone for long."""

    def problems(self) -> list[str]:
        """What is not as it must be."""
        found = []
        for chat, asked in self.asked.items():
            texts = self.api.texts(chat)
            for text in asked:
                times = sum(f"{text}." in shown for shown in texts)
                is_missing = times == 0 and not NOTICES & set(texts)
                if times > 1 or (is_missing and not self.is_lost(text)):
                    found.append(f"{chat}: {text} was answered {times} times")
        return found

    def is_lost(self, text: str) -> bool:
        """Whether nobody can know of a message any more."""
        return False

    @property
    def is_over(self) -> bool:
        """Whether everybody has got something for everything."""
        return all(
            sum(f"{text}." in "".join(self.api.texts(chat)) or self.is_lost(text) for text in asked)
            + sum(shown in NOTICES for shown in self.api.texts(chat))
            >= len(asked)
            for chat, asked in self.asked.items()
        )


class OnSlack(Trial):
    """Slack gives up delivering now and then; the histories have it."""

    async def ask(self, chat: str, text: str) -> None:
        await self.api.say(f"{text}.", channel=chat, user=f"U{chat}")

    def lose_connection(self) -> None:
        self.api.forget_envelopes()


class OnDiscord(Trial):
    """Sessions end now and then; the histories have what was missed."""

    async def ask(self, chat: str, text: str) -> None:
        await self.api.say(f"<@{self.api.bot_id}> {text}.", channel_id=chat, user_id=chat)

    def lose_connection(self) -> None:
        self.api.sessions.clear()


class OnSignal(Trial):
    """Whatever is handed out is gone; what is not, waits."""

    async def ask(self, chat: str, text: str) -> None:
        await self.api.say(f"{text}.", user=chat)

    def is_lost(self, text: str) -> bool:
        """Whether it was handed out when a gateway was killed: nobody has read it."""
        handed = [
            when
            for when, said in self.api.handed
            if (said["envelope"].get("dataMessage") or {}).get("message") == f"{text}."
        ]
        return any(0 <= killed - when < BLINK for when in handed for killed in self.killed_at)


async def run(name: str, kills: int, seed: int) -> list[str]:
    """Kill a gateway so often; returns what is wrong."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "config.yaml").write_text(f"{CONFIG}agent: {{cut_off_turns: continue}}\n")
        if name == "slack":
            from .slack_api import APP_TOKEN, BOT_TOKEN, SlackApi

            async with SlackApi() as api:
                api.redeliver_seconds = 0.2
                chats = [f"D{number}" for number in range(100, 100 + CHATS)]
                api.members += chats
                section = {"token": BOT_TOKEN, "app_token": APP_TOKEN}
                return await _trial(OnSlack(api, section, chats), name, home, kills, draw)
        if name == "signal":
            from .signal_chats import section as signal_section
            from .signal_daemon import SignalDaemon, person

            async with SignalDaemon() as daemon:
                chats = [person(number) for number in range(100, 100 + CHATS)]
                trial: Trial = OnSignal(daemon, signal_section(daemon), chats)
                return await _trial(trial, name, home, kills, draw)
        from .discord_api import TOKEN, DiscordApi

        async with DiscordApi() as discord:
            chats = [str(number) for number in range(100, 100 + CHATS)]
            for chat in chats:
                discord.add_channel(chat, guild="900")
            trial = OnDiscord(discord, {"token": TOKEN}, chats)
            return await _trial(trial, name, home, kills, draw)


async def _trial(trial: Trial, name: str, home: Path, kills: int, draw: random.Random) -> list[str]:
    api, numbers = trial.api, iter(range(10**9))

    async def somebody_asks() -> None:
        chat = draw.choice(trial.chats)
        text = f"q{next(numbers)}"
        trial.asked[chat].append(text)
        await trial.ask(chat, text)

    # A first time, so that it knows from when on messages are for it.
    await _lives(trial, name, home, lambda: api.until(lambda: api.connected == 1))
    for _ in range(kills):
        for _ in range(draw.randrange(3)):
            await somebody_asks()
        if draw.random() < 0.5:
            trial.lose_connection()

        async def live() -> None:
            if draw.random() < 0.8:  # else it is killed while it starts
                await api.until(lambda: api.connected == 1)
            end = time.monotonic() + draw.uniform(0, LONGEST_LIFE)
            while time.monotonic() < end:
                if draw.random() < 0.3:
                    await somebody_asks()
                await asyncio.sleep(draw.uniform(0, 0.2))

        await _lives(trial, name, home, live)
    await _lives(trial, name, home, lambda: _quiet(trial))
    return trial.problems()


async def _quiet(trial: Trial) -> None:
    try:
        await trial.api.until(lambda: trial.is_over, 60)
    except TimeoutError:
        print("not everything was answered in time")


async def _lives(trial: Trial, name: str, home: Path, until: Callable[[], Awaitable[None]]) -> None:
    section = json.dumps(trial.section)
    child = await forked.start(CHILD, str(home), name, section, environ={**os.environ})
    try:
        await until()
    finally:
        trial.killed_at.append(time.monotonic())
        child.kill()
        await child.wait()
    await trial.api.until(lambda: trial.api.connected == 0)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platform", choices=["discord", "signal", "slack"])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    problems = asyncio.run(run(given.platform, given.kills, given.seed))
    for problem in problems:
        print(problem)
    print(f"{given.platform}: {given.kills} kills, seed {given.seed}, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
