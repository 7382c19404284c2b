"""Configuration, models, tools, skills and plugins: read, changed, never told in full."""

from __future__ import annotations

import importlib.util
import json
import stat

import pytest
from method_calls import CONFIG, Gateway

from hermes_base import plugins

KEY = "sk-ant-1234567890-abcdefgh"


def config_text(gateway: Gateway) -> str:
    return (gateway.home / "config.yaml").read_text()


def test_a_global_value_is_written_and_counts_at_once(gateway: Gateway) -> None:
    done = gateway.call("config.set", key="display.busy_input_mode", value="queue")
    assert done == {"key": "display.busy_input_mode", "value": "queue", "scope": "global"}
    assert gateway.call("config.get", key="busy")["value"] == "queue"
    text = config_text(gateway)
    assert text.startswith(CONFIG), "everything else stands as it stood"
    assert stat.S_IMODE((gateway.home / "config.yaml").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("display.busy_input_mode", "perhaps"),
        ("model.base_url", ""),
        ("display.nothing", 1),
        ("model.api_key", KEY),
        ("yolo", "maybe"),
        ("compression.threshold", 7),
    ],
)
def test_values_that_cannot_be(gateway: Gateway, key: str, value: object) -> None:
    refusal = gateway.refused("config.set", key=key, value=value)
    assert refusal.code == 4002 and KEY not in refusal.message
    assert config_text(gateway) == CONFIG
    assert gateway.call("config.get", key="model.default")["value"] == "test-model"


@pytest.mark.parametrize("value", ["\ud800", ["a", "\udcff"]])
def test_text_that_is_not_unicode_is_refused(gateway: Gateway, value: object) -> None:
    """It could be written, but the file could never be read again."""
    for key in ("model.default", "tools.disabled", "platforms.x.note"):
        refusal = gateway.refused("config.set", key=key, value=value)
        assert refusal.code == 4002
        refusal.message.encode()
    assert config_text(gateway) == CONFIG
    assert gateway.call("config.get", key="model.default")["value"] == "test-model"


def test_a_file_that_is_broken_is_left_alone(gateway: Gateway) -> None:
    gateway.call("config.get")
    (gateway.home / "config.yaml").write_text("model: [\n")
    refusal = gateway.refused("config.set", key="display.show_reasoning", value=True)
    assert refusal.code == 5001 and "YAML" in refusal.message
    assert config_text(gateway) == "model: [\n"


def test_a_value_for_one_session_changes_no_file(gateway: Gateway) -> None:
    one, other = gateway.open(), gateway.open()
    gateway.ask(one, "hello")
    done = gateway.call("config.set", key="reasoning", value="high", session_id=one)
    assert done["scope"] == "session"
    gateway.call("config.set", key="busy", value="steer", session_id=one)
    gateway.call("config.set", key="yolo", value=True, session_id=one)
    gateway.call("config.set", key="model", value="another", session_id=one)
    assert config_text(gateway) == CONFIG
    assert gateway.live(one)["agent"].model == "another"
    assert gateway.call("config.get", key="reasoning", session_id=one)["value"] == "high"
    assert gateway.call("config.get", key="reasoning", session_id=other)["value"] == ""
    assert gateway.call("config.get", key="yolo", session_id=other)["value"] is False
    assert gateway.call("config.get", key="provider", session_id=one)["model"] == "another"
    info = gateway.events(one, "session.info")[-1]["payload"]
    assert (info["model"], info["yolo"], info["reasoning_effort"]) == ("another", True, "high")
    gateway.ask(one, "again")
    assert gateway.live(one)["agent"].llm.requests[-1].reasoning_effort == "high"


def test_scopes_are_checked(gateway: Gateway) -> None:
    sid = gateway.open()
    for params in (
        {"key": "logging.level", "value": "DEBUG", "scope": "session", "session_id": sid},
        {"key": "busy", "value": "queue", "scope": "session"},
        {"key": "busy", "value": "sometimes", "session_id": sid},
        {"key": "cwd", "value": 5, "session_id": sid},
        {"key": "model", "value": "", "session_id": sid},
    ):
        assert gateway.refused("config.set", **params).code == 4002
    folder = gateway.home.parent / "elsewhere"
    folder.mkdir()
    done = gateway.call("config.set", key="cwd", value=str(folder), session_id=sid)
    assert done["cwd"] == str(folder) == gateway.live(sid)["cwd"]


