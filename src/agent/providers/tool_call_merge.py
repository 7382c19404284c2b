"""Putting streamed tool calls together, for providers that disagree on how to number them.

By the book each piece carries the `index` of its call, and the first piece its id and name. Some
providers leave the index out, give every call the index 0, repeat the id and name with each piece,
give two calls one id, or give none. The pieces that leave here always obey the book: numbered in
order, id and name first, ids unique within the reply.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from agent.model import ToolCallDelta


@dataclass(slots=True)
class _Call:
    index: int
    wire_id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    announced: bool = False


class ToolCallMerge:
    """The tool calls of one reply."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._calls)

    def feed(self, item: dict[str, Any]) -> tuple[ToolCallDelta | None, str]:
        """Take one piece as it came; return it by the book, and the id of its call.

        The piece is None while its call has no name yet.
        """
        function = item.get("function") or {}
        name = function.get("name") or ""
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = self._call_for(item.get("index"), item.get("id") or "", name, arguments)
        call.name = call.name or name
        if arguments:
            call.arguments.append(arguments)
        if call.announced:
            return (ToolCallDelta(call.index, "", "", arguments) if arguments else None), ""
        if not call.name:
            return None, ""
        call.announced = True
        call_id = self._unique_id(call.wire_id)
        return ToolCallDelta(call.index, call_id, call.name, "".join(call.arguments)), call_id

    def check(self) -> None:
        """Raise ValueError if a call never got a name."""
        for call in self._calls:
            if not call.announced:
                raise ValueError(f"tool call {call.index} has no name")

    def _call_for(self, index: int | None, wire_id: str, name: str, arguments: str) -> _Call:
        call = self._known(index, wire_id)
        if call is not None and not _begins_another(call, name, arguments):
            call.wire_id = call.wire_id or wire_id
            return call
        call = _Call(len(self._calls), wire_id)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _known(self, index: int | None, wire_id: str) -> _Call | None:
        if index is None:
            if not wire_id:
                return self._calls[-1] if self._calls else None
            return self._with_id(wire_id)
        call = self._by_index.get(index)
        if call is not None and wire_id and call.wire_id and wire_id != call.wire_id:
            return self._with_id(wire_id)
        return call

    def _with_id(self, wire_id: str) -> _Call | None:
        return next((call for call in reversed(self._calls) if call.wire_id == wire_id), None)

    def _unique_id(self, wire_id: str) -> str:
        call_id = wire_id or f"call_{uuid.uuid4().hex[:24]}"
        while call_id in self._ids:
            call_id = f"{wire_id}_{uuid.uuid4().hex[:8]}"
        self._ids.add(call_id)
        return call_id


def _begins_another(call: _Call, name: str, arguments: str) -> bool:
    """Whether a named piece is a new call rather than more of this one."""
    if not name or not call.name:
        return False
    if not call.arguments:
        return name != call.name
    if not arguments and name == call.name:
        return False
    try:
        return isinstance(json.loads("".join(call.arguments)), dict)
    except ValueError:
        return False
