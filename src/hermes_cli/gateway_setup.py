"""`hermes gateway setup`: from nothing to a first platform, with few questions."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable
from pathlib import Path

from .webhook_setup import set_up_webhook

_TELEGRAM_TOKEN = re.compile(r"\d{6,}:[A-Za-z0-9_-]{30,}")


def set_up(
    home: Path,
    ask: Callable[[str], str] = input,
    ask_secret: Callable[[str], str] = getpass.getpass,
    say: Callable[[str], None] = print,
) -> int:
    """Ask for a platform and what it needs, and keep it in `.env` (a webhook in `config.yaml`);
    returns the exit code."""
    say("Which platform?  1) Telegram   2) Matrix   3) API server for programs   4) Webhooks")
    try:
        choice = ask("Number: ").strip()
        if choice == "4":
            return set_up_webhook(home, ask, say)
        if choice == "1":
            values = _telegram(ask, ask_secret, say)
        elif choice == "2":
            values = _matrix(ask, ask_secret)
        elif choice == "3":
            values = _api_server(say)
        else:
            say("Nothing was changed: answer with 1, 2, 3 or 4.")
            return 1
    except (EOFError, KeyboardInterrupt):
        say("\nNothing was changed.")
        return 1
    if values is None:
        return 1
    write_env(home / ".env", values)
    say(f"Kept in {home / '.env'}. Now run: hermes gateway start")
    return 0


def _telegram(
    ask: Callable[[str], str], ask_secret: Callable[[str], str], say: Callable[[str], None]
) -> dict[str, str] | None:
    say("Write to @BotFather on Telegram, send /newbot, and copy the token it gives you.")
    token = ask_secret("Token: ").strip()
    if not _TELEGRAM_TOKEN.fullmatch(token):
        say("That is not a bot token: it looks like 123456:ABC…. Nothing was changed.")
        return None
    allowed = ask("Your Telegram user id (empty: you will pair with a code): ").strip()
    values = {"TELEGRAM_BOT_TOKEN": token}
    return {**values, "TELEGRAM_ALLOWED_USERS": allowed} if allowed else values


def _matrix(ask: Callable[[str], str], ask_secret: Callable[[str], str]) -> dict[str, str]:
    return {
        "MATRIX_HOMESERVER": ask("Homeserver, e.g. https://matrix.org: ").strip(),
        "MATRIX_USER_ID": ask("User id of the bot, e.g. @hermes:matrix.org: ").strip(),
        "MATRIX_PASSWORD": ask_secret("Its password: "),
        "MATRIX_ALLOWED_USERS": ask("Who may talk to it (user ids, with commas): ").strip(),
    }


def _api_server(say: Callable[[str], None]) -> dict[str, str]:
    key = os.urandom(24).hex()
    say(f"Programs use http://127.0.0.1:8642/v1 with this key:\n  {key}")
    return {"API_SERVER_ENABLED": "1", "API_SERVER_KEY": key}


def write_env(path: Path, values: dict[str, str]) -> None:
    """Set names in a .env file; everything else in it stays as it is."""
    from agent.config.write import set_dotenv_value

    for name, value in values.items():
        set_dotenv_value(path, name, value or None)
