"""Reading and changing settings, for one session or for all.

What holds for one session is kept in its `options` and put into effect on its agent; what holds for
all is written to config.yaml, with everything else in it left as it stands. Secrets are never told.
"""

from __future__ import annotations

from typing import Any

from agent.config import Config
from agent.config.schema import KEYS, Key
from agent.config.values import shown_value

from . import live, walls
from .hub import Hub, Session

SHORT = {
    "model": "model.default",
    "reasoning": "model.reasoning_effort",
    "busy": "display.busy_input_mode",
    "yolo": "approvals.mode",
}
"""Names for what a session may have of its own, and the keys that hold for all."""


def key_named(name: str) -> Key | None:
    """A key of the configuration by its name, with its type and limits."""
    return next((key for key in KEYS if key.name == name), None)


def value_of(config: Config, key: Key) -> Any:
    """A key's value as JSON carries it; of a secret only whether it is set."""
    value: Any = config
    for part in key.name.split("."):
        value = getattr(value, part)
    value = shown_value(key, value, is_not_set="")
    return list(value) if isinstance(value, tuple) else value


def set_for_session(hub: Hub, sid: str, session: Session, name: str, value: Any) -> Any:
    """Set one of `SHORT` for a session; ValueError says what would be right."""
    from agent.slash.options import BUSY_MODES, EFFORTS, apply_options

    options = session.setdefault("options", {})
    if name == "model":
        from .surface import set_model

        return set_model(hub, sid, session, _text(value))
    if name == "reasoning":
        options["reasoning"] = _one_of(value, ("", *EFFORTS))
    elif name == "busy":
        options["busy"] = session["busy_mode"] = _one_of(value, BUSY_MODES)
    else:
        return _set_yolo(hub, sid, session, truth(value))
    agent = session.get("agent")
    if agent is not None:
        apply_options(agent, options)
    hub.emit("session.info", sid, live.info(hub, sid, session))
    return options[name]


def _set_yolo(hub: Hub, sid: str, session: Session, wanted: bool) -> bool:
    walls.set_mode(hub, sid, session, "full" if wanted else "guarded")
    return wanted


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("value must be text.")
    return value.strip()


def _one_of(value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"value must be one of {', '.join(filter(None, choices))}.")
    return str(value)


def truth(value: Any) -> bool:
    """on, true or 1, or off, false or 0; ValueError for anything else."""
    words = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
    meant = words.get(str(value).lower())
    if meant is None:
        raise ValueError("value must be true or false.")
    return meant
