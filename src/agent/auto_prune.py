"""Automatic deletion of old conversations, where the configuration asks for it (`sessions`)."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.config.schema import SessionSettings
    from hermes_state import SessionDB

log = logging.getLogger(__name__)


def prune_if_due(db: SessionDB, home: Path, settings: SessionSettings) -> dict[str, Any] | None:
    """Prune as configured, once per interval over all processes; None if it is off."""
    if not settings.auto_prune:
        return None
    return db.maybe_auto_prune_and_vacuum(
        settings.retention_days,
        settings.min_interval_hours,
        settings.vacuum_after_prune,
        home / "sessions",
    )


def begin_pruning(
    db: SessionDB, home: Path, settings: SessionSettings | None = None
) -> threading.Thread | None:
    """The same in the background of a start, which does not wait for it.

    Without `settings` those of the home are read there.
    """
    if settings is not None and not settings.auto_prune:
        return None

    def prune() -> None:
        from agent.config import load_config
        from agent.home import ConfigError

        try:
            prune_if_due(db, home, settings or load_config(home).sessions)
        except ConfigError as error:
            log.debug("Nothing is pruned: %s", error)  # reported by whoever needs the configuration

    thread = threading.Thread(target=prune, name="hermes-auto-prune", daemon=True)
    thread.start()
    return thread
