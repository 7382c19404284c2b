"""From what YAML gave to typed settings, with a message for everything that does not fit.

Nothing here raises: problems and warnings are collected, so that a person sees all of them at once.
A problem names the key, the value and the fix; the value of a secret is never shown.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from agent.config.foreign import is_without_meaning
from agent.config.schema import Key, Limits, has_entries, is_section
from hermes_state.address import is_server, password_of, shown

S = TypeVar("S")

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
MANY = 3
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "tuple[str, ...]": "text, or a list of texts",
}


class Findings:
    """What was wrong with a configuration file: problems stop a start, warnings do not."""

    def __init__(
        self,
        path: str,
        environ: Mapping[str, str],
        written: Mapping[str, str] | None = None,
        ignored: Collection[str] = (),
    ) -> None:
        """`written` has the keys that have another name in the file; `ignored` keys are expected
        and mean nothing."""
        self.path = path
        self.environ = environ
        self._written = written or {}
        self._ignored = ignored
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self._unread: list[str] = []

    def refuse(self, key: str, value: Any, wanted: str, limits: Limits | None = None) -> None:
        """Record that `key` has a `value` that cannot be used, and what would be right."""
        is_hidden = limits is not None and (limits.secret or limits.address)
        given = "a value" if is_hidden else _shown(value)
        key = self._written.get(key, key)
        self.problems.append(f"{self.path}: {key} is {given}, but must be {wanted}.")

    def unknown(self, key: str, known: Collection[str]) -> None:
        """Record an unknown key, with the known one that looks most like it."""
        if is_without_meaning(key) or key in self._ignored:
            return
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        if near:
            self.warnings.append(f"{self.path}: unknown key {key}; did you mean {near[0]}?")
        else:
            self._unread.append(key)

    def tell_unread(self) -> None:
        """Make warnings of the unknown keys that look like no known one; one of them if many."""
        if len(self._unread) > MANY:
            keys = ", ".join(self._unread)
            self.warnings.append(f"{self.path}: unknown keys {keys}; they have no effect.")
        else:
            self.warnings += [
                f"{self.path}: unknown key {key}; it has no effect." for key in self._unread
            ]

    def expand(self, key: str, value: str) -> str:
        """`value` with each ${NAME} replaced from the environment or `.env`."""

        def replacement(match: re.Match[str]) -> str:
            value = self.environ.get(match[1])
            if value is None:
                self.warnings.append(
                    f"{self.path}: {key} refers to ${{{match[1]}}}, which is not set."
                    f" Add {match[1]}=… to .env beside it."
                )
            return value or ""

        return _REFERENCE.sub(replacement, value)


def read_section(cls: type[S], prefix: str, raw: Any, findings: Findings) -> S:
    """An instance of the section `cls` from the mapping `raw`; what is missing or wrong keeps
    its default."""
    if raw is None:
        return cls()
    if not isinstance(raw, Mapping):
        findings.refuse(prefix, raw, "a section: its keys, indented, on the lines below")
        return cls()
    known = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]  # a section class
    chosen: dict[str, Any] = {}
    for name, value in raw.items():
        key = f"{prefix}.{name}"
        item = known.get(str(name))
        if item is None:
            findings.unknown(key, [f"{prefix}.{other}" for other in known])
        elif is_section(item):
            chosen[item.name] = read_section(item.metadata["section"], key, value, findings)
        elif has_entries(item):
            names, entries = item.metadata["names"], item.metadata["entries"]
            if item.metadata.get("doors"):
                refuse_names(key, value, findings)
            chosen[item.name] = read_entries(entries, key, value, findings, names)
        elif value is not None:
            limits: Limits = item.metadata["limits"]
            converted = convert(key, value, str(item.type), limits, findings)
            if converted is not None:
                chosen[item.name] = converted
    return cls(**chosen)


def refuse_names(prefix: str, raw: Any, findings: Findings) -> None:
    """Refuse what is no door: whoever calls themselves by a name must not get what is set for it,
    and nobody believes that something holds for a person for whom it does not."""
    for name in raw if isinstance(raw, Mapping) else ():
        kind, _, identifier = str(name).partition(":")
        if name != "operator" and not (kind and identifier):
            findings.refuse(
                f"{prefix}.{name}", raw[name],
                "a door in the place of the name, such as telegram:42 (see hermes people list)",
            )  # fmt: skip


def read_entries(
    cls: type[S], prefix: str, raw: Any, findings: Findings, names: Collection[str] = ()
) -> dict[str, S]:
    """Sections of one kind, by the names that people gave them, or by one of `names`."""
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        findings.refuse(prefix, raw, "a section: names, indented, on the lines below")
        return {}
    for name in raw:
        if names and name not in names:
            findings.refuse(f"{prefix}.{name}", raw[name], f"one of {', '.join(names)}")
    return {
        str(name): read_section(cls, f"{prefix}.{name}", entry, findings)
        for name, entry in raw.items()
    }


def convert(key: str, value: Any, kind: str, limits: Limits, findings: Findings) -> Any:
    """`value` as its type, or None after recording why it cannot be."""
    kind = kind.removesuffix(" | None")
    if isinstance(value, str):
        is_secret = limits.secret or (limits.address and is_server(value) and password_of(value))
        if is_secret and value and not _REFERENCE.search(value):
            what = "is a secret" if limits.secret else "has a password in it,"
            findings.warnings.append(
                f"{findings.path}: {key} {what} in a file that is not meant for secrets."
                " Put it in .env as NAME=… and write ${NAME} here."
            )
        value = findings.expand(key, value)
    result = _CONVERTERS[kind](value, limits)
    if result is None or not _fits(result, limits):
        findings.refuse(key, value, _wanted(kind, limits), limits)
        return None
    return result


def shown_value(key: Key, value: Any, is_set: str = "(set)", is_not_set: str = "(not set)") -> Any:
    """A key's value as people may see it: of a secret only whether it is set, no passwords."""
    if key.limits.secret:
        return is_set if value else is_not_set
    if key.limits.address and is_server(value):
        return shown(value)
    return value


