"""From one replica to a viewer on another: how soon streamed text is seen there.

Two processes with homes of their own share a database and nothing else. One runs a turn whose model
streams the time, at random moments; the other watches, as a window or the API's events do. The
clock is the machine's, the same for both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from .lab import Lab
from .measure import Finding, progress
from .postgres import server
from .processes import ROOT, clean_environment
from .rows import Row

if TYPE_CHECKING:
    from hermes_state import SessionDB

PIECES, QUICK_PIECES = 120, 20
GOAL = 0.5
"""Seconds within which 95 of 100 are seen."""
LONGEST = 60.0
SESSION = "bench"


def events(lab: Lab) -> list[Finding]:
    """Text that a turn on one replica streams, until a viewer on another has it."""
    progress("streamed text, seen at another replica")
    with server(lab) as address:
        delays = _watch(lab, address, QUICK_PIECES if lab.quick else PIECES)
    late = statistics.quantiles(delays, n=20)[-1]
    return [
        Finding(
            "streamed text, seen by a viewer on another replica: p50 / p95",
            f"{statistics.median(delays) * 1e3:.0f} / {late * 1e3:.0f} ms",
            goal=f"95 of 100 within {GOAL * 1e3:.0f} ms ({late * 1e3:.0f} ms)",
            met=late <= GOAL,
            details={"delays": delays},
            row=Row.of(
                "scaling.events", "streamed text, seen at another replica", "ms",
                {"ours": delays}, 1e3, absent="hermes-agent has no store on a server",
            ),
        )
    ]  # fmt: skip


def _watch(lab: Lab, address: str, pieces: int) -> list[float]:
    """The seconds from each piece's moment until it was seen here."""
    from agent.events import TextStreamed
    from conversation.distant_view import DistantView
    from hermes_state import SessionDB

    homes = [lab.folder / name for name in ("runs", "watches")]
    for home in homes:
        home.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.events_child", str(homes[0]), address, str(pieces)],
        stdin=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT,
        env=clean_environment(lab.folder / "runs-home"),
    )  # fmt: skip
    assert process.stdin is not None
    delays: list[float] = []
    try:
        with SessionDB(homes[1] / "state.db", server=address) as db:
            _await_turn(db)
            view = DistantView(db, SESSION)
            is_shown = threading.Event()

            def watch() -> None:
                for _, event in view:
                    now = time.time()
                    is_shown.set()
                    if isinstance(event, TextStreamed):
                        delays.extend(now - float(moment) for moment in event.text.split())
                    if len(delays) >= pieces:
                        return

            watching = threading.Thread(target=watch, daemon=True)
            watching.start()
            is_shown.wait(LONGEST)  # the turn's owner knows of the viewer
            process.stdin.write("\n")
            watching.join(LONGEST)
            view.close()
    finally:
        process.stdin.close()
        process.wait(LONGEST)
    if len(delays) < pieces:
        raise RuntimeError(f"Only {len(delays)} of {pieces} pieces were seen.")
    return delays


def _await_turn(db: SessionDB) -> None:
    deadline = time.monotonic() + LONGEST
    while (db.get_turn(SESSION) or {}).get("state") != "running":
        if time.monotonic() > deadline:
            raise RuntimeError("The other replica has not begun its turn.")
        time.sleep(0.05)
