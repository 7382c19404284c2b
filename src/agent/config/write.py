"""Changing config.yaml and .env: one value at a time, everything else left as it stands.

A change is an edit of the text, so that comments, order and unknown keys stay. Before it replaces
the file it is read back: if anything but the wanted value were different, or the configuration
could not be used any more, nothing is written and the person is told what to do by hand.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.config import load_config, read_yaml
from agent.config.env import parse_dotenv
from agent.home import ConfigError
from hermes_base.files import write_private
from tools.toolset_names import names_in

_writing = threading.Lock()
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def set_config_value(path: Path, key: str, value: Any) -> bool:
    """Set a key such as "display.show_reasoning" in the file at `path`; False if it was so already.

    Raises ConfigError if the file is broken, cannot be changed safely, or could not be used with
    that value, as one with text that is not valid Unicode.
    """
    return set_config_values(path, {key: value})


def set_config_values(path: Path, values: Mapping[str, Any]) -> bool:
    """Set several keys that only make sense together, as one change; see `set_config_value`."""
    for key, value in values.items():
        _refuse_broken_text(path, key, value)
    with _writing:
        text = changed = _read(path)
        raw = wanted = _parsed(path, text)
        for key, value in values.items():
            parts = key.split(".")
            before, wanted = wanted, _with(wanted, parts, value)
            if wanted == before:
                continue
            step = edited(changed, parts, value)
            if step is None or _parsed(path, step) != wanted:
                raise ConfigError(f"{path} was not changed: set {key} to {value!r} in it by hand.")
            changed = step
        if wanted == raw:
            return False
        load_config(path.parent, raw=wanted)
        _write(path, changed)
    return True


def set_plugin_enabled(path: Path, name: str, enabled: bool) -> bool:
    """Enable or disable a plugin in the file at `path`; False if that was so already."""
    section = read_yaml(path).get("plugins")
    section = section if isinstance(section, dict) else {}
    on, off = names_in(section.get("enabled")), names_in(section.get("disabled"))
    values = {"plugins.enabled": [plugin for plugin in on if plugin != name or enabled]}
    if enabled and name not in on:
        values["plugins.enabled"].append(name)
    if off or not enabled:
        values["plugins.disabled"] = [plugin for plugin in off if plugin != name or not enabled]
        if not enabled and name not in off:
            values["plugins.disabled"].append(name)
    return set_config_values(path, values)


def _refuse_broken_text(path: Path, key: str, value: Any) -> None:
    if not _is_unicode(key) or not _is_unicode(value):
        raise ConfigError(
            f"{path} was not changed: the text for {ascii(key)[1:-1]} is not valid Unicode (half of"
            " a surrogate pair, or bytes that are not UTF-8)."
        )


def _is_unicode(value: Any) -> bool:
    """Whether all text in a value can be written: half of a surrogate pair cannot."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, Mapping):
        return all(_is_unicode(key) and _is_unicode(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_unicode, value))
    return True


