"""The stored state of a session's compressions: failures in a row, and the cool-down.

Both stand on the session's row, so that every process and every restart goes by them; a rotation
takes them along.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_state import SessionDB

from .policy import cooldown_seconds

if TYPE_CHECKING:
    from .compress import Compressed


class Standing(NamedTuple):
    """How compression has gone in a session so far."""

    streak: int = 0
    """How often in a row there was no summary by a model."""
    cooldown: dict[str, Any] | None = None


class Record:
    """Reads and writes it; without a store it lasts as long as the agent."""

    def __init__(self, db: SessionDB | None) -> None:
        self._db = db
        self._streak = 0
        self._resting: dict[str, Any] = {"cooldown_until": 0.0, "error": None}

    def cooldown(self, session_id: str) -> dict[str, Any] | None:
        """The running cool-down, or None."""
        if self._db is not None:
            return self._db.get_compression_failure_cooldown(session_id)
        return self._resting if time.time() < self._resting["cooldown_until"] else None

    def standing(self, session_id: str) -> Standing:
        """Streak and cool-down."""
        if self._db is None:
            return Standing(self._streak, self.cooldown(session_id))
        return Standing(
            self._db.get_compression_fallback_streak(session_id), self.cooldown(session_id)
        )

    def record_failure(self, session_id: str, error: str) -> None:
        """Nothing was compressed, because of `error`: rest, longer each time."""
        self._rest(session_id, self.standing(session_id).streak + 1, error)

    def record_success(
        self, session_id: str, before: Standing, made: Compressed, *, asked: bool
    ) -> None:
        """A compression was committed; `asked` says whether a model was to write the summary."""
        if made.method == "summary":
            self._set(session_id, 0, before)
        elif asked:
            self._rest(session_id, before.streak + 1, made.error or "The model gave no summary.")
        else:
            self._set(session_id, before.streak + 1, before, keep=True)

    def _rest(self, session_id: str, streak: int, error: str) -> None:
        now = time.time() if self._db is None else self._db.now()
        until = now + cooldown_seconds(streak)
        self._streak, self._resting = streak, {"cooldown_until": until, "error": error}
        if self._db is not None:
            self._db.set_compression_fallback_streak(session_id, streak)
            self._db.record_compression_failure_cooldown(session_id, until, error[:500])

    def _set(self, session_id: str, streak: int, before: Standing, keep: bool = False) -> None:
        self._streak = streak
        if not keep:
            self._resting = {"cooldown_until": 0.0, "error": None}
        if self._db is None:
            return
        if streak or before.streak:
            self._db.set_compression_fallback_streak(session_id, streak)
        if before.cooldown is None:
            return
        if keep:
            self._db.record_compression_failure_cooldown(
                session_id, before.cooldown["cooldown_until"], before.cooldown["error"]
            )
        else:
            self._db.clear_compression_failure_cooldown(session_id)
