"""The tables of docs/protocol.md, made from the methods, shapes and events themselves.

    python -m tui_gateway.protocol_page docs/protocol.md

puts them anew between their marks; what people wrote around them stays.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

from agent import made_pages

from . import methods, rpc
from .shapes_events import BARE, EVENTS

AREAS = {
    "Sessions": ("session", "terminal"),
    "Stored conversations, read by pages": ("hello", "conversation", "sessions"),
    "Devices and the state of everything": ("device", "state", "backup", "doctor"),
    "Prompts and questions": ("prompt", "approval", "grant", "clarify", "sudo"),
    "Slash commands and completion": ("slash", "command", "commands", "complete"),
    "Images, files, pastes": ("image", "file", "pdf", "input", "paste"),
    "Configuration and models": ("config", "model", "setup", "reload"),
    "Tools, skills, plugins": ("tools", "toolsets", "skills", "memory", "plugins"),
    "Work beside the conversation": ("process", "agents", "delegation", "subagent", "shell", "llm"),
    "Jobs": ("cron",),
    "Files taken back, conversations handed over": ("rollback", "handoff", "insights"),
}
"""Where methods stand on the page, by the first word of their names."""

CODES = {
    -32700: "The line is not JSON, or not UTF-8.",
    -32600: "The frame is not a request.",
    -32601: "There is no such method.",
    -32602: "A parameter is missing or of the wrong type.",
    -32000: "The method failed in a way that was not foreseen; the log has it.",
    4000: "No sub-agent was named.",
    4001: "There is no such live session.",
    4002: "The key of the configuration, its value, the provider's key or the text is not right.",
    4003: "There is no such provider.",
    4004: "The text, the query or the command is empty; or the provider takes no key.",
    4005: "The command looks dangerous; or there is no key to take out.",
    4006: "No session was named.",
    4007: "There is no such stored session.",
    4008: "Nothing was said yet.",
    4009: "A turn is running.",
    4010: "The device was revoked; it is disconnected.",
    4011: "There is no such command.",
    4012: "No process was named, or there is no task.",
    4014: "No checkpoint was named.",
    4015: "Nothing was given to attach.",
    4016: "There is no such file, folder or job, or it cannot be used.",
    4017: "A value is out of bounds, an action unknown, or a file too large or not readable.",
    4018: "The command failed, what was chosen is not there, or the file is of another kind.",
    4019: "There is no such plugin, or no such page.",
    4021: "The title is empty.",
    4022: "The title is taken or cannot be one.",
    4023: "No platform was named; or the session to delete is open.",
    4024: "The platform is not set up.",
    4025: "There is nothing to hand over yet.",
    4026: "The conversation is being handed over already.",
    4030: "The input is empty.",
    4031: "The length is out of bounds.",
    4033: "That is not always allowed.",
    4034: "The method is for an operator, or for a device that may do more than look.",
    4035: "That cannot be remembered, forgotten or undone; the message says why.",
    4044: "There is no such process.",
    4090: "As many sessions are open as may be.",
    4099: "The server ends and takes no further request. Connect again.",
    5000: "The store has failed.",
    5001: "The configuration could not be written.",
    5002: "The command took too long and was stopped.",
    5003: "The command could not be started.",
    5004: "There is no such choice.",
    5005: "It could not be compressed.",
    5008: "The task could not be started.",
    5011: "It could not be saved.",
    5015: "No MCP server has answered.",
    5021: "It could not be put back.",
    5022: "It could not be compared.",
    5023: "The doctor did not answer.",
    5024: "The skill could not be read.",
    5026: "The plugin could not be switched.",
    5028: "The file could not be kept.",
    5030: "The model gave no answer.",
    5032: "No agent could be built; the message waits until the cause is fixed.",
    5033: "The process that runs the turn did not hear the answer in time; try again.",
    5034: "The key could not be saved.",
    5035: "The key could not be taken out, or the tools not be switched.",
}
"""What each error code means."""


def generated() -> dict[str, str]:
    """The tables by the names of their marks."""
    methods.load_rest()
    shapes: dict[str, Any] = {}
    parts = {
        "methods": "\n\n".join(_area(name, first, shapes) for name, first in AREAS.items()),
        "events": _events(shapes),
        "errors": "\n".join(
            ["| Code | Meaning |", "|---|---|", *(f"| {code} | {CODES[code]} |" for code in CODES)]
        ),
    }
    return {**parts, "shapes": "\n\n".join(_shapes(shapes))}


def _area(name: str, first_words: tuple[str, ...], shapes: dict[str, Any]) -> str:
    rows = [
        _method(method, shapes)
        for method in sorted(rpc.METHODS.values(), key=lambda method: method.name)
        if method.name.partition(".")[0] in first_words
    ]
    head = ["| Method | Scope | Parameters | Result | |", "|---|---|---|---|---|"]
    return "\n".join([f"### {name}", "", *head, *rows])


def _method(method: rpc.Method, shapes: dict[str, Any]) -> str:
    given = ", ".join(
        f"`{name}{'' if required else '?'}` {_kind(kind if required else _given(kind), shapes)}"
        for name, (kind, required) in rpc.parameters(method.run).items()
    )
    result = typing.get_type_hints(method.run)["return"]
    summary = " ".join((inspect.getdoc(method.run) or "").split())
    return f"| `{method.name}` | {method.scope} | {given} | {_kind(result, shapes)} | {summary} |"


def _given(kind: Any) -> Any:
    """The type of a parameter where it is not left out."""
    kinds = [argument for argument in typing.get_args(kind) if argument is not type(None)]
    return typing.Union[tuple(kinds)] if type(None) in typing.get_args(kind) else kind  # noqa: UP007


def _events(shapes: dict[str, Any]) -> str:
    rows = ["| Type | Payload | |", "|---|---|---|"]
    for name, shape in EVENTS.items():
        if shape is None:
            rows.append(f"| `{name}` | | {BARE[name]} |")
            continue
        rows.append(f"| `{name}` | {_fields(shape, shapes)} | {_first_line(shape)} |")
    return "\n".join(rows)


def _fields(shape: Any, shapes: dict[str, Any]) -> str:
    return ", ".join(_each_field(shape, shapes).values())


def _each_field(shape: Any, shapes: dict[str, Any]) -> dict[str, str]:
    """The fields of a shape by name, each as it is written on the page."""
    written = {}
    for name, kind in typing.get_type_hints(shape, include_extras=True).items():
        optional = typing.get_origin(kind) is typing.NotRequired
        inner = typing.get_args(kind)[0] if optional else kind
        mark = "?" if optional or not shape.__total__ else ""
        written[name] = f"`{name}{mark}` {_kind(inner, shapes)}"
    return written


def _shapes(shapes: dict[str, Any]) -> Iterator[str]:
    """Each shape that was mentioned, and those that they mention."""
    done: set[str] = set()
    while left := sorted(set(shapes) - done):
        for name in left:
            done.add(name)
            _fields(shapes[name], shapes)  # mentions further ones
    for name in sorted(shapes):
        comments = _comments(shapes[name])
        fields = _each_field(shapes[name], shapes)
        lines = [
            f"- {field}" + (f": {comments[key]}" if key in comments else "")
            for key, field in fields.items()
        ]
        yield "\n".join([f"### {name}", "", _first_line(shapes[name]), "", *lines])


def _comments(shape: Any) -> dict[str, str]:
    """What stands below the fields of a shape."""
    source = inspect.getsource(shape)
    pattern = r'^    (\w+): [^\n]+\n    """(.*?)"""'
    pairs = re.findall(pattern, source, re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in pairs}


def _first_line(shape: Any) -> str:
    return " ".join((inspect.getdoc(shape) or "").partition("\n\n")[0].split())


def _kind(kind: Any, shapes: dict[str, Any]) -> str:
    if typing.is_typeddict(kind):
        name = kind.__name__
        if shapes.setdefault(name, kind) is not kind:
            raise ValueError(f"There are two shapes {name}.")
        return f"[{name}](#{name.lower()})"
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(argument, shapes) for argument in typing.get_args(kind))
    if origin is typing.Literal:
        return " or ".join(f'"{argument}"' for argument in typing.get_args(kind))
    if origin is list:
        return f"list of {_kind(typing.get_args(kind)[0], shapes)}"
    names = {str: "text", int: "int", float: "number", bool: "bool", type(None): "null", Any: "any"}
    return names.get(kind) or {dict: "object", list: "list"}.get(origin or kind, str(kind))


def renewed(page: str) -> str:
    """The page with its tables put anew."""
    return made_pages.renewed(page, generated())


if __name__ == "__main__":
    made_pages.renew_named(renewed)