def _to_int(value: Any, _: Limits) -> int | None:
    number = _to_float(value, _)
    return int(number) if number is not None and number.is_integer() else None


def _to_float(value: Any, _: Limits) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _to_bool(value: Any, _: Limits) -> bool | None:
    text = str(value).strip().lower()
    return True if text in _YES else False if text in _NO else None


def _to_text(value: Any, limits: Limits) -> str | None:
    if isinstance(value, bool):
        # YAML reads a bare off, no or on as a truth value, so `mode: off` arrives as False.
        words = _YES if value else _NO
        return next((choice for choice in limits.choices if choice.lower() in words), None)
    if not isinstance(value, (str, int, float)):
        return None
    text = str(value).strip()
    return next((choice for choice in limits.choices if choice.lower() == text.lower()), text)


def _to_texts(value: Any, limits: Limits) -> tuple[str, ...] | None:
    texts = [_to_text(item, limits) for item in (value if isinstance(value, list) else [value])]
    return None if None in texts else tuple(text for text in texts if text)


_CONVERTERS = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "str": _to_text,
    "tuple[str, ...]": _to_texts,
}


def _fits(value: Any, limits: Limits) -> bool:
    if limits.choices:
        given = value if isinstance(value, tuple) else (value,)
        return all(item in limits.choices for item in given)
    if limits.minimum is not None and value < limits.minimum:
        return False
    return limits.maximum is None or value <= limits.maximum


def _wanted(kind: str, limits: Limits) -> str:
    if limits.choices:
        return "one of " + ", ".join(choice for choice in limits.choices if choice)
    wanted = _TYPES[kind]
    if limits.minimum is not None and limits.maximum is not None:
        return f"{wanted} from {limits.minimum:g} to {limits.maximum:g}"
    if limits.minimum is not None:
        return f"{wanted}, {limits.minimum:g} or more"
    return wanted


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a section"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"
