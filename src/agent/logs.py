"""Log files in the Hermes home: rotated, private, with secrets taken out.

`logs/agent.log` holds everything from the configured level up, `logs/errors.log` warnings and
worse; a gateway keeps what is its own in `logs/gateway.log` as well. Nothing goes to standard
output, which belongs to answers and to protocols. Several processes may write the same files:
the process that finds one too large rotates it under a lock, and the others notice that their file
has moved and open the new one.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from agent.config.schema import LoggingSettings
from agent.home import private_folder
from hermes_base.files import locked
from hermes_base.redaction import redact
from hermes_base.session_context import get_session_env

_FORMAT = "%(asctime)s %(levelname)s %(name)s%(session)s: %(message)s"
_CHATTY = ("httpx", "httpcore", "asyncio", "urllib3", "uvicorn")
"""Libraries that are logged from warnings up only."""

_installed: list[logging.Handler] = []


def setup_logging(
    home: Path, settings: LoggingSettings | None = None, *, gateway: bool = False
) -> Path:
    """Send the process's logging to files in `home`/logs and return that folder.

    Calling it again replaces what the call before set up. Where the folder cannot be made, nothing
    is logged: the error is reported where the home is needed.
    """
    settings = settings or LoggingSettings()
    level = logging.getLevelName(settings.level)
    root = logging.getLogger()
    stop_logging()
    folder = home / "logs"
    try:
        private_folder(folder)
    except OSError:
        _installed.append(logging.NullHandler())
        root.addHandler(_installed[-1])
        return folder
    files = [("agent.log", level), ("errors.log", max(level, logging.WARNING))]
    if gateway:
        files.append(("gateway.log", level))
    for name, least in files:
        handler = _file_handler(folder / name, settings)
        handler.setLevel(least)
        if name == "gateway.log":
            handler.addFilter(logging.Filter("gateway"))
        root.addHandler(handler)
        _installed.append(handler)
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    return folder


def stop_logging() -> None:
    """Close the files that `setup_logging` opened."""
    while _installed:
        handler = _installed.pop()
        logging.getLogger().removeHandler(handler)
        handler.close()


class RedactingFormatter(logging.Formatter):
    """Formats a record with its session, then redacts all of it, tracebacks included."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """The record as one redacted piece of text."""
        session = get_session_env("HERMES_SESSION_ID")
        record.session = f" [{session}]" if session else ""
        return redact(super().format(record))


class JsonFormatter(RedactingFormatter):
    """The same as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of JSON; its parts are redacted, so that it stays JSON."""
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "session": get_session_env("HERMES_SESSION_ID") or None,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            facts["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(facts, ensure_ascii=False)


def _file_handler(path: Path, settings: LoggingSettings) -> logging.Handler:
    class PrivateRotatingFile(RotatingFileHandler):
        """A rotating file for its owner alone, which other processes may be rotating too."""

        def _open(self) -> TextIOWrapper:
            return open(
                self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=_private
            )

        def handleError(self, record: logging.LogRecord) -> None:
            # A full or read-only disk: a traceback for each line would drown what matters.
            if not isinstance(sys.exc_info()[1], OSError):
                super().handleError(record)

        def shouldRollover(self, record: logging.LogRecord) -> int:
            if self.stream is not None and self._has_moved():
                moved, self.stream = self.stream, None  # and none, where its folder is gone
                moved.close()
                self.stream = self._open()
            return super().shouldRollover(record)

        def doRollover(self) -> None:
            with locked(path.with_name(f".{path.name}.lock")):
                # Another process may have rotated while this one waited for the lock.
                if not self._has_moved():
                    super().doRollover()
                    return
            if self.stream is not None:
                self.stream.close()
            self.stream = self._open()

        def _has_moved(self) -> bool:
            if self.stream is None:
                return False
            try:
                current = path.stat()
            except FileNotFoundError:
                return True
            return not os.path.samestat(current, os.fstat(self.stream.fileno()))

    handler = PrivateRotatingFile(
        path,
        maxBytes=int(settings.max_size_mb * 1024 * 1024),
        backupCount=settings.backup_count,
        delay=True,
    )
    handler.setFormatter(JsonFormatter() if settings.format == "json" else RedactingFormatter())
    return handler


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
