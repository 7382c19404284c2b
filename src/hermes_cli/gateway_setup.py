"""`hermes gateway setup`: from nothing to a first platform, with few questions.

Which platforms there are, and what each asks, their manifests say.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Sequence
from pathlib import Path

from agent.config import load_config
from agent.config.write import set_dotenv_value
from agent.plugin_loading import load_plugins
from gateway.platforms.manifest import Ask, Manifest, Say, SetUp, resolve
from gateway.platforms.registry import all_manifests


def set_up(
    home: Path, ask: Ask = input, ask_secret: Ask = getpass.getpass, say: Say = print
) -> int:
    """Ask for a platform and what it needs, and keep it in `.env` (a webhook in `config.yaml`);
    returns the exit code."""
    offered = _offered(home)
    menu = (
        f"{number}) {manifest.setup_label or manifest.label}"
        for number, manifest in enumerate(offered, 1)
    )
    say(f"Which platform?  {'   '.join(menu)}")
    try:
        manifest = _chosen(ask("Number: ").strip(), offered)
        if manifest is None:
            *first, last = (str(number) for number in range(1, len(offered) + 1))
            say(f"Nothing was changed: answer with {', '.join(first)} or {last}.")
            return 1
        if manifest.set_up is not None:
            own: SetUp = resolve(manifest.set_up)
            return own(home, ask, ask_secret, say)
        values = _answers(manifest, ask, ask_secret, say)
    except (EOFError, KeyboardInterrupt):
        say("\nNothing was changed.")
        return 1
    if values is None:
        return 1
    write_env(home / ".env", values)
    say(f"Kept in {home / '.env'}. Now run: hermes gateway start")
    return 0


def _offered(home: Path) -> list[Manifest]:
    """The platforms that can be set up, those of enabled plugins included."""
    config = load_config(home)
    load_plugins(config.raw, config.home, config.environ)
    return [manifest for manifest in all_manifests().values() if manifest.has_setup]


def _chosen(answer: str, offered: Sequence[Manifest]) -> Manifest | None:
    if answer.isdecimal() and 1 <= int(answer) <= len(offered):
        return offered[int(answer) - 1]
    return next(
        (
            manifest
            for manifest in offered
            if answer.lower() in (manifest.name, manifest.label.lower())
        ),
        None,
    )


def _answers(manifest: Manifest, ask: Ask, ask_secret: Ask, say: Say) -> dict[str, str] | None:
    """The values by variable; None if an answer cannot be used, which is said."""
    if manifest.setup_intro:
        say(manifest.setup_intro)
    values = {}
    for question in manifest.questions:
        answer = (ask_secret if question.secret else ask)(question.prompt)
        if question.pattern or not question.secret:  # a password may end with a space
            answer = answer.strip()
        if question.pattern and not re.fullmatch(question.pattern, answer):
            say(f"{question.problem} Nothing was changed.".strip())
            return None
        if answer:
            values[question.variable] = answer
    return values


def write_env(path: Path, values: dict[str, str]) -> None:
    """Set names in a .env file; everything else in it stays as it is."""
    for name, value in values.items():
        set_dotenv_value(path, name, value or None)
