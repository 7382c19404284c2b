"""What tools get of the configuration: every section they read, and `.env` for what it names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.build import tool_settings
from agent.config import ConfigError, load_config
from agent.config.write import set_dotenv_value
from agent.tool_environment import mcp_servers_from
from tools import checkpoints
from tools.base import ToolContext, Workspace
from tools.files.write import write_file
from tools.mcp.client import ServerConfig
from tools.terminal.tool import terminal
from tools.web.search import check_search

TERMINAL = """\
terminal:
  backend: docker
  pass_env: [GITHUB_TOKEN, "AWS_*"]
  docker_image: debian
  docker_container: box
  docker_user: me
  docker_volumes: ["/a:/b:ro"]
  docker_args: ["--network", none]
  ssh_host: far
  ssh_user: you
  ssh_port: 2222
  ssh_key: ~/.ssh/far
code_execution: {timeout: 20}
checkpoints: {enabled: false}
"""


def of(home: Path, yaml: str = "", dotenv: str = "", **environ: str) -> dict[str, Any]:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(yaml, encoding="utf-8")
    (home / ".env").write_text(dotenv, encoding="utf-8")
    (home / ".env").chmod(0o600)
    config = load_config(home, environ)
    assert config.warnings == ()
    return tool_settings(config)


def test_every_key_of_the_terminal_is_known_and_handed_on(tmp_path: Path) -> None:
    found = of(tmp_path, TERMINAL)
    assert found["terminal"] == {
        "backend": "docker", "cwd": ".", "timeout": 180, "pass_env": ("GITHUB_TOKEN", "AWS_*"),
        "docker_image": "debian", "docker_container": "box", "docker_user": "me",
        "docker_volumes": ("/a:/b:ro",), "docker_args": ("--network", "none"), "ssh_host": "far",
        "ssh_user": "you", "ssh_port": 2222, "ssh_key": "~/.ssh/far", "mode": "guarded",
        "sandbox": "auto", "network": "ask", "allowed_hosts": (), "folders": (),
    }  # fmt: skip
    assert found["code_execution"] == {"timeout": 20}


def test_pass_env_finds_what_it_names_in_dotenv(tmp_path: Path) -> None:
    dotenv = "GITHUB_TOKEN=from-file\nAWS_REGION=here\nOTHER_KEY=kept\n"
    yaml = "terminal: {pass_env: [GITHUB_TOKEN, 'AWS_*']}\napprovals: {mode: 'off'}\n"
    found = of(tmp_path / "home", yaml, dotenv)
    assert found["terminal"]["environ"] == {"GITHUB_TOKEN": "from-file", "AWS_REGION": "here"}
    workspace = Workspace(tmp_path / "home", tmp_path, settings=found)
    context = ToolContext("s", "c", workspace=workspace)
    command = "echo $GITHUB_TOKEN $AWS_REGION ${OTHER_KEY-none}"
    assert terminal.run(context, command) == "from-file here none"
    stronger = of(tmp_path / "home", yaml, dotenv, GITHUB_TOKEN="stronger")
    assert stronger["terminal"]["environ"]["GITHUB_TOKEN"] == "stronger"


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"terminal\.ssh_port is 70000"):
        of(tmp_path, "terminal: {ssh_port: 70000}\n")


@pytest.mark.parametrize("wanted", [True, False])
def test_checkpoints_can_be_switched_off(tmp_path: Path, wanted: bool) -> None:
    yaml = f"checkpoints: {{enabled: {str(wanted).lower()}}}\napprovals: {{mode: 'off'}}\n"
    found = of(tmp_path / "home", yaml)
    workspace = Workspace(tmp_path / "home", tmp_path, settings=found)
    write_file.run(ToolContext("s", "c", workspace=workspace), "a.txt", "text")
    assert bool(checkpoints.list_checkpoints(workspace, "s")) is wanted


@pytest.mark.parametrize(
    ("provider", "name", "value"),
    [("brave", "BRAVE_API_KEY", "k-from-file"), ("searxng", "SEARXNG_URL", "http://from.file")],
)
def test_search_finds_its_key_in_dotenv(
    tmp_path: Path, provider: str, name: str, value: str
) -> None:
    yaml = f"web: {{search_provider: {provider}}}\n"
    assert name in (check_search(of(tmp_path, yaml)["web"]) or "")
    from_file = of(tmp_path, yaml, f"{name}={value}\n")["web"]
    assert check_search(from_file) is None
    assert value in from_file[provider].values()
    from_environment = of(tmp_path, yaml, f"{name}={value}\n", **{name: "http://stronger"})["web"]
    assert "http://stronger" in from_environment[provider].values()


def test_the_configuration_wins_over_a_variable(tmp_path: Path) -> None:
    yaml = "web: {search_provider: brave, brave: {api_key: '${OTHER}', url: http://x}}\n"
    found = of(tmp_path, yaml, "OTHER=mine\nBRAVE_API_KEY=not-this\n")["web"]
    assert found["brave"] == {"api_key": "mine", "url": "http://x"}


MCP = """\
mcp_servers:
  one: {command: sh, args: ["${A}"], env: {KEY: "<${A}>", PORT: 5}}
  two: {url: "https://two.example", headers: {Authorization: "Bearer ${B}"}}
"""


def test_servers_get_what_dotenv_names(tmp_path: Path) -> None:
    found = of(tmp_path, MCP, "A=a-file\nB=b-file\n", B="b-environment")["mcp_servers"]
    one = ServerConfig.read("one", found["one"])
    assert (one.args, one.env) == (("${A}",), {"KEY": "<a-file>", "PORT": "5"})
    two = ServerConfig.read("two", found["two"])
    assert two.headers == {"Authorization": "Bearer b-environment"}


def test_a_name_that_is_not_set_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = of(tmp_path, MCP, "A=a\n")["mcp_servers"]
    assert found["two"]["headers"] == {"Authorization": "Bearer "}
    assert "mcp_servers.two.headers.Authorization refers to ${B}, which is not set" in caplog.text


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
@settings(max_examples=50)
def test_a_value_arrives_as_it_is(value: str) -> None:
    servers = {"one": {"command": "x", "env": {"KEY": "${A}"}}}
    read = ServerConfig.read("one", mcp_servers_from(servers, {"A": value, "B": "no"})["one"])
    assert read.env == {"KEY": value}


def test_a_value_with_a_reference_in_it_is_taken_literally(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    set_dotenv_value(home / ".env", "A", "x${B}y")
    (home / "config.yaml").write_text(MCP)
    found = tool_settings(load_config(home, {"B": "b"}))["mcp_servers"]
    assert ServerConfig.read("one", found["one"]).env["KEY"] == "<x${B}y>"
