"""A tool's schema from its signature, and arguments that fit it from what a model sent.

The docstring's first part is the description; lines of the form `name: text` describe parameters.
Models sometimes send a number as text, or JSON inside a string: what is unambiguous is converted,
everything else is refused with the parameter's name and what it must be.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, Union

from .base import ToolError

_PARAMETER_LINE = re.compile(r"^(?P<name>\w+): (?P<text>.+)$")
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}


def describe(function: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """Description and JSON schema of a tool function; its first parameter is the context."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = {parameter.name for parameter in parameters}
    # Only these: the context's own type need not be known where the function is defined.
    annotations = {n: hint for n, hint in function.__annotations__.items() if n in names}
    hints = typing.get_type_hints(
        types.SimpleNamespace(__annotations__=annotations), inspect.unwrap(function).__globals__
    )
    description, notes = _read_docstring(inspect.getdoc(function) or "", names)
    properties: dict[str, Any] = {}
    required = []
    for parameter in parameters:
        entry = schema_of(hints.get(parameter.name, str))
        if parameter.name in notes:
            entry["description"] = notes[parameter.name]
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        elif parameter.default is not None:
            entry["default"] = parameter.default
        properties[parameter.name] = entry
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return description, schema


def _read_docstring(text: str, names: set[str]) -> tuple[str, dict[str, str]]:
    description: list[str] = []
    notes: dict[str, str] = {}
    current = None
    for line in text.splitlines():
        match = _PARAMETER_LINE.match(line.strip())
        if match and match["name"] in names:
            current = match["name"]
            notes[current] = match["text"]
        elif current and line.strip():
            notes[current] += " " + line.strip()
        elif not line.strip():
            current = None
            description.append("")
        else:
            description.append(line)
    return "\n".join(description).strip(), notes


def schema_of(hint: Any) -> dict[str, Any]:
    """JSON schema of a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if origin is Literal:
        return {"type": _SIMPLE[type(arguments[0])], "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not type(None)]
        return schema_of(kinds[0]) if len(kinds) == 1 else {"anyOf": [schema_of(k) for k in kinds]}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if typing.is_typeddict(hint):
        fields = typing.get_type_hints(hint)
        return {
            "type": "object",
            "properties": {name: schema_of(kind) for name, kind in fields.items()},
            "required": sorted(hint.__required_keys__),
        }
    return {"type": "object"} if hint is dict or origin is dict else {}


def fit(arguments: dict[str, Any], schema: dict[str, Any], tool: str) -> dict[str, Any]:
    """The arguments, converted where that is safe; ToolError names what does not fit."""
    properties = schema.get("properties", {})
    unknown = sorted(set(arguments) - set(properties))
    if unknown and not schema.get("additionalProperties"):
        raise ToolError(
            f"{tool} has no parameter {unknown[0]!r}. It takes: {', '.join(properties) or 'none'}."
        )
    missing = [name for name in schema.get("required", ()) if arguments.get(name) is None]
    if missing:
        raise ToolError(f"{tool} needs {missing[0]!r}: {_wanted(properties[missing[0]])}.")
    required = schema.get("required", ())
    return {
        name: _fit_one(value, properties.get(name, {}), name, tool)
        for name, value in arguments.items()
        if value is not None or name in required
    }


def _wanted(schema: dict[str, Any]) -> str:
    kind = str(schema.get("type", "a value"))
    choices = schema.get("enum")
    text = f"{kind}, one of {', '.join(map(str, choices))}" if choices else kind
    note = schema.get("description")
    return f"{text} ({note})" if note else text


def _fit_one(value: Any, schema: dict[str, Any], name: str, tool: str) -> Any:
    kind = schema.get("type")
    if isinstance(value, str) and kind in ("integer", "number", "boolean", "array", "object"):
        try:
            value = json.loads(value.lower() if kind == "boolean" else value)
        except ValueError:
            value = [value] if kind == "array" else value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not _is_kind(value, kind) or ("enum" in schema and value not in schema["enum"]):
        raise ToolError(f"{tool}: {name!r} must be {_wanted(schema)}, not {value!r:.100}.")
    return value


def _is_kind(value: Any, kind: str | None) -> bool:
    if kind in ("integer", "number"):
        numbers = int if kind == "integer" else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    kinds: dict[str | None, type] = {"string": str, "boolean": bool, "array": list, "object": dict}
    return isinstance(value, kinds[kind]) if kind in kinds else True
