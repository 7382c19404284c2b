"""JSON-RPC 2.0: a table of methods, and the one place where failures become error codes.

    @method("session.title")
    def title(call: Call, session_id: str, title: str = "") -> TitleResult: …

A method's parameters are those of its function, checked against its annotations before it runs;
parameters it does not know are passed over, so that newer clients work with older servers.
"""

from __future__ import annotations

import functools
import inspect
import logging
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import methods
from .call import Call
from .clients import OPERATE, Principal, Scope, principal_of
from .hub import Hub
from .peers import Peer
from .permitted import access_of, why_not
from .rpc_errors import (
    AGENT_FAILED,
    HANDLER_FAILED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_ALLOWED,
    NOT_KNOWN,
    PARSE_ERROR,
    SERVER_ENDING,
    SESSION_BUSY,
    SESSION_LIMIT,
    SESSION_NOT_FOUND,
    STORE_FAILED,
    UNKNOWN_METHOD,
    RpcError,
)

log = logging.getLogger(__name__)

__all__ = [  # methods take what they need from here
    "AGENT_FAILED",
    "HANDLER_FAILED",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHODS",
    "NOT_ALLOWED",
    "NOT_KNOWN",
    "PARSE_ERROR",
    "SERVER_ENDING",
    "SESSION_BUSY",
    "SESSION_LIMIT",
    "SESSION_NOT_FOUND",
    "STORE_FAILED",
    "UNKNOWN_METHOD",
    "Call",
    "Frame",
    "Method",
    "RpcError",
    "answer",
    "checked",
    "failure",
    "find",
    "is_slow",
    "method",
    "parameters",
    "session_of",
    "shown",
]

Frame = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the protocol."""

    name: str
    run: Callable[..., Any]
    slow: bool
    """Whether it may take long, and so runs beside the others."""
    scope: Scope = OPERATE
    """Who may call it."""

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.run) or "").partition("\n")[0]


METHODS: dict[str, Method] = {}
"""The methods that are loaded; `find` loads the others when one of them is wanted."""


def method(
    name: str, *, scope: Scope = OPERATE, slow: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function `f(call, …)` to the protocol under `name`; for operators unless it says so."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        METHODS[name] = Method(name, function, slow, scope)
        return function

    return add


def find(name: object) -> Method | None:
    """The method of that name. The common ones are loaded first, for a quick first answer."""
    if not isinstance(name, str):
        return None
    if name not in METHODS:
        methods.load_rest()
    return METHODS.get(name)


def answer(frame: object, hub: Hub, peer: Peer | None = None) -> Frame | None:
    """The response to a request; None for a notification. Never raises."""
    if not isinstance(frame, dict):
        return failure(None, INVALID_REQUEST, "A request is a JSON object on one line.")
    request_id = frame.get("id")
    if request_id is not None and not _is_id(request_id):
        return failure(None, INVALID_REQUEST, "id must be a string or a number.")
    try:
        method = _method_of(frame)
        principal = _require_allowed(hub, peer, method)
        params = _params_of(frame)
        result = method.run(Call(hub, peer, principal), **checked(method, params))
    except RpcError as error:
        return failure(request_id, error.code, str(error)) if "id" in frame else None
    except Exception as error:  # noqa: BLE001 - the boundary: whatever a handler does, others are served
        code, message = _explained(error, str(frame.get("method")))
        return failure(request_id, code, message) if "id" in frame else None
    return {"jsonrpc": "2.0", "id": request_id, "result": result} if "id" in frame else None


def _require_allowed(hub: Hub, peer: Peer | None, method: Method) -> Principal:
    """Who asks, if they may; RpcError if not. The only place that decides it."""
    principal = principal_of(hub, peer)
    if principal is None:
        assert peer is not None
        peer.drop()
        raise RpcError(NOT_KNOWN, "This device was revoked. Ask for a new code.")
    if method.scope not in principal.scopes:
        who = "an operator" if method.scope == OPERATE else "a device that may do more than look"
        raise RpcError(NOT_ALLOWED, f"{method.name} is for {who}.")
    if not principal.is_operator and (refusal := why_not(method.name, access_of(hub, principal))):
        raise RpcError(NOT_ALLOWED, refusal)
    return principal


def _is_id(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def failure(request_id: object, code: int, message: str) -> Frame:
    """An error response."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def is_slow(frame: object) -> bool:
    """Whether the request may take long."""
    method = find(frame.get("method")) if isinstance(frame, dict) else None
    return method is not None and method.slow


def session_of(frame: object) -> str:
    """The session a request is about; empty for none."""
    params = frame.get("params") if isinstance(frame, dict) else None
    session_id = params.get("session_id") if isinstance(params, dict) else None
    return session_id if isinstance(session_id, str) else ""


def _method_of(frame: Frame) -> Method:
    name = frame.get("method")
    if not isinstance(name, str):
        raise RpcError(INVALID_REQUEST, "method is missing; it must be a string.")
    method = find(name)
    if method is None:
        import difflib

        near = difflib.get_close_matches(name[:80], METHODS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise RpcError(UNKNOWN_METHOD, f"There is no method {name[:80]!r}.{hint}")
    return method


def _params_of(frame: Frame) -> dict[str, Any]:
    params = frame.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object with named parameters.")
    return params


def checked(method: Method, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters a method takes, of the types it declares; RpcError if one does not fit."""
    given = {}
    for name, (kind, required) in parameters(method.run).items():
        if name not in params or (params[name] is None and not required):
            if required:
                raise RpcError(INVALID_PARAMS, f"{method.name} needs {name} ({shown(kind)}).")
            continue
        if not _fits(params[name], kind):
            raise RpcError(
                INVALID_PARAMS,
                f"{name} must be {shown(kind)}, not {type(params[name]).__name__}.",
            )
        given[name] = params[name]
    return given


@functools.cache
def parameters(function: Callable[..., Any]) -> dict[str, tuple[Any, bool]]:
    """The parameters of a method: name → (type, whether it is required)."""
    hints = typing.get_type_hints(function)
    listed = list(inspect.signature(function).parameters.values())[1:]
    return {
        parameter.name: (hints[parameter.name], parameter.default is inspect.Parameter.empty)
        for parameter in listed
    }


def shown(kind: Any) -> str:
    """A parameter's type as people read it."""
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return " or ".join(
            shown(argument) for argument in typing.get_args(kind) if argument is not type(None)
        )
    if typing.get_origin(kind) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    origin = typing.get_origin(kind) or kind
    return {list: "a list", dict: "an object"}.get(origin) or names.get(origin) or str(kind)


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return any(_fits(value, argument) for argument in typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind) and not isinstance(value, bool)
    if typing.get_origin(kind) is list:
        of = typing.get_args(kind)[0]
        return isinstance(value, list) and all(_fits(item, of) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, typing.get_origin(kind) or kind)


def _explained(error: Exception, name: str) -> tuple[int, str]:
    """The code and the words for a failure that a handler did not foresee."""
    from hermes_state import StoreError

    if isinstance(error, StoreError):
        log.warning("%s: %s", name, error)
        return STORE_FAILED, str(error)
    from agent.config import ConfigError

    if isinstance(error, ConfigError):
        return AGENT_FAILED, str(error)
    log.error("%s failed", name, exc_info=error)
    return HANDLER_FAILED, f"{name} failed: {type(error).__name__}: {error}"
