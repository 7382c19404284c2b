"""Every method is called well, with parameters missing, of the wrong type, and without a session.

Whatever is wrong gets a code and a sentence that helps, and the next request is served.
"""

from __future__ import annotations

import base64
import typing
from collections.abc import Callable
from typing import Any

import pytest
from method_calls import Gateway
from shape_checks import check

from tui_gateway import methods, rpc

methods.load_rest()

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()

Good = dict[str, Any] | Callable[[Gateway, str], dict[str, Any]]


def _write(gateway: Gateway, name: str, content: bytes) -> str:
    path = gateway.home.parent / name
    path.write_bytes(content)
    return str(path)


def _job(gateway: Gateway) -> str:
    job = {"action": "add", "prompt": "Tea", "schedule": "daily 08:30"}
    return str(gateway.call("cron.manage", **job)["job"]["id"])


def _folder(gateway: Gateway) -> str:
    path = gateway.home.parent / "more"
    path.mkdir(exist_ok=True)
    return str(path)


def _added(gateway: Gateway, sid: str) -> str:
    gateway.call("session.folders.add", session_id=sid, path=_folder(gateway))
    return _folder(gateway)


def _remembered(gateway: Gateway, sid: str) -> str:
    gateway.call("memory.add", session_id=sid, text="Likes tea.")
    return str(gateway.call("memory.list", session_id=sid)["entries"][0]["id"])


def _learnt(gateway: Gateway, sid: str) -> str:
    _remembered(gateway, sid)
    return str(gateway.call("memory.history", session_id=sid)["changes"][0]["id"])


SAID = (
    "session.undo", "session.branch", "session.compress", "session.save", "handoff.request",
)  # fmt: skip
"""Methods that need something to have been said."""

GOOD: dict[str, Good] = {
    "approval.decide": {"request_id": "nobody", "choice": "deny"},
    "approval.inbox": {},
    "backup.verify": {},
    "conversation.family": {"id": "nobody"},
    "conversation.messages": {"id": "nobody"},
    "conversation.turns": {"id": "nobody"},
    "device.code": {},
    "doctor.check": {},
    "doctor.mend": {"part": "no part"},
    "device.list": {},
    "device.rename": {"device_id": "nobody", "name": "phone"},
    "device.revoke": {"device_id": "nobody"},
    "grant.revoke": {"pattern_key": "nothing"},
    "hello": {},
    "insights.activity": {"days": 7},
    "insights.day": {"day": "2026-11-18"},
    "sessions.watch": {},
    "state.overview": {},
    "approval.list": {},
    "approval.pending": {},
    "approval.revoke": {"all": True},
    "approval.respond": {"choice": "once"},
    "clarify.respond": {"request_id": "nobody", "answer": "yes"},
    "sudo.respond": {"request_id": "nobody", "password": "x"},
    "agents.list": {},
    "command.dispatch": {"name": "help", "arg": "title"},
    "command.resolve": {"name": "reset"},
    "commands.catalog": {},
    "complete.path": {"word": "./"},
    "complete.slash": {"text": "/ti"},
    "config.get": {"key": "model.default"},
    "config.set": {"key": "display.show_reasoning", "value": True},
    "config.show": {},
    "cron.history": lambda gateway, sid: {"name": _job(gateway)},
    "cron.list": {},
    "cron.manage": {"action": "add", "name": "tea", "prompt": "Tea", "schedule": "daily 08:30"},
    "delegation.status": {},
    "file.attach": lambda gateway, sid: {"path": _write(gateway, "a.txt", b"text")},
    "handoff.fail": {},
    "handoff.request": {"platform": "telegram"},
    "handoff.state": {},
    "image.attach": lambda gateway, sid: {"path": _write(gateway, "a.png", base64.b64decode(PNG))},
    "image.attach_bytes": {"content_base64": PNG},
    "image.detach": {"path": "/nowhere"},
    "input.detect_drop": {"text": "just words"},
    "insights.get": {"days": 7},
    "llm.oneshot": {"input": "Say something."},
    "model.disconnect": {"slug": "openai"},
    "model.options": {},
    "model.save_key": {"slug": "anthropic", "api_key": "sk-not-a-real-key"},
    "paste.collapse": {"text": "a\nb\n"},
    "pdf.attach": {},
    "plugins.list": {},
    "plugins.manage": {"action": "list"},
    "process.kill": {"process_id": "proc_none"},
    "process.list": {},
    "process.stop": {},
    "prompt.background": {"text": "Look it up."},
    "prompt.submit": {"text": "hello"},
    "reload.env": {},
    "reload.mcp": {},
    "rollback.diff": {"hash": "none"},
    "rollback.list": {},
    "rollback.restore": {"hash": "none"},
    "session.activate": {},
    "session.active_list": {},
    "session.branch": {},
    "session.close": {},
    "session.compress": {},
    "session.context_breakdown": {},
    "session.create": {},
    "session.cwd.set": lambda gateway, sid: {"cwd": str(gateway.home)},
    "session.delete": {},
    "session.events.since": {},
    "session.folders": {},
    "session.folders.add": lambda gateway, sid: {"path": _folder(gateway)},
    "session.folders.remove": lambda gateway, sid: {"path": _added(gateway, sid)},
    "session.history": {},
    "session.interrupt": {},
    "session.list": {},
    "session.mode": {},
    "session.mode.set": {"mode": "plan"},
    "session.most_recent": {},
    "session.resume": {},
    "session.save": {},
    "session.search": {"query": "hello"},
    "session.status": {},
    "session.steer": {"text": "faster"},
    "session.title": {"title": "A plan"},
    "session.undo": {},
    "session.usage": {},
    "setup.runtime_check": {},
    "setup.status": {},
    "shell.exec": {"command": "echo hello"},
    "memory.add": {"text": "Likes tea."},
    "memory.edit": lambda gateway, sid: {"entry": _remembered(gateway, sid), "text": "Tea."},
    "memory.forget": lambda gateway, sid: {"entry": _remembered(gateway, sid)},
    "memory.history": {},
    "memory.list": {},
    "memory.undo": lambda gateway, sid: {"change": _learnt(gateway, sid)},
    "skills.manage": {},
    "skills.reload": {},
    "slash.exec": {"command": "/status"},
    "subagent.interrupt": {"subagent_id": "bg_none"},
    "terminal.resize": {"cols": 120},
    "tools.configure": {"action": "disable", "names": ["web"]},
    "tools.list": {},
    "tools.show": {},
    "toolsets.list": {},
}
"""Parameters that are right for each method, besides its session."""

