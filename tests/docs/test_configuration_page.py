"""The configuration page is current and whole; every configuration that is shown can be used."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from agent.config import load_config
from agent.config.foreign import RENAMED
from agent.config.schema import FREE_FORM, SECTIONS
from agent.providers.known import KNOWN
from hermes_cli.config_page import VARIABLES, documented, renewed

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGE = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
FENCED = re.compile(r"(?ms)^```(\w*)\n(.*?)^```")


class Shown(NamedTuple):
    place: str
    text: str


def configurations() -> list[Shown]:
    """The YAML of every page, but for plugins' manifests."""
    found = []
    for page in (ROOT / "README.md", *DOCS):
        text = page.read_text(encoding="utf-8")
        for block in FENCED.finditer(text):
            kind, inner = block.groups()
            if kind == "yaml" and not {"name", "version"} <= set(yaml.safe_load(inner)):
                found.append(
                    Shown(f"{page.name}:{text.count(chr(10), 0, block.start()) + 1}", inner)
                )
    assert found, "no YAML was found: the pattern is broken"
    return found


def test_the_configuration_page_is_current() -> None:
    assert renewed(PAGE) == PAGE, "run: python -m hermes_cli.config_page docs/configuration.md"


def test_every_top_level_key_is_on_the_page() -> None:
    assert {
        one for one in (*SECTIONS, *FREE_FORM) if f"`{one}" not in PAGE and f".{one}" not in PAGE
    } == set()


READ = re.compile(
    r"""(?:environ(?:\.get\(|\[)|is_true\(\w*environ, |_seconds\()\s*"([A-Z][A-Z0-9_]+)"""
)
INTERNAL = {
    "TERM", "COLUMNS", "LOCALAPPDATA", "PATH", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
}  # fmt: skip
"""What a login or a terminal sets, and nobody would for Hermes."""


def test_every_variable_that_is_read_is_on_the_page() -> None:
    read: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        read.update(READ.findall(path.read_text(encoding="utf-8")))
    assert len(read) > 8, "the pattern finds nothing any more"
    assert {one for one in read if f"`{one}`" not in PAGE} - INTERNAL == set()


def test_the_page_names_no_variable_that_nothing_reads() -> None:
    sources = "".join(
        p.read_text(encoding="utf-8")
        for p in (ROOT / "src").rglob("*.py")
        if p.name != "config_page.py"
    )
    assert {one for one in VARIABLES if one not in sources} == set()


def pattern_of(name: str) -> re.Pattern[str]:
    return re.compile(
        re.sub(r"<\w+>", r"[^.]+", re.escape(name).replace(r"\<", "<").replace(r"\>", ">"))
    )


PATTERNS = {name: pattern_of(name.replace("[]", "")) for name in documented()}
SAME_AS = {
    "gateway.reset_by_type.<type>": "session_reset",
    "gateway.reset_by_platform.<platform>": "session_reset",
}
PATTERNS |= {
    f"{prefix}.{name}": pattern_of(f"{prefix}.{name.partition('.')[2]}")
    for prefix, section in SAME_AS.items()
    for name in documented()
    if name.startswith(f"{section}.")
}


def is_known(key: str) -> bool:
    """Whether a key is on the PAGE, or is a section of such keys."""
    return key in SECTIONS or any(
        one.fullmatch(key) or name.startswith(f"{key}.") or one.match(f"{key}.")
        for name, one in PATTERNS.items()
    )


def leaves(value: Any, prefix: str = "") -> Iterator[str]:
    """The keys of a configuration, down to where a key of the page is reached."""
    for name, inner in value.items():
        key = f"{prefix}{name}"
        reached = any(one.fullmatch(key) for one in PATTERNS.values())
        if isinstance(inner, dict) and not reached:
            yield from leaves(inner, f"{key}.")
        elif isinstance(inner, list) and not reached:
            for one in inner:
                yield from leaves(one, f"{key}.") if isinstance(one, dict) else [key]
        else:
            yield key


@pytest.mark.parametrize("block", configurations(), ids=lambda block: block.place)
def test_a_configuration_can_be_used(
    block: Shown, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from gateway.config_load import load_gateway_config

    (tmp_path / "config.yaml").write_text(block.text, encoding="utf-8")
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "a-secret-of-its-own")
    environ |= {name: "a-secret-of-its-own" for one in KNOWN.values() for name in one.key_variables}
    config = load_config(tmp_path, environ)
    on_the_page = {f"unknown key {name};" for name in documented()} | {
        "unknown key code_execution;"
    }
    unexpected = [one for one in config.warnings if not any(known in one for known in on_the_page)]
    assert unexpected == []
    keys = set(leaves(config.raw)) - {"model"}
    assert {one for one in keys if not is_known(one)} == set()
    # Those name a plugin that is not here, and a hook that nobody has agreed to.
    if not {"plugins", "hooks"} & set(config.raw):
        with caplog.at_level(logging.WARNING):
            load_gateway_config(config)
        assert caplog.messages == []


PACKAGES = ("agent", "gateway", "tools")


def is_of_the_source(name: str) -> bool:
    """Whether a dotted name is a module, or something in one, rather than a key."""
    head, second, *_ = name.split(".")
    folder = ROOT / "src" / head
    return (folder / second).is_dir() or (folder / f"{second}.py").exists()


# The methods of the protocol have names like keys.
@pytest.mark.parametrize(
    "page", [one for one in DOCS if one.name != "protocol.md"], ids=lambda page: page.name
)
def test_keys_in_sentences_exist(page: Path) -> None:
    # `context` is what a tool is given, too.
    heads = {name.split(".")[0] for name in documented()} - {"context"}
    sentences = FENCED.sub("", page.read_text(encoding="utf-8"))
    wrong = []
    for name in re.findall(r"`([a-z_]+(?:\.[a-z_<>]+)+)(?:: [^`]+)?`", sentences):
        if name.split(".")[0] not in heads or name.endswith(
            (".py", ".log", ".pid", ".out", ".md", ".db")
        ):
            continue
        if name.startswith(PACKAGES) and is_of_the_source(name):
            continue
        if not is_known(name) and name not in RENAMED:
            wrong.append(name)
    assert not wrong
