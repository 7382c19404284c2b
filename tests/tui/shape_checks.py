"""Whether a value has the shape that is declared for it."""

from __future__ import annotations

import types
import typing
from typing import Any


def required_keys(shape: Any) -> set[str]:
    if not shape.__total__:
        return set()
    hints = typing.get_type_hints(shape, include_extras=True)
    optional = typing.NotRequired
    return {name for name, kind in hints.items() if typing.get_origin(kind) is not optional}


def check(value: Any, kind: Any, where: str) -> None:
    """Fail unless a value has the type that a shape declares."""
    if kind is Any:
        return
    origin = typing.get_origin(kind)
    if typing.is_typeddict(kind):
        assert isinstance(value, dict), where
        hints = typing.get_type_hints(kind)
        assert set(value) <= set(hints), (where, set(value) - set(hints))
        assert set(value) >= required_keys(kind), (where, required_keys(kind) - set(value))
        for key, one in value.items():
            check(one, hints[key], f"{where}.{key}")
    elif origin in (typing.Union, types.UnionType):
        for option in typing.get_args(kind):
            try:
                check(value, option, where)
            except AssertionError:
                continue
            return
        raise AssertionError(f"{where} is {value!r}, not {kind}")
    elif origin is list:
        assert isinstance(value, list), where
        for number, one in enumerate(value):
            check(one, typing.get_args(kind)[0], f"{where}[{number}]")
    elif origin is dict or kind is dict:
        assert isinstance(value, dict), where
    elif kind is float:
        assert isinstance(value, int | float) and not isinstance(value, bool), where
    elif kind is int:
        assert isinstance(value, int) and not isinstance(value, bool), where
    elif kind is type(None):
        assert value is None, where
    else:
        assert isinstance(value, kind), f"{where} is {value!r}, not {kind}"
