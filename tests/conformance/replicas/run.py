"""Several gateways over one database, hurt all the time: everything is answered once.

`python -m tests.conformance --replicas 3 --faults 200 --seed 7`: real processes, a real PostgreSQL,
people in chats and programs at the API. `checker.py` decides, from what those saw.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import postgres
from ...state.memory import memory_folder
from .checker import NOTICE, answered_name, violations
from .faults import Faults
from .fleet import Fleet, Replica
from .history import History
from .people import People
from .platform import Telegram
from .proxy import Balancer
from .world import EffectServer, ModelServer

SOAK_LEASE = 10.0
SOAK_PAUSE = 8.0
"""With many chats: they would only wait for each other."""
SHOWN, SHOWN_CHATS = 20, 5
"""How many violations are printed, and of how many chats what happened there."""
SETTLE_LEASES = 20
"""So many leases after the last fault everything must have been answered."""


@dataclass(frozen=True)
class Settings:
    """What a run is like."""

    replicas: int = 3
    chats: int = 12
    """How many people talk at once."""
    programs: int = 3
    """How many programs use the API at once."""
    seed: int = 1
    lease: float = 3.0
    thinking: float = 0.2
    """The longest the model thinks before a step, in seconds."""
    acting: float = 0.1
    """The longest a tool takes."""
    pause: float = 0.5
    """The longest a person waits before asking again."""
    cuttable: bool = True
    """Whether the ways to the database can be cut; else they are not in the way."""


@dataclass
class Found:
    """What came of a run."""

    history: History
    problems: list[str]
    faults: dict[str, int]
    seconds: float
    lives: int

    def report(self) -> dict[str, Any]:
        """The numbers."""
        history = self.history
        answers = sum(answered_name(shown.text) is not None for shown in history.shown)
        notices: dict[str, int] = {}
        for shown in history.shown:
            if shown.text.startswith(NOTICE):
                notices[shown.text[:60]] = notices.get(shown.text[:60], 0) + 1
        return {
            "faults": sum(self.faults.values()),
            "by kind": dict(sorted(self.faults.items())),
            "lives of gateways": self.lives,
            "seconds": round(self.seconds),
            "sent": len(history.said),
            "answered": answers,
            "notices": notices,
            "effects": len(history.effects),
            "times the platform moved": _moves(history),
            "violations": self.problems,
        }


def _moves(history: History) -> int:
    return sum(
        one.replica != other.replica
        for one, other in zip(history.polls, history.polls[1:], strict=False)
    )


Hurt = Callable[[Faults], Awaitable[None]]


async def live(folder: Path, server: postgres.Server, settings: Settings, hurt: Hurt) -> Found:
    """Let gateways serve while `hurt` goes on, then settle; what was seen, and what is wrong."""
    chance = random.Random(settings.seed)
    history, began = History(), time.monotonic()
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(Telegram(history))
        model = await stack.enter_async_context(ModelServer(history, chance, settings.thinking))
        effects = await stack.enter_async_context(EffectServer(history, chance, settings.acting))
        fleet = Fleet(folder, chance, settings.lease)
        server.create(fleet.database)
        stack.callback(fleet.close)

        def start(replica: Replica) -> None:
            fleet.start(replica, effects.url)

        for number in range(1, settings.replicas + 1):
            url = server.url(fleet.database)
            start(
                await fleet.add(
                    f"r{number}", url, telegram.url, model.url, cuttable=settings.cuttable
                )
            )
        balancer = Balancer(fleet.ports)
        await balancer.start()
        stack.callback(balancer.close)
        people = People(history, telegram, chance, settings.pause)
        is_over = False
        talks = [
            asyncio.create_task(people.talk(lambda: not is_over)) for _ in range(settings.chats)
        ] + [
            asyncio.create_task(people.use_api(balancer.port, lambda: not is_over))
            for _ in range(settings.programs)
        ]
        reviving = asyncio.create_task(_revive(fleet, effects.url))
        stack.callback(reviving.cancel)
        faults = Faults(fleet, history, chance, server, start)
        await hurt(faults)
        is_over = True
        problems = await _settle(talks, people, settings.lease * SETTLE_LEASES)
        problems += faults.problems
        reviving.cancel()
        for replica in fleet.replicas:
            fleet.kill(replica)
        problems += fleet.ended
        lives = sum(replica.lives for replica in fleet.replicas)
    problems += violations(history)
    return Found(history, problems, faults.counts, time.monotonic() - began, lives)


async def _revive(fleet: Fleet, effects: str) -> None:
    while True:
        fleet.revive(effects)
        await asyncio.sleep(0.1)


async def _settle(talks: list[asyncio.Task[None]], people: People, seconds: float) -> list[str]:
    done, late = await asyncio.wait(talks, timeout=seconds)
    problems = [f"a client failed: {task.exception()!r}" for task in done if task.exception()]
    for task in late:
        task.cancel()
    now = time.monotonic()
    return problems + [
        f"{chat} waits for an answer since {now - since:.0f} s"
        for chat, since in people.waiting.items()
    ]


def run(settings: Settings, hurt: Hurt, keep: Path | None = None) -> Found:
    """A whole run; homes, logs and the history are left in the folder `keep`, if one is named."""
    with ExitStack() as stack:
        if keep is None:
            disk = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder = stack.enter_context(memory_folder(disk))
        else:
            folder = keep
            folder.mkdir(parents=True)
        server = stack.enter_context(postgres.own_server())
        found = asyncio.run(live(folder, server, settings, hurt))
        if keep is not None:
            (keep / "history.json").write_text(found.history.to_json())
        return found


def main(options: argparse.Namespace) -> int:
    """Make the faults that were asked for; 0 if nothing was violated."""
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    settings = Settings(
        replicas=options.replicas, chats=options.chats, seed=seed, lease=options.lease
    )

    async def hurt(faults: Faults) -> None:
        await asyncio.sleep(options.quiet)
        await faults.make(options.faults)

    return show(run(settings, hurt, options.keep))


def soak(options: argparse.Namespace) -> int:
    """Many chats, and one replica killed every few seconds for minutes."""
    settings = Settings(
        replicas=options.replicas, chats=options.chats, programs=options.chats // 10,
        seed=options.seed, lease=SOAK_LEASE, thinking=0.3, pause=SOAK_PAUSE, cuttable=False,
    )  # fmt: skip

    async def hurt(faults: Faults) -> None:
        faults.down = (0.0, 0.05)
        await faults.every(options.every, options.minutes * 60, "kill")

    found = run(settings, hurt, options.keep)
    if options.json:
        options.json.write_text(json.dumps(found.report(), indent=1, ensure_ascii=False) + "\n")
    return show(found)


def show(found: Found) -> int:
    """Print what came of a run; 0 if nothing was violated."""
    for name, value in found.report().items():
        if name != "violations":
            print(f"{name}: {value}")
    problems = list(dict.fromkeys(found.problems))
    print(f"violations: {len(found.problems)}", *problems[:SHOWN], sep="\n  ")
    chats = dict.fromkeys(problem.partition(":")[0].partition(" ")[0] for problem in problems)
    known = {said.chat for said in found.history.said}
    for chat in [chat for chat in chats if chat in known][:SHOWN_CHATS]:
        print(f"\n{chat}\n{found.history.of_chat(chat)}")
    return 1 if found.problems else 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a run with replicas."""
    parser.add_argument("--replicas", type=int, help="gateways over one PostgreSQL, so many")
    parser.add_argument("--faults", type=int, default=100, help="with --replicas: how many")
    parser.add_argument("--chats", type=int, default=12, help="with --replicas: people at once")
    parser.add_argument("--lease", type=float, default=3.0, help="with --replicas: seconds")
    parser.add_argument(
        "--quiet", type=float, default=5.0, help="with --replicas: seconds before the first fault"
    )
    parser.add_argument("--keep", type=Path, help="with --replicas: a new folder for what is left")
