"""Runs that another process carries out, or did, by what is stored of them.

A run's turn is found by the message that it began with. Its events are watched as those of any turn
of another process (`conversation.watching`), for as long as a client reads them: while nobody does,
nothing is stored for it. A stop names the turn, an approval is a row of the store.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from agent.elsewhere import NotHeardError, stop_elsewhere
from agent.model import Usage
from agent.outcome import TurnOutcome
from conversation.abandoned import other_turn
from conversation.events import TURN_SHIFT, Numbered
from conversation.stored_turns import stored_outcome, stored_turn
from conversation.watching import follow_turn
from gateway.config import Platform
from hermes_state import StoreError

from .context import Api
from .errors import ApiError
from .outcomes import http_outcome
from .run_events import Run
from .sse import Outlet, SseResponse

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks whether a turn has ended, should its notification be lost."""
LAST_SECONDS = 0.5
"""For the last events of a turn that has ended, which come by another way."""
NOT_KEPT = "Some events are not kept any more; what follows is all that was said."
INTERRUPTED = "It was interrupted by a restart."


class RunsElsewhere:
    """Shows, answers and stops the runs of other processes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._following: set[asyncio.Task[None]] = set()

    async def find(self, owner: str, run_id: str) -> dict[str, Any]:
        """How a run is; ApiError if there is none."""
        return await self._api.at_hand(self._find, owner, run_id)

    def _find(self, owner: str, run_id: str) -> dict[str, Any]:
        api, session_id = self._api, self._session_of(owner, run_id)
        shown = {"object": "hermes.run", "run_id": run_id, "session_id": run_id.partition(".")[2]}
        names, door = _names(run_id), f"{Platform.API_SERVER.value}:{owner}"
        for row in api.db.list_waiting(source="api_server", with_held=True):
            if row["user_id"] == door and row["platform_message_id"] in names:
                return {**shown, "status": "queued"}
        if api.view(owner).session(session_id) is None:
            raise unknown_run(run_id)
        if not any(stored_turn(api.db, session_id, name) for name in names):
            raise unknown_run(run_id)
        outcome = self._outcome(owner, run_id)
        is_open = any(api.requests.is_open(f"api_server:{owner}:{name}") for name in names)
        if is_open or (outcome is None and other_turn(api.db, session_id) is not None):
            waits = bool(api.view(owner).asked(session_id))
            return {**shown, "status": "waiting_for_approval" if waits else "running"}
        if outcome is None:
            return {**shown, "status": "failed", "error": INTERRUPTED}
        if outcome.failed:
            return {**shown, "status": "failed", "error": outcome.error}
        return {
            **shown, "status": "cancelled" if outcome.interrupted else "completed",
            "output": outcome.text,
        }  # fmt: skip

    def _session_of(self, owner: str, run_id: str) -> str:
        return self._api.own_id(owner, run_id.partition(".")[2])

    async def find_turn(
        self, owner: str, run_id: str
    ) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
        """How a run is, and its turn while that runs."""
        api = self._api
        session_id = await api.at_hand(self._session_of, owner, run_id)
        # Before it is asked how the run is: if it still runs then, this is its turn. Had another
        # one begun before, the run would have been closed in the history.
        turn = await api.at_hand(other_turn, api.db, session_id)
        shown = await self.find(owner, run_id)
        return shown, turn if is_running(shown) else None

    async def stop(self, owner: str, run_id: str) -> str:
        """Stop a run; what is said of it then. ApiError."""
        shown, turn = await self.find_turn(owner, run_id)
        if shown["status"] == "queued":
            raise ApiError(409, "It has not begun yet.", code="run_not_active")
        if turn is None:
            return str(shown["status"])
        try:
            is_stopped = await asyncio.to_thread(
                stop_elsewhere, self._api.db, turn["session_id"], turn["started_at"]
            )
        except NotHeardError as error:
            raise ApiError(503, str(error), code="run_not_reached") from error
        return "stopping" if is_stopped else str((await self.find(owner, run_id))["status"])

    async def approve(
        self, owner: str, run_id: str, choice: str, approval_id: str | None, everything: bool
    ) -> int:
        """Answer what a run asks leave for: the oldest, all, or the one named; how many those
        were, of which nobody has answered before."""
        api = self._api
        if not is_running(await self.find(owner, run_id)):
            return 0
        session_id = await api.at_hand(self._session_of, owner, run_id)
        asked = await asyncio.to_thread(api.view(owner).asked, session_id)
        waiting = [row["id"] for row in asked if approval_id in (None, row["id"])]
        answered = 0
        for asked_id in waiting if everything else waiting[:1]:
            answered += await api.change(
                api.view(owner).answer_asked, asked_id, session_id, choice, api.person(owner).id
            )
        return answered

    # Watching

    async def follow(self, owner: str, run_id: str, after: int) -> SseResponse:
        """What happens in a run, from the beginning or behind an event; ApiError."""
        await self.find(owner, run_id)
        outlet = Outlet()
        run = Run(run_id, owner, "", await self._api.at_hand(self._session_of, owner, run_id),
                  self._api.model)  # fmt: skip
        run.follow(outlet, after)
        task = asyncio.ensure_future(self._follow(run, after))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return SseResponse(outlet, on_leave=task.cancel)

    async def _follow(self, run: Run, after: int) -> None:
        wake = self._api.store.wake
        try:
            while True:
                seen = wake.number
                shown, turn = await self.find_turn(run.owner, run.id)
                if turn is not None:
                    await self._watch(run, turn, after)
                elif not is_running(shown) and shown["status"] != "queued":
                    break
                else:
                    await wake.wait_async(seen, LOOK_SECONDS)
            await self._end(run, after)
        except (ApiError, StoreError) as error:
            run.fail(str(error))
        except Exception:
            # The boundary of the task: whoever reads is told that nothing more comes.
            log.exception("The run %s cannot be watched", run.id)
            run.fail("Something went wrong here; see the gateway's log.")

    async def _watch(self, run: Run, turn: Mapping[str, Any], after: int) -> None:
        """Show the events of a turn until it has ended."""
        api, loop, ended = self._api, asyncio.get_running_loop(), asyncio.Event()
        base = turn["fence"] << TURN_SHIFT
        since = base + after if after else 0
        is_first = True

        def show(numbered: Numbered) -> None:
            nonlocal is_first
            if numbered.number >> TURN_SHIFT != turn["fence"]:
                return  # of a turn before or behind it
            if is_first and since and numbered.number > since + 1:
                run.restart(after, NOT_KEPT)
            is_first = False
            run.take(numbered)
            if run.turn_ended.is_set():
                loop.call_soon_threadsafe(ended.set)

        view = await asyncio.to_thread(follow_turn, api.db, api.host.home, turn, show, since)
        try:
            while not ended.is_set() and await self._is_running(turn):
                await _wait_any(ended, LOOK_SECONDS)
            await _wait_any(ended, LAST_SECONDS)
        finally:
            if view is not None:
                view.close()

    async def _is_running(self, turn: Mapping[str, Any]) -> bool:
        now = await self._api.at_hand(other_turn, self._api.db, turn["session_id"])
        return now is not None and now["started_at"] == turn["started_at"]

    async def _end(self, run: Run, after: int) -> None:
        """Tell how a run has ended, as the process that ran it does."""
        api = self._api
        outcome = await api.at_hand(self._outcome, run.owner, run.id)
        run.go_on_after(after)
        if outcome is None:
            run.fail(INTERRUPTED)
            return
        place = await api.at_hand(api.named, run.owner, outcome.session_id)
        if run.usage != Usage():
            outcome = dataclasses.replace(outcome, usage=run.usage)
        run.end(outcome, http_outcome(outcome, place))

    def _outcome(self, owner: str, run_id: str) -> TurnOutcome | None:
        db, session_id = self._api.db, self._session_of(owner, run_id)
        outcomes = (stored_outcome(db, session_id, name) for name in _names(run_id))
        return next((outcome for outcome in outcomes if outcome is not None), None)


def is_running(shown: Mapping[str, Any]) -> bool:
    """Whether a run has begun and not ended."""
    return shown["status"] in ("running", "waiting_for_approval")


def unknown_run(run_id: str) -> ApiError:
    """What is said about a run that is not there, or somebody else's."""
    return ApiError(404, f"There is no run {run_id[:80]}.", code="run_not_found")


def _names(run_id: str) -> tuple[str, str]:
    """The names that a run's message may have: the run's, or that without its session's."""
    return run_id, run_id.partition(".")[0]


async def _wait_any(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass  # the caller looks all the same
