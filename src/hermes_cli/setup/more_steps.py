"""What comes after the model: a chat platform, the web page, the wall, a backup."""

from __future__ import annotations

import time
from pathlib import Path

from agent.config import load_config
from agent.config.write import set_config_value
from agent.home import short_path
from hermes_cli.gateway_setup import set_up

from .talk import Talk

_MODES = (
    ("guarded", "work behind the wall, and ask before leaving it"),
    ("plan", "only look and plan"),
    ("full", "everything, without wall and questions"),
)


def ask_for_platform(home: Path, talk: Talk) -> None:
    """A first chat platform."""
    if talk.confirm("Talk to it from a chat platform such as Telegram, too?", default=False):
        set_up(home, talk.raw, talk.raw_secret, talk.say)


def ask_for_page(home: Path, talk: Talk) -> None:
    """Whether the gateway serves the web page."""
    if talk.confirm("Serve the web page beside the gateway, to this machine only?", default=True):
        set_config_value(home / "config.yaml", "platforms.web.enabled", True)
    talk.say("`hermes web` opens it in your browser, also without the gateway.")


def ask_for_wall(home: Path, talk: Talk) -> None:
    """What a conversation may do at first, and what holds it."""
    from tools.wall.kinds import means

    available = means()
    if available.kind == "none":
        talk.say(
            f"There is no wall around what it runs: {available.why}. Install bubblewrap; until then"
            " it asks before what is dangerous."
        )
    else:
        talk.say(f"What it runs is inside a wall: {available}.")
    modes = [mode for mode, _ in _MODES]
    mode = load_config(home).terminal.mode
    chosen = talk.choose(
        "What may it do at first?", [f"{m}: {t}" for m, t in _MODES], modes.index(mode)
    )
    if modes[chosen] != mode:
        set_config_value(home / "config.yaml", "terminal.mode", modes[chosen])


def ask_for_backup(home: Path, talk: Talk) -> None:
    """A first archive of everything."""
    from hermes_cli.home_backup import write_backup

    if talk.confirm("Back up now what cannot be made again?", default=True):
        path = home / "backups" / f"hermes-{time.strftime('%Y%m%d-%H%M%S')}-setup.tar.gz"
        write_backup(home, path)
        talk.say(f"Written and read again: {short_path(path)}")
    talk.say("`hermes backup watch` keeps one that follows every change.")
