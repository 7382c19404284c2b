"""What MCP servers claim about their tools, and what they answer, in shapes that can be trusted.

A server may send any name, any schema and any result. Names become unique and harmless, schemas
become ones that models and `schema.fit` understand, results become text of a bounded length.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, TypeGuard

MAX_NAME = 64
MAX_DESCRIPTION = 2_000
MAX_SCHEMA = 50_000
MAX_RESULT = 1_000_000
_MAX_DEPTH = 20
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_TYPES = {"string", "integer", "number", "boolean", "array", "object"}
_OPEN_SCHEMA = {"type": "object", "properties": {}, "additionalProperties": True}


def tool_name(server: str, tool: str, taken: set[str]) -> str:
    """`mcp_<server>_<tool>`, made of harmless characters, not too long, and not `taken`."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp_{server}_{tool}")
    if len(name) > MAX_NAME or name in taken:
        # By what it stands for, so that the name is the same at every start.
        digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()[:8]
        name = f"{name[: MAX_NAME - 9]}_{digest}"
    return name


def description(text: Any, server: str) -> str:
    """What the server says of a tool, shortened, with a word on where it comes from."""
    said = _CONTROL.sub("", text).strip() if isinstance(text, str) else ""
    if len(said) > MAX_DESCRIPTION:
        said = f"{said[:MAX_DESCRIPTION]}…"
    return f"{said}\n\n(A tool of the MCP server {server!r}.)".strip()


def parameters(schema: Any) -> dict[str, Any]:
    """A schema of arguments that makes sense; one that takes anything if the server's does not."""
    try:
        if not isinstance(schema, dict) or len(json.dumps(schema)) > MAX_SCHEMA:
            return dict(_OPEN_SCHEMA)
    except (ValueError, TypeError, RecursionError):
        return dict(_OPEN_SCHEMA)
    clean = _clean(schema, _MAX_DEPTH)
    clean["type"] = "object"
    properties = clean.get("properties")
    clean["properties"] = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if _is_list(required) else []
    for name in names:
        # The server wants it, even if it does not say what it is.
        clean["properties"].setdefault(name, {})
    clean.pop("required", None)
    if names:
        clean["required"] = list(dict.fromkeys(names))
    if not clean["properties"]:
        clean["additionalProperties"] = True
    return clean


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _clean(schema: Any, depth: int) -> dict[str, Any]:
    """One level of a schema, and those below it, without what cannot be right."""
    if not isinstance(schema, dict) or depth == 0:
        return {}
    clean: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions", "patternProperties"):
            if isinstance(value, dict):
                clean[key] = {str(name): _clean(item, depth - 1) for name, item in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            if _is_list(value) and value:
                clean[key] = [_clean(item, depth - 1) for item in value]
        elif key in ("items", "not", "additionalProperties") and not isinstance(value, bool):
            clean[key] = _clean(value, depth - 1)
        elif key == "type":
            clean |= _type(value)
        elif key == "enum":
            if _is_list(value) and value:
                clean[key] = value
        elif key == "required":
            if _is_list(value):
                clean[key] = [name for name in value if isinstance(name, str)]
        elif key == "$ref":
            if isinstance(value, str) and value.startswith("#/"):
                clean[key] = value
        elif key in ("title", "description"):
            if isinstance(value, str):
                clean[key] = _CONTROL.sub("", value)[:MAX_DESCRIPTION]
        elif key not in ("$schema", "$id", "$comment", "examples"):
            clean[key] = value
    return clean


def _type(value: Any) -> dict[str, Any]:
    """A type as one word; several become alternatives."""
    named = value if _is_list(value) else [value]
    kinds = [kind for kind in named if isinstance(kind, str) and kind in _TYPES]
    if len(kinds) == 1:
        return {"type": kinds[0]}
    return {"anyOf": [{"type": kind} for kind in kinds]} if kinds else {}


def result_text(content: Any, structured: Any) -> str:
    """A tool's answer as text; what is not text is named."""
    parts = [_part(block) for block in (content or ())]
    if structured is not None and not any(getattr(b, "type", "") == "text" for b in content or ()):
        parts.append(_json(structured))
    text = _CONTROL.sub("", "\n".join(part for part in parts if part)).strip()
    if len(text) > MAX_RESULT:
        text = f"{text[:MAX_RESULT]}\n[… {len(text) - MAX_RESULT:,} characters left out …]"
    return text


def _part(block: Any) -> str:
    kind = getattr(block, "type", "")
    if kind == "text":
        return str(block.text)
    if kind in ("image", "audio"):
        return f"[{kind}: {block.mime_type}, about {len(block.data) * 3 // 4:,} bytes, not shown]"
    if kind == "resource_link":
        return f"[resource: {block.uri}]"
    if kind == "resource":
        resource = block.resource
        text = getattr(resource, "text", None)
        head = f"[resource: {resource.uri}]"
        return f"{head}\n{text}" if isinstance(text, str) else f"{head} [binary, not shown]"
    return f"[{kind or 'something unknown'}, not shown]"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)[:MAX_RESULT]
