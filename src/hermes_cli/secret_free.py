"""Files of a home without the secrets in them, for a backup that is given away.

A file that holds secrets and nothing else is left out. In a `config.yaml` the values that are
secrets become empty; every other byte, comments included, stays as it is.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from hermes_state.address import is_server, password_of, with_password_from

SECRET_FILES = (
    ".env", ".env.*", "*.env", "auth.json", "credentials*.json", "token*.json", ".netrc", "*.pem",
    "*.key",
)  # fmt: skip
_SECRET_WORDS = frozenset({
    "key", "keys", "token", "secret", "secrets", "password", "passwd", "passphrase", "pass",
    "credential", "credentials", "authorization", "cookie", "bearer", "pin", "apikey",
})  # fmt: skip
_OPAQUE = frozenset({"env", "headers", "environment"})
"""Mappings whose every value may be a secret: what another program is started or called with."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_REFERENCE = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*\}?")
_HARMLESS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")


class SecretFree(NamedTuple):
    """A file as it may be given away."""

    data: bytes | None
    """What is left of it; None if it is left out."""
    left_out: list[str]
    """What was taken out of it, by name."""


def is_secret_file(name: str) -> bool:
    """Whether a file holds secrets and nothing else, by its name."""
    last = PurePosixPath(name).name
    return any(fnmatch(last, pattern) for pattern in SECRET_FILES)


def without_secrets(name: str, path: Path) -> SecretFree:
    """The file without its secrets."""
    if is_secret_file(name):
        return SecretFree(None, [name])
    data = path.read_bytes()
    if PurePosixPath(name).name not in ("config.yaml", "config.yml"):
        return SecretFree(data, [])
    try:
        text, taken = mask_config(data.decode())
    except ValueError:
        return SecretFree(None, [f"{name} (it is not valid YAML, so its secrets cannot be found)"])
    return SecretFree(text.encode(), [f"{name}: {place}" for place in taken])


def mask_config(text: str) -> tuple[str, list[str]]:
    """A configuration with empty texts in the place of its secrets, and where these were.

    Raises ValueError if it is not YAML.
    """
    import yaml

    try:
        scalars = [
            (token.start_mark.index, token.end_mark.index)
            for token in yaml.scan(text)
            if isinstance(token, yaml.ScalarToken)
        ]
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    secrets: list[tuple[int, int, str]] = []
    if root is not None:
        _collect(root, "", False, secrets)
    pieces = [(start, end, _instead(text[start:end], place)) for start, end, place in secrets]
    pieces += _comments(text, scalars)
    for start, end, instead in sorted(pieces, reverse=True):
        text = text[:start] + instead + text[end:]
    return text, [place for _, _, place in secrets]


def _instead(written: str, place: str) -> str:
    """What stands in the place of a secret: of the store's address only the password goes."""
    address = written.strip("'\"")
    if place == "store" and is_server(address) and password_of(address):
        return f'"{with_password_from(address, "HERMES_STORE_PASSWORD")}"'
    return '""'


def _collect(node: Any, place: str, is_secret: bool, secrets: list[tuple[int, int, str]]) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = str(key.value)
            inner = f"{place}.{name}" if place else name
            _collect(value, inner, is_secret or _is_secret_name(name, value), secrets)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _collect(value, f"{place}[{number}]", is_secret, secrets)
    elif _is_secret(node, is_secret):
        start, end = node.start_mark.index, node.end_mark.index
        if node.style in ("|", ">"):
            end -= 1  # its last line break belongs to what follows
        if (start, end, place) not in secrets:
            secrets.append((start, end, place))


def _is_secret_name(name: str, value: Any) -> bool:
    import yaml

    if isinstance(value, yaml.MappingNode) and name.lower() in _OPAQUE:
        return True
    return is_secret_name(name)


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


def _is_secret(node: Any, by_name: bool) -> bool:
    from hermes_base.redaction import redact

    value = str(node.value)
    if not value or node.tag in _HARMLESS or _REFERENCE.fullmatch(value.strip()):
        return False
    return by_name or redact(value) != value


def _comments(text: str, scalars: list[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """The comments in which a secret stands, and what stands there instead."""
    from hermes_base.redaction import redact

    masked_comments = []
    for match in re.finditer(r"(?:^|(?<=[ \t]))#.*$", text, re.MULTILINE):
        if any(start < match.start() < end for start, end in scalars):
            continue
        masked = redact(match[0])
        if masked != match[0]:
            masked_comments.append((match.start(), match.end(), masked))
    return masked_comments