def test_what_can_be_asked_of_the_configuration(gateway: Gateway) -> None:
    sid = gateway.open()
    full = gateway.call("config.get")
    assert full["config"]["model.default"] == "test-model" and full["mtime"] > 0
    assert gateway.call("config.get", key="home")["home"] == str(gateway.home)
    assert gateway.call("config.get", key="cwd", session_id=sid)["cwd"] == str(gateway.home.parent)
    assert gateway.refused("config.get", key="cwd").code == 4002
    gateway.ask(sid, "hello")
    assert "Hermes" in gateway.call("config.get", key="prompt", session_id=sid)["prompt"]
    refusal = gateway.refused("config.get", key="model.defualt")
    assert refusal.code == 4002 and "model.default" in refusal.message
    rows = {
        row["key"]: row
        for section in gateway.call("config.show")["sections"]
        for row in section["rows"]
    }
    assert rows["model.default"]["changed"] and not rows["logging.level"]["changed"]


def test_a_key_is_kept_in_dotenv_and_never_told(gateway: Gateway) -> None:
    (gateway.home / ".env").write_text("# mine\nOTHER=1\n")
    saved = gateway.call("model.save_key", slug="claude", api_key=f" {KEY} ")
    assert saved["provider"]["slug"] == "anthropic" and saved["provider"]["authenticated"]
    path = gateway.home / ".env"
    assert path.read_text() == f"# mine\nOTHER=1\nANTHROPIC_API_KEY={KEY}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told = [
        saved,
        gateway.call("model.options"),
        gateway.call("config.get"),
        gateway.call("config.show"),
        gateway.call("setup.runtime_check", provider="anthropic"),
    ]
    assert KEY not in json.dumps(told)
    assert told[-1]["ok"] and told[-1]["source"] == ".env"
    gone = gateway.call("model.disconnect", slug="anthropic")
    assert gone["disconnected"] and path.read_text() == "# mine\nOTHER=1\n"
    assert gateway.refused("model.disconnect", slug="anthropic").code == 4005


