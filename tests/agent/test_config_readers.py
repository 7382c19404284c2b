"""Every key that is accepted is read by something: no key is without effect."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from agent.config.schema import FREE_FORM, GATEWAY_KEYS, KEYS, SECTIONS, WITHIN

SRC = Path(__file__).parents[2] / "src"

READERS = {
    "model": "agent/build.py agent/config/model.py agent/providers/__init__.py",
    "agent": "agent/build.py gateway/recovery.py conversation/abandoned.py conversation/silence.py"
    " gateway/run.py",
    "compression": "agent/compression/driver.py agent/compression/policy.py",
    "auxiliary": "agent/auxiliary.py agent/build.py",
    "memory": "agent/build.py",
    "search": "agent/meaning/choose.py",
    "context": "agent/build.py",
    "display": "gateway/chat_turns.py tui_gateway/prompts.py tui_gateway/live.py"
    " hermes_cli/tui/app.py",
    "terminal": "tools/terminal/backends.py tools/terminal/docker.py tools/terminal/ssh.py"
    " tools/terminal/place.py tools/terminal/tool.py tools/wall/guardhouse.py agent/build.py",
    "code_execution": "tools/code_execution/__init__.py",
    "checkpoints": "tools/checkpoints/__init__.py",
    "approvals": "tools/approval.py",
    "delegation": "agent/auxiliary.py agent/build.py",
    "skills": "tools/skills/index.py",
    "logging": "agent/logs.py",
    "gateway": "gateway/session_store.py gateway/chat_turns.py gateway/authorization.py"
    " gateway/run.py gateway/adapter_host.py gateway/expiry.py gateway/config_load.py"
    " gateway/agent_cache.py",
    "session_reset": "gateway/config.py gateway/chat_door.py gateway/background_work.py",
    "streaming": "gateway/streaming.py",
    "restart_loop_guard": "gateway/config_load.py",
    "plugins": "hermes_base/plugins/discovery.py hermes_base/plugins/__init__.py",
    "sessions": "agent/auto_prune.py",
    "replicas": "gateway/abandoned_in_chats.py gateway/run.py",
    "jobs": "agent/jobs/actions.py agent/jobs/building.py gateway/run.py",
    "limits": "agent/limits.py",
    "access": "gateway/authorization.py agent/access.py",
    "store_objects": "agent/config/store.py",
    "tools": "tools/toolset_names.py",
    "fallback_models": "agent/build.py",
    "platforms": "gateway/config_load.py",
    "reset_by_type": "gateway/config.py",
    "reset_by_platform": "gateway/config.py",
    "reset_triggers": "gateway/pipeline.py",
    "max_live_sessions": "tui_gateway/live.py",
    "hooks": "tools/shell_hooks.py",
    "hooks_auto_accept": "tools/shell_hooks.py",
    "toolsets": "tools/toolset_names.py",
    "platform_toolsets": "tools/toolset_names.py",
    "mcp_servers": "tools/mcp/client.py",
    "web": "tools/web/__init__.py",
}
"""Section or top-level key → the files that act on it."""


@cache
def words_of(file: str) -> frozenset[str]:
    """The attributes and texts that a file speaks of."""
    nodes = list(ast.walk(ast.parse((SRC / file).read_text(encoding="utf-8"))))
    return frozenset(
        [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        + [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
    )


def is_read(section: str, name: str) -> bool:
    return any(name in words_of(file) for file in READERS.get(section, "").split())


@pytest.mark.parametrize("section", sorted({*SECTIONS, *WITHIN}))
def test_every_key_of_a_section_is_read(section: str) -> None:
    names = {key.name.split(".")[-1] for key in KEYS if key.name.split(".")[0] == section}
    names |= set(WITHIN.get(section, ())) - {"session_reset"}
    assert names
    assert {name for name in names if not is_read(section, name)} == set()


def test_every_key_at_the_top_is_read() -> None:
    keys = FREE_FORM - set(GATEWAY_KEYS) - set(WITHIN)
    assert {key for key in keys if not is_read(key, key)} == set()


def test_no_reader_is_listed_for_a_key_that_is_gone() -> None:
    assert set(READERS) <= {*SECTIONS, *FREE_FORM}


def test_every_key_of_the_page_is_read_somewhere() -> None:
    from hermes_cli.config_page import documented

    passed_over = {"schema.py", "config_page.py", "foreign.py"}
    files = [one for one in SRC.rglob("*.py") if one.name not in passed_over]
    read = frozenset().union(*(words_of(str(one.relative_to(SRC))) for one in files))
    names = {key: key.replace("[]", "").split(".")[-1] for key in documented()}
    assert [key for key, name in names.items() if name[0] != "<" and name not in read] == []