REFUSED = {
    "model.disconnect": 4005,
    "pdf.attach": 4015,
    "process.kill": 4044,
    "rollback.diff": 5022,
    "rollback.restore": 5021,
    "session.delete": 4023,
    "backup.verify": 4016,
    "doctor.mend": 5023,
    "conversation.family": 4007,
    "conversation.messages": 4007,
    "conversation.turns": 4007,
    "device.revoke": 4016,
    "grant.revoke": 4033,
}
"""What must be refused even so, and the code."""

NOT_LIVE = {"session.resume": 4007, "session.delete": 4007, "session.close": None}
"""Methods whose session_id is not that of a live session: what an unknown one gets."""


def names() -> list[str]:
    return sorted(rpc.METHODS)


def parameters(name: str) -> dict[str, tuple[Any, bool]]:
    return rpc.parameters(rpc.METHODS[name].run)


def good(gateway: Gateway, name: str, sid: str) -> dict[str, Any]:
    given = GOOD[name]
    params = dict(given(gateway, sid) if callable(given) else given)
    if "session_id" in parameters(name):
        params["session_id"] = gateway.key(sid) if name in NOT_LIVE else sid
    if name == "session.close":
        params["session_id"] = sid
    return params


def test_the_table_is_complete() -> None:
    assert sorted(GOOD) == names()


@pytest.mark.parametrize("name", names())
def test_called_well(gateway: Gateway, name: str) -> None:
    """The result has the shape that is declared and documented."""
    with (gateway.home / "config.yaml").open("a") as file:
        file.write("platforms: {telegram: {enabled: true}}\n")
    sid = gateway.open()
    if name in SAID or name in NOT_LIVE:
        gateway.ask(sid, "hello")
    shape = typing.get_type_hints(rpc.METHODS[name].run)["return"]
    assert typing.is_typeddict(shape), f"{name} returns {shape}"
    params = good(gateway, name, sid)
    if name in REFUSED:
        refusal = gateway.refused(name, **params)
        assert refusal.code == REFUSED[name], refusal
        assert refusal.message.endswith((".", "?"))
        return
    check(gateway.call(name, **params), shape, name)
    if sid in gateway.server._sessions:
        gateway.settle(sid)


@pytest.mark.parametrize("name", names())
def test_missing_parameters(gateway: Gateway, name: str) -> None:
    sid = gateway.open()
    for missing, (_, required) in parameters(name).items():
        if not required:
            continue
        params = {key: value for key, value in good(gateway, name, sid).items() if key != missing}
        refusal = gateway.refused(name, **params)
        assert refusal.code == rpc.INVALID_PARAMS
        assert missing in refusal.message and name in refusal.message
    assert gateway.call("session.active_list")["sessions"]


@pytest.mark.parametrize("name", names())
def test_parameters_of_the_wrong_type(gateway: Gateway, name: str) -> None:
    sid = gateway.open()
    for wrong, (kind, _) in parameters(name).items():
        if kind is Any:
            continue
        for value in ({"an": "object"}, [{}]):
            refusal = gateway.refused(name, **{**good(gateway, name, sid), wrong: value})
            assert refusal.code == rpc.INVALID_PARAMS
            assert wrong in refusal.message and "must be" in refusal.message
    for params in ([], "text", 7):
        assert gateway.request(name, params)["error"]["code"] == rpc.INVALID_PARAMS


@pytest.mark.parametrize("name", [name for name in names() if "session_id" in parameters(name)])
def test_unknown_session(gateway: Gateway, name: str) -> None:
    params = {**good(gateway, name, gateway.open()), "session_id": "nowhere"}
    expected = NOT_LIVE.get(name, rpc.SESSION_NOT_FOUND)
    if expected is None:
        assert gateway.call(name, **params) == {"closed": False}
        return
    refusal = gateway.refused(name, **params)
    assert refusal.code == expected
    assert "nowhere" in refusal.message


@pytest.mark.parametrize("name", names())
def test_strange_texts(gateway: Gateway, name: str) -> None:
    """Texts that no file, title or key can be: an error with a code, or a result; never a crash."""
    sid = gateway.open()
    for text in ("", " ", "\0", "../../etc/passwd", "\ud800", "x" * 5000, "~nobody/x", "-rf"):
        params = good(gateway, name, sid)
        for key, (kind, _) in parameters(name).items():
            if kind in (str, str | None) and key != "session_id":
                params[key] = text
        if name == "shell.exec" and text.startswith("../"):
            continue  # a program of that name might be there
        response = gateway.request(name, params)
        code = response.get("error", {}).get("code")
        assert code != rpc.HANDLER_FAILED, response
        if sid not in gateway.server._sessions:
            sid = gateway.open()
        elif name in ("prompt.submit", "session.steer"):
            gateway.settle(sid)
