"""Keys of another home: `.env` and `auth.json` into `.env` here, one name at a time.

No value is ever shown. A name that has another value here keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.config.env import load_dotenv
from agent.config.write import set_dotenv_value
from agent.home import ConfigError

from .home_parts import Step, copy_file

CONSENT = "HERMES_ACCEPT_HOOKS"
"""The variable that agrees to every shell hook."""


def env_steps(source: Path, home: Path) -> Iterator[Step]:
    """`.env` as it is if there is none here, else the names that are not set here."""
    theirs, ours = source / ".env", home / ".env"
    if not theirs.is_file():
        return
    try:
        given, _ = load_dotenv(theirs)
        here, _ = load_dotenv(ours)
    except ConfigError as error:
        yield Step(".env", "left behind", str(error))
        return
    if given.pop(CONSENT, None) is not None:
        note = "what it agrees to is agreed to anew: hermes hooks accept"
        yield Step(f".env: {CONSENT}", "left behind", note)
    if not ours.exists():

        def copy() -> str | None:
            copy_file(theirs, ours)
            return _set(home, CONSENT, None)()

        yield Step(".env", "brought", f"{len(given)} variables", copy)
        return
    if given and all(here.get(name) == value for name, value in given.items()):
        yield Step(".env", "here already")
        return
    for name, value in given.items():
        yield from variable_step(home, f".env: {name}", name, value, here)


def auth_steps(source: Path, home: Path) -> Iterator[Step]:
    """The keys in `auth.json`; what is no key, or a second one, stays behind."""
    from agent.providers.known import ALIASES, KNOWN

    path = source / "auth.json"
    if not path.is_file():
        return
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        here = {**load_dotenv(source / ".env")[0], **load_dotenv(home / ".env")[0]}
    except (OSError, ValueError, ConfigError) as error:
        yield Step("auth.json", "left behind", f"it cannot be read: {error}")
        return
    content = content if isinstance(content, dict) else {}
    for provider in _mapping(content.get("providers")):
        note = "a log-in cannot be moved; get a key from the provider: hermes setup"
        yield Step(f"auth.json: log-in for {provider}", "left behind", note)
    for provider, entries in _mapping(content.get("credential_pool")).items():
        known = KNOWN.get(ALIASES.get(provider, provider))
        variable = known.key_variables[0] if known is not None and known.key_variables else ""
        for number, entry in enumerate(_in_order(entries), 1):
            what = f"auth.json: {provider} key {number}"
            token = str(entry.get("access_token") or "")
            if str(entry.get("source") or "").startswith("env:"):
                continue  # it stands in .env
            if entry.get("auth_type") != "api_key" or not token:
                note = "a log-in cannot be moved; get a key from the provider: hermes setup"
                yield Step(what, "left behind", note)
            elif not variable:
                note = "its provider is not known here; set model.base_url and model.api_key"
                yield Step(what, "left behind", note)
            elif here.get(variable) not in (None, "", token):
                yield Step(what, "left behind", f"{variable} has another value here")
            elif here.get(variable) == token:
                yield Step(what, "here already", variable)
            else:
                here[variable] = token
                yield Step(what, "brought", f"as {variable} in .env", _set(home, variable, token))


def variable_step(
    home: Path, what: str, name: str, value: str, here: dict[str, str]
) -> Iterator[Step]:
    """A variable for `.env`; one that has another value here keeps it."""
    if here.get(name) == value or not value:
        return
    if here.get(name):
        note = "it has another value here" if name in what else f"{name} has another value here"
        yield Step(what, "left behind", note)
    else:
        note = "" if name in what else f"as {name} in .env"
        yield Step(what, "brought", note, _set(home, name, value))


def _set(home: Path, name: str, value: str | None) -> Callable[[], str | None]:
    def bring() -> str | None:
        try:
            set_dotenv_value(home / ".env", name, value)
        except ConfigError as error:
            return str(error)
        return None

    return bring


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _in_order(entries: Any) -> list[dict[str, Any]]:
    valid = (
        [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )
    return sorted(valid, key=lambda entry: entry.get("priority") or 0)
