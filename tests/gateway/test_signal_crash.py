"""A gateway on Signal that is killed at any moment: what was handed to it is answered, or told of.

Signal names a message by when it was sent, so an answer that was being sent is not sent again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from conversation.abandoned import CUT_OFF
from gateway.delivery import BROKEN, UNSURE

from .. import forked
from .chats import CONFIG
from .signal_chats import section
from .signal_daemon import SignalDaemon, person

CHILD = Path(__file__).with_name("platform_child.py")


async def _killed_when(home: Path, daemon: SignalDaemon, fits: Callable[[], bool]) -> None:
    given = json.dumps(section(daemon))
    child = await forked.start(CHILD, str(home), "signal", given, environ={**os.environ})
    try:
        await daemon.until(fits, 60)
    finally:
        child.kill()
        await child.wait()
    await daemon.until(lambda: daemon.connected == 0)


async def test_a_gateway_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    chats = [person(number) for number in range(100, 112)]
    notices = {BROKEN, UNSURE, CUT_OFF}
    async with SignalDaemon() as daemon:
        for chat in chats:
            await daemon.say("hello", user=chat)
        await _killed_when(tmp_path, daemon, lambda: len(daemon.receipts) >= 2)
        await _killed_when(tmp_path, daemon, lambda: len(daemon.sent) >= 3)
        await _killed_when(tmp_path, daemon, lambda: all(daemon.texts(chat) for chat in chats))
        # While nobody is there.
        for chat in chats:
            await daemon.say("again", user=chat)
        await _killed_when(
            tmp_path, daemon, lambda: all("re: again" in daemon.texts(chat) for chat in chats)
        )
    for chat in chats:
        texts = daemon.texts(chat)
        assert texts.count("re: hello") <= 1 and texts.count("re: again") == 1
        assert set(texts) <= {"re: hello", "re: again"} | notices
        assert set(texts[:-1]) & ({"re: hello"} | notices)
    answered = sum("re: hello" in daemon.texts(chat) for chat in chats)
    assert answered >= len(chats) - 9  # at most three were being sent at each of three deaths
