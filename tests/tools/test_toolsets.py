"""The default tools: the known names and parameters, turned on and off by configuration."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tools.toolsets import default_tools, selected

# Names and parameters that prompts, skills and transcripts rely on.
KNOWN = {
    "terminal": "command background timeout workdir pty notify_on_complete watch_patterns needs",
    "process": "action session_id data timeout offset limit",
    "read_file": "path offset limit",
    "write_file": "path content",
    "patch": "mode path old_string new_string replace_all patch",
    "search_files": "pattern target path file_glob limit offset output_mode context",
    "memory": "action target content old_text operations shared",
    "session_search": "query limit sort session_id around_message_id window role_filter",
    "todo": "todos merge",
    "clarify": "question choices",
    "delegate_task": "goal context tasks role background",
    "execute_code": "code",
    "skills_list": "category",
    "skill_view": "name file_path",
    "skill_manage": "action name content old_string new_string replace_all category file_path"
    " file_content shared",
}


def test_every_known_tool_is_there_with_its_parameters(tmp_path: Path) -> None:
    registry = default_tools({}, tmp_path)
    for name, parameters in KNOWN.items():
        tool = registry.get(name)
        assert tool is not None, name
        assert set(tool.parameters["properties"]) == set(parameters.split()), name
        assert tool.description and tool.effect in ("none", "idempotent", "effectful")
    assert registry.get("web_fetch") is not None


def test_the_order_is_stable(tmp_path: Path) -> None:
    assert default_tools({}, tmp_path).schemas() == default_tools({}, tmp_path).schemas()


def test_tools_can_be_chosen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {one.name for one in default_tools({"toolsets": ["files"]}, tmp_path)}
    assert files == {"read_file", "write_file", "patch", "search_files"}
    fewer = default_tools({"tools": {"disabled": ["terminal", "write_file"]}}, tmp_path)
    assert {fewer.get(name) for name in ("terminal", "process", "write_file")} == {None}
    assert fewer.get("read_file") is not None
    with caplog.at_level(logging.WARNING):
        assert selected(list(fewer), {"toolsets": ["flies"]}) == []
        list(selected(list(fewer), {"toolsets": "file"}))
    assert "did you mean 'files'" in caplog.text
