"""What the gateway is told: from config.yaml, from the environment, and what cannot be used."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agent.config import load_config
from conversation.event_hooks import EventHooks
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.config_load import load_gateway_config


def loaded(home: Path, yaml: str = "", **environ: str) -> GatewayConfig:
    (home / "config.yaml").write_text(yaml)
    return load_gateway_config(load_config(home, environ))


def test_nothing_is_enabled_by_itself(tmp_path: Path) -> None:
    config = loaded(tmp_path)
    assert config.platforms == {}
    assert config.unauthorized_dm_behavior == "pair"
    assert config.reset.mode == "none"


def test_a_token_in_the_environment_enables_a_platform(tmp_path: Path) -> None:
    config = loaded(tmp_path, TELEGRAM_BOT_TOKEN="123:abc", TELEGRAM_ALLOWED_USERS="1, 2,,3")
    telegram = config.platforms[Platform.TELEGRAM]
    assert telegram.enabled
    assert telegram.allowed_users == ("1", "2", "3")
    assert "123:abc" not in repr(config)


def test_the_file_wins_over_the_environment(tmp_path: Path) -> None:
    yaml = "platforms: {telegram: {enabled: false, token: 9:z, admins: [7], parse: x}}"
    telegram = loaded(tmp_path, yaml, TELEGRAM_BOT_TOKEN="1:a").platforms[Platform.TELEGRAM]
    assert (telegram.enabled, telegram.token) == (False, "9:z")
    assert telegram.admins == ("7",)
    assert telegram.extra == {"parse": "x"}


def test_policies_by_platform_and_type(tmp_path: Path) -> None:
    yaml = """
session_reset: {mode: idle, idle_minutes: 30}
gateway:
  reset_by_type: {group: {mode: daily, at_hour: 6}}
  reset_by_platform: {api_server: {mode: none}}
"""
    config = loaded(tmp_path, yaml)
    assert config.policy_for("telegram", "dm").idle_minutes == 30
    assert config.policy_for("telegram", "group").at_hour == 6
    assert config.policy_for("api_server", "group").mode == "none"


@pytest.mark.parametrize(
    ("yaml", "told"),
    [
        ("gateway: {max_concurrent_sessions: many}", "max_concurrent_sessions"),
        ("gateway: {drain_timeout: -3}", "drain_timeout"),
        ("session_reset: {mode: sometimes}", "sometimes"),
        ("platforms: {pigeon: {enabled: true}}", "pigeon"),
    ],
)
def test_what_cannot_be_used_is_told_and_left(
    tmp_path: Path, yaml: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        config = loaded(tmp_path, yaml)
    assert told in caplog.text
    assert (config.max_concurrent_sessions, config.drain_timeout) == (None, 20.0)
    assert config.reset.mode == "none"


def test_platforms_on_which_a_reset_is_not_told(tmp_path: Path) -> None:
    assert loaded(tmp_path).reset.notify_exclude_platforms == ("api_server", "webhook")
    config = loaded(tmp_path, "session_reset: {notify_exclude_platforms: [telegram]}")
    assert config.reset.notify_exclude_platforms == ("telegram",)


def test_everybody_may_be_let_in(tmp_path: Path) -> None:
    config = loaded(tmp_path, TELEGRAM_BOT_TOKEN="1:a", GATEWAY_ALLOW_ALL_USERS="true")
    assert config.platforms[Platform.TELEGRAM].allow_all
    assert not PlatformConfig().allow_all


async def test_event_hooks_are_told_and_kept_apart(tmp_path: Path) -> None:
    for name, events, code in (
        ("one", "[agent:start, 'command:*']", "def handle(e, c):\n    return [e, c['x']]\n"),
        ("two", "[agent:start]", "async def handle(e, c):\n    return 'later'\n"),
        ("bad", "[agent:start]", "def handle(e, c):\n    raise ValueError\n"),
        ("broken", "[agent:start]", "def handle(:\n"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "HOOK.yaml").write_text(f"name: {name}\nevents: {events}\n")
        (folder / "handler.py").write_text(code)
    (tmp_path / "empty").mkdir()
    hooks = EventHooks(tmp_path)
    assert await hooks.emit("agent:start", {"x": 1}) == [["agent:start", 1], "later"]
    assert await hooks.emit("command:new", {"x": 2}) == [["command:new", 2]]
    assert await hooks.emit("agent:end", {"x": 3}) == []
    assert sorted(hooks.loaded_hooks) == ["bad", "one", "two"]
    assert await EventHooks(tmp_path / "nowhere").emit("agent:start", {}) == []


@pytest.mark.parametrize("place", ["", "gateway: "])
def test_sections_may_stand_at_the_top_of_the_file(tmp_path: Path, place: str) -> None:
    sections = (
        "reset_by_type: {group: {mode: daily}}, reset_by_platform: {telegram: {mode: idle}}, "
        "restart_loop_guard: {max_restarts: 9, window: 5}, streaming: {enabled: true}"
    )
    config = loaded(tmp_path, f"{place}{{{sections}}}\n")
    assert config.policy_for("matrix", "group").mode == "daily"
    assert config.policy_for("telegram", "dm").mode == "idle"
    assert (config.max_restarts, config.restart_window) == (9, 5)
    assert config.streaming["enabled"] is True


def test_what_works_at_the_top_of_the_file_is_not_called_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {"drain_timeout": 7, "cache_size": 8, "cache_bytes": 9, "cache_idle_seconds": 10}
    keys["message_parts_wait"] = 2
    (tmp_path / "config.yaml").write_text("".join(f"{name}: {n}\n" for name, n in keys.items()))
    found = load_gateway_config(load_config(tmp_path, {}))
    assert {name: getattr(found, name) for name in keys} == keys
    assert "unknown" not in caplog.text