def test_keys_that_cannot_be(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gateway.refused("model.save_key", slug="anthropic", api_key=" ").code == 4002
    assert gateway.refused("model.save_key", slug="anthropic", api_key="a\nB=1").code == 4002
    refusal = gateway.refused("model.save_key", slug="antropic", api_key=KEY)
    assert refusal.code == 4003 and "anthropic" in refusal.message and KEY not in refusal.message
    assert gateway.refused("model.save_key", slug="ollama", api_key=KEY).code == 4004
    assert not (gateway.home / ".env").exists()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    saved = gateway.call("model.save_key", slug="anthropic", api_key=KEY)
    assert "environment" in saved["warning"]
    assert not gateway.call("model.disconnect", slug="anthropic")["disconnected"]


def test_models_by_provider(gateway: Gateway) -> None:
    found = gateway.call("model.options")
    by_slug = {one["slug"]: one for one in found["providers"]}
    assert found["model"] == "test-model"
    assert all(one["name"].startswith("claude") for one in by_slug["anthropic"]["models"])
    assert by_slug["anthropic"]["models"][0]["context_length"] > 0
    assert not by_slug["anthropic"]["authenticated"]
    usable = gateway.call("model.options", include_unconfigured=False)["providers"]
    assert "anthropic" not in [one["slug"] for one in usable]


def test_whether_it_could_run(gateway: Gateway) -> None:
    assert gateway.call("setup.status") == {"provider_configured": True}
    check = gateway.call("setup.runtime_check")
    assert check["ok"] and check["model"] == "test-model"
    missing = gateway.call("setup.runtime_check", provider="openai")
    assert not missing["ok"] and "OPENAI_API_KEY" in missing["error"]
    (gateway.home / "config.yaml").write_text("model: {provider: nobody}\n")
    assert "nobody" in gateway.call("setup.runtime_check")["error"]


def test_what_is_fetched_by_itself_is_no_obstacle(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "xllamacpp" else find_spec(name, *more),
    )
    (gateway.home / "config.yaml").write_text("model: {provider: local}\n")
    check = gateway.call("setup.runtime_check")
    assert (check["ok"], check["provider"], check["error"]) == (True, "local", "")


def test_env_is_read_again(gateway: Gateway) -> None:
    gateway.call("config.get")
    (gateway.home / ".env").write_text("NEW_THING=1\nANOTHER=2\n")
    assert gateway.call("reload.env") == {"updated": 2}
    assert gateway.call("reload.env") == {"updated": 0}


def toolset(found: dict[str, list[dict[str, object]]], name: str) -> dict[str, object]:
    return next(one for one in found["toolsets"] if one["name"] == name)


def test_what_is_to_know_of_the_configuration_is_told_with_a_session(gateway: Gateway) -> None:
    info = gateway.call("session.create")["info"]
    assert "config_warning" not in info
    (gateway.home / "config.yaml").write_text(f"{CONFIG}\nkanban: {{x: 1}}\nzzqqxx: 1\n")
    gateway.call("reload.env")
    lines = gateway.call("session.create")["info"]["config_warning"].splitlines()
    assert len(lines) == 2
    assert "zzqqxx" in lines[0]
    assert "kanban" in lines[1]


def test_the_last_tool_cannot_be_switched_off(gateway: Gateway) -> None:
    names = [one["name"] for one in gateway.call("toolsets.list")["toolsets"]]
    refusal = gateway.refused("tools.configure", action="disable", names=names)
    assert "leaves the agent no tools" in refusal.message
    assert config_text(gateway) == CONFIG


def test_tools_are_switched_for_the_next_conversation(gateway: Gateway) -> None:
    sid = gateway.open()
    shown = gateway.call("tools.show", session_id=sid)
    before = shown["total"]
    assert {"terminal", "files"} <= {one["name"] for one in shown["sections"]}
    done = gateway.call("tools.configure", action="disable", names=["files", "nosuch"])
    assert (done["changed"], done["unknown"], done["reset"]) == (["files"], ["nosuch"], False)
    assert "files" not in done["enabled_toolsets"]
    assert "disabled: [files]" in config_text(gateway)
    assert gateway.call("tools.show", session_id=sid)["total"] == before, "tools stay for life"
    assert toolset(gateway.call("tools.list", session_id=sid), "files")["enabled"]
    assert not toolset(gateway.call("toolsets.list"), "files")["enabled"]
    other = gateway.open()
    sections = gateway.call("tools.show", session_id=other)["sections"]
    assert "files" not in [one["name"] for one in sections]
    gateway.call("tools.configure", action="enable", names=["files"])
    assert toolset(gateway.call("toolsets.list"), "files")["enabled"]
    assert gateway.refused("tools.configure", action="enable", names=[]).code == 4018
    assert gateway.refused("tools.configure", action="break", names=["a"]).code == -32602


def add_skill(gateway: Gateway, name: str, description: str) -> None:
    folder = gateway.home / "skills" / "home" / name
    folder.mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: {description}\n---\nBody of {name}.\n"
    (folder / "SKILL.md").write_text(text)


def test_skills(gateway: Gateway) -> None:
    assert gateway.call("skills.manage")["installed"] == 0
    add_skill(gateway, "knit", "Make a scarf.")
    add_skill(gateway, "sew", "Make a shirt.")
    assert gateway.call("skills.reload")["result"] == 2
    listed = gateway.call("skills.manage", page=2, page_size=1)
    assert [one["name"] for one in listed["skills"]] == ["sew"]
    assert listed["skills"][0]["category"] == "home"
    found = gateway.call("skills.manage", action="search", query="SCARF make")
    assert [one["name"] for one in found["results"]] == ["knit"]
    assert "Body of sew." in gateway.call("skills.manage", action="inspect", query="sew")["info"]
    assert gateway.refused("skills.manage", action="inspect", query="../..").code == 5024
    assert gateway.refused("skills.manage", action="delete").code == 4017


def test_plugins(gateway: Gateway) -> None:
    folder = gateway.home / "plugins" / "weather"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: weather\nversion: '1.0'\n")
    (folder / "__init__.py").write_text("def register(ctx):\n    pass\n")
    try:
        listed = gateway.call("plugins.list")
        weather = next(one for one in listed["plugins"] if one["name"] == "weather")
        assert not weather["enabled"] and listed["user_count"] == 1
        done = gateway.call("plugins.manage", action="enable", name="weather")
        assert done["ok"] and done["plugin"]["enabled"] and not done["unchanged"]
        assert gateway.call("plugins.manage", action="enable", name="weather")["unchanged"]
        off = gateway.call("plugins.manage", action="toggle", name="weather", enable=False)
        assert not off["plugin"]["enabled"]
        assert gateway.refused("plugins.manage", action="enable", name="nosuch").code == 4019
        assert gateway.refused("plugins.manage", action="toggle", name="weather").code == 4017
        assert config_text(gateway).startswith(CONFIG)
    finally:
        plugins.forget_plugins()