def with_values(raw: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with several keys changed, to see what would come of it."""
    changed = dict(raw)
    for key, value in values.items():
        changed = _with(changed, key.split("."), value)
    return changed


def _with(raw: Mapping[str, Any], parts: list[str], value: Any) -> dict[str, Any]:
    """`raw` with one value changed; a plain text under `model` is the model's name."""
    head, *rest = parts
    if not rest:
        return {**raw, head: value}
    inner = raw.get(head)
    if head == "model" and isinstance(inner, str):
        inner = {"default": inner}
    if inner is not None and not isinstance(inner, Mapping):
        raise ConfigError(f"{head} in config.yaml is no section; {'.'.join(parts)} cannot be set.")
    return {**raw, head: _with(inner or {}, rest, value)}


def edited(text: str, parts: list[str], value: Any) -> str | None:
    """The text of a configuration with one value changed; None if it is written too cleverly."""
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return _ended(text) + _block(parts, value, 0)
    if not isinstance(root, yaml.MappingNode):
        return None
    node = root
    for depth, part in enumerate(parts):
        entry = next((pair for pair in node.value if pair[0].value == part), None)
        if entry is None:
            return _inserted(text, node, parts[depth:], value)
        key, inner = entry
        if depth == len(parts) - 1:
            return _replaced(text, key, inner, _flow(value))
        if isinstance(inner, yaml.ScalarNode):
            rest = _nested(parts[depth + 1 :], value)
            if part == "model" and inner.value:
                rest = {"default": inner.value, **rest}
            return _replaced(text, key, inner, _flow(rest))
        if not isinstance(inner, yaml.MappingNode):
            return None
        node = inner
    return None


def _replaced(text: str, key: Any, inner: Any, new: str) -> str:
    start, end = inner.start_mark.index, _end(text, inner)
    if start < key.end_mark.index:
        return text  # an alias: what it stands for is elsewhere; the caller sees that it failed
    if start == end or "\n" in text[key.end_mark.index : start]:
        start = text.index(":", key.end_mark.index) + 1
        new = f" {new}"
    return text[:start] + new + text[end:]


def _inserted(text: str, node: Any, parts: list[str], value: Any) -> str | None:
    if node.flow_style:
        end = node.end_mark.index - 1
        comma = ", " if node.value else ""
        entry = _flow(_nested(parts, value))[1:-1]
        return text[:end].rstrip() + f"{comma}{entry}" + text[end:]
    if not node.value:
        return None
    end = _end(text, node)
    newline = text.find("\n", end)
    end = len(text) if newline < 0 else newline + 1
    head = _ended(text[:end])
    return head + _block(parts, value, node.start_mark.column) + text[end:]


def _end(text: str, node: Any) -> int:
    """Where a value ends; what stands behind it on lines of its own belongs to the next."""
    end = int(node.end_mark.index)
    lines = text[node.start_mark.index : end].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        end -= len(lines.pop())
    return end - (len(lines[-1]) - len(lines[-1].rstrip()) if lines else 0)


def _nested(parts: list[str], value: Any) -> dict[str, Any]:
    for part in reversed(parts[1:]):
        value = {part: value}
    return {parts[0]: value}


def _block(parts: list[str], value: Any, indent: int) -> str:
    lines = []
    for depth, part in enumerate(parts):
        space = " " * (indent + 2 * depth)
        last = depth == len(parts) - 1
        lines.append(f"{space}{_flow(part)}:" + (f" {_flow(value)}" if last else "") + "\n")
    return "".join(lines)


def _flow(value: Any) -> str:
    """A value on one line, any line end or invisible character in it as an escape."""
    written = _dumped(value, allow_unicode=True)
    return written if written.isprintable() else _dumped(value, allow_unicode=False)


def _dumped(value: Any, allow_unicode: bool) -> str:
    import yaml

    written = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=allow_unicode, width=10**9
    )
    return str(written).removesuffix("\n...\n").rstrip("\n")


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _parsed(path: Path, text: str) -> dict[str, Any]:
    import yaml

    try:
        # As the configuration is read: what one loader takes may be an error to the other.
        parsed = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML; fix it first: {error}") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise ConfigError(f"{path} must hold keys such as “model: gpt-5”.")
    return parsed


# .env


def set_dotenv_value(path: Path, name: str, value: str | None) -> bool:
    """Set a variable in the file at `path`, or with None take it out; False if it was so already.

    Raises ConfigError if the file cannot be changed safely. Nothing it says holds the value.
    """
    _refuse_broken_text(path, name, value)
    with _writing:
        text = _read(path)
        before, _ = parse_dotenv(text)
        if before.get(name) == value:
            return False
        line = re.compile(rf"[ \t]*(?:export[ \t]+)?{re.escape(name)}[ \t]*=")
        kept = [row for row in text.splitlines(keepends=True) if not line.match(row)]
        changed = _ended("".join(kept))
        wanted = {key: old for key, old in before.items() if key != name}
        if value is not None:
            changed += f"{name}={_quoted(value)}\n"
            wanted[name] = value
        if parse_dotenv(changed)[0] != wanted:
            raise ConfigError(f"{path} was not changed: change {name} in it by hand.")
        _write(path, changed)
    return True


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    if "'" not in value and "\r" not in value:  # line ends within quotes are made one kind
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


# Files


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, for its owner alone; a link stays a link."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path.resolve(), text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
