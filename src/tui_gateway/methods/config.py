"""The configuration: read, changed, shown, read again."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Literal

from agent.config import ConfigError
from agent.config.schema import KEYS
from agent.config.write import set_config_value
from agent.home import short_path

from .. import live, prompts, settings
from .. import shapes_settings as wire
from ..rpc import Call, RpcError, method

BAD_KEY = 4002
NOT_WRITTEN = 5001


@method("config.get", slow=True)
def get(call: Call, key: str = "full", session_id: str | None = None) -> wire.ConfigValue:
    """A key of the configuration (model.default, …), or full, home, mtime, provider, cwd, prompt.

    `full` is every key. `cwd` and `prompt` (the system prompt) are those of a session.
    """
    config = call.config
    session = call.session(session_id) if session_id else None
    if key == "full":
        values = {key.name: settings.value_of(config, key) for key in KEYS}
        return {"config": values, "home": str(config.home), "mtime": _mtime(config.home)}
    if key == "home":
        return {"home": str(config.home), "display": short_path(config.home)}
    if key == "mtime":
        return {"mtime": _mtime(config.home)}
    if key == "provider":
        return _provider(call, session_id)
    if key in ("cwd", "prompt"):
        if session is None:
            raise RpcError(BAD_KEY, f"{key} belongs to a session: give its session_id.")
        if key == "cwd":
            return {"cwd": session["cwd"], "branch": live.git_branch(Path(session["cwd"]))}
        row = call.here(session).session(live.current_key(session))
        return {"prompt": str((row or {}).get("system_prompt") or "")}
    return {"key": key, "value": _value(call, key, session)}


def _mtime(home: Path) -> float:
    try:
        return (home / "config.yaml").stat().st_mtime
    except OSError:
        return 0.0


def _provider(call: Call, sid: str | None) -> wire.ConfigValue:
    from agent.providers.known import KNOWN

    config = call.config
    info = live.info(call.hub, sid, call.session(sid)) if sid else None
    return {
        "model": info["model"] if info else config.model.name,
        "provider": info["provider"] if info else config.model.provider,
        "providers": list(KNOWN),
    }


def _value(call: Call, key: str, session: dict[str, Any] | None) -> Any:
    config = call.config
    options = (session or {}).get("options") or {}
    if key in options:
        return options[key]
    if key == "model" and session is not None and session.get("model"):
        return session["model"]
    if key == "yolo" and session is not None:
        return live.mode_of(session, config) == "full" or config.approvals.mode == "off"
    known = settings.key_named(settings.SHORT.get(key, key))
    if known is not None:
        value = settings.value_of(config, known)
        return value == "off" if key == "yolo" else value
    raise _unknown(key)


def _unknown(key: str) -> RpcError:
    names = [*settings.SHORT, *(key.name for key in KEYS)]
    near = difflib.get_close_matches(key[:80], names, n=1)
    hint = f" Did you mean {near[0]}?" if near else " config.show lists them."
    return RpcError(BAD_KEY, f"There is no key {key[:80]!r}.{hint}")


@method("config.set", slow=True)
def set_value(
    call: Call,
    key: str,
    value: Any,
    session_id: str | None = None,
    scope: Literal["session", "global"] | None = None,
) -> wire.ConfigChange:
    """Set a key: model, reasoning, busy, yolo or cwd for a session, any key for all.

    With a session and one of these the scope is session, else global: config.yaml is changed, with
    the rest of it left as it stands.
    """
    if session_id is not None:
        call.session(session_id)
    own = key in settings.SHORT or key == "cwd"
    if scope is None:
        scope = "session" if own and session_id else "global"
    if scope == "global":
        return _set_global(call, key, value)
    if not own:
        raise RpcError(BAD_KEY, f"A session has no {key[:80]!r} of its own; use scope global.")
    if session_id is None:
        raise RpcError(BAD_KEY, "For the scope session give a session_id.")
    return _set_own(call, session_id, key, value)


def _set_own(call: Call, sid: str, key: str, value: Any) -> wire.ConfigChange:
    hub = call.hub
    session = call.session(sid)
    if key == "cwd":
        from .records import set_cwd

        if not isinstance(value, str):
            raise RpcError(BAD_KEY, "value must be text: a folder.")
        place = set_cwd(call, sid, value)
        return {"key": key, "value": place["cwd"], "scope": "session", **place}
    try:
        if key == "model":
            with prompts.occupied(hub, sid, session, "change the model"):
                taken = settings.set_for_session(hub, sid, session, key, value)
        else:
            taken = settings.set_for_session(hub, sid, session, key, value)
    except (ValueError, ConfigError) as error:
        raise RpcError(BAD_KEY, str(error)) from error
    return {"key": key, "value": taken, "scope": "session"}


def _set_global(call: Call, key: str, value: Any) -> wire.ConfigChange:
    name = settings.SHORT.get(key, key)
    known = settings.key_named(name)
    if known is None:
        raise _unknown(key)
    if known.limits.secret:
        raise RpcError(BAD_KEY, f"{name} is a secret; use model.save_key, which keeps it in .env.")
    if known.limits.address:
        raise RpcError(BAD_KEY, f"{name} is changed with hermes store move, while nothing runs.")
    path = call.config.home / "config.yaml"
    try:
        if key == "yolo":
            value = "off" if settings.truth(value) else "manual"
        set_config_value(path, name, value)
        config = call.hub.reload_config()
    except ValueError as error:
        raise RpcError(BAD_KEY, str(error)) from error
    except ConfigError as error:
        raise RpcError(BAD_KEY if name in str(error) else NOT_WRITTEN, str(error)) from error
    change: wire.ConfigChange = {
        "key": key,
        "value": settings.value_of(config, known),
        "scope": "global",
    }
    warnings = [warning for warning in config.warnings if name in warning]
    if warnings:
        change["warning"] = " ".join(warnings)
    return change


@method("config.show", slow=True)
def show(call: Call) -> wire.ConfigSections:
    """Every key with its value, its default and what it is for; secrets are left out."""
    config = call.config
    sections: dict[str, list[wire.ConfigRow]] = {}
    for key in KEYS:
        value = settings.value_of(config, key)
        default = list(key.default) if isinstance(key.default, tuple) else key.default
        sections.setdefault(key.name.partition(".")[0], []).append(
            {
                "key": key.name,
                "value": value,
                "default": default,
                "help": key.help,
                "choices": [choice for choice in key.limits.choices if choice],
                "secret": key.limits.secret,
                "changed": value != default,
            }
        )
    return {"sections": [{"name": name, "rows": rows} for name, rows in sections.items()]}


@method("reload.env", slow=True)
def reload_env(call: Call) -> wire.Updated:
    """Read .env and config.yaml again; agents that are built keep what they have."""
    before = dict(call.config.environ)
    after = call.hub.reload_config().environ
    names = {*before, *after}
    return {"updated": sum(before.get(name) != after.get(name) for name in names)}
