"""`${name<operator><operand>}`: what the operators make of a value."""

from __future__ import annotations

import itertools
import re

from .marks import (
    BETWEEN,
    OBSCURE,
    ONE,
    STAR,
    UNKNOWN,
    could_match,
    has_marks,
    has_unknown,
)
from .state import ANYTHING, State, Values, elements_of, values_of

_LONGEST = 400
_SLICE = re.compile(r"\s*(-?[0-9]{1,6})\s*(?::\s*(-?[0-9]{1,6})\s*)?")


def operate(state: State, operator: str, values: Values, operands: Values) -> Values:
    """Every result of an operator over what its value and operand may be."""
    if operator.startswith("length"):
        return ANYTHING
    if operator.startswith("indirect"):
        if operator != "indirect" or any(has_marks(value) for value in values):
            return ANYTHING
        results = set().union(*(state.lookup(name) for name in values)) if values else set()
        return values_of(elements_of(array)[0] if elements_of(array) else "" for array in results)
    results = set()
    for value, operand in itertools.product(values, operands):
        results |= _apply_operator(operator, value, operand)
    return values_of(results)


def _apply_operator(operator: str, value: str, operand: str) -> set[str]:
    is_empty = not value.strip(BETWEEN)
    if operator in (":-", "-", ":=", "="):
        if value == UNKNOWN or (is_empty and operator[0] != ":"):  # empty, or not set at all
            return {value, operand}
        return {operand} if is_empty else {value}
    if operator in (":+", "+"):
        if value == UNKNOWN or (is_empty and operator[0] != ":"):
            return {"", operand}
        return {""} if is_empty else {operand}
    if operator in (":?", "?"):
        return {value}
    if has_unknown(value) or BETWEEN in value or has_unknown(operand) or len(value) > _LONGEST:
        return {OBSCURE if OBSCURE in value else UNKNOWN}
    if operator == ":":
        return {_sliced(value, operand)}
    if operator in ("#", "##", "%", "%%"):
        return {_trimmed(operator, value, operand)}
    if operator.startswith("/"):
        return {_replaced(operator, value, operand), *([] if value else [""])}
    if operator in ("^^", "^", ",,", ","):
        change = str.upper if operator[0] == "^" else str.lower
        changed = change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
        return {UNKNOWN if operand else changed}
    return {UNKNOWN}


def _sliced(value: str, operand: str) -> str:
    match = _SLICE.fullmatch(operand)
    if not match:
        return UNKNOWN
    start = int(match[1])
    if start < 0:
        start += len(value)
    if start < 0 or start > len(value):
        return ""
    if match[2] is None:
        return value[start:]
    length = int(match[2])
    return value[start : start + length] if length >= 0 else value[start:length]


def _is_pattern(text: str) -> bool:
    return has_marks(text) or any(sign in text for sign in "*?[\\")


def _trimmed(operator: str, value: str, pattern: str) -> str:
    if not _is_pattern(pattern):
        return value.removeprefix(pattern) if operator[0] == "#" else value.removesuffix(pattern)
    if "[" in pattern or "\\" in pattern:
        return UNKNOWN
    active = pattern.replace("*", STAR).replace("?", ONE)
    lengths = range(len(value) + 1)
    for length in lengths if len(operator) == 1 else reversed(lengths):
        piece = value[:length] if operator[0] == "#" else value[len(value) - length :]
        if could_match(active, piece, hides_dots=False):
            return value[length:] if operator[0] == "#" else value[: len(value) - length]
    return value


def _replaced(operator: str, value: str, operand: str) -> str:
    pattern, _, replacement = operand.partition("/")
    if _is_pattern(pattern) or "&" in replacement:  # `&` is what was matched, in newer shells
        return UNKNOWN
    if operator == "/#":
        return replacement + value[len(pattern) :] if value.startswith(pattern) else value
    if operator == "/%":
        return value.removesuffix(pattern) + replacement if value.endswith(pattern) else value
    if not pattern:
        return value
    return value.replace(pattern, replacement, -1 if operator == "//" else 1)
