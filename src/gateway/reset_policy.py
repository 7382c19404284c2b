"""When a conversation that nobody uses begins anew by itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from .config import ResetPolicy


def expired_because(policy: ResetPolicy, last_used: datetime, now: datetime) -> str | None:
    """ "idle" or "daily" if a session last used then is over by now; None if it goes on."""
    if policy.mode in ("idle", "both") and now > last_used + timedelta(minutes=policy.idle_minutes):
        return "idle"
    if policy.mode in ("daily", "both") and last_used < last_boundary(policy.at_hour, now):
        return "daily"
    return None


def last_boundary(at_hour: int, now: datetime) -> datetime:
    """The most recent time the clock showed `at_hour`, local time."""
    boundary = now.replace(hour=at_hour, minute=0, second=0, microsecond=0)
    return boundary if boundary <= now else boundary - timedelta(days=1)
