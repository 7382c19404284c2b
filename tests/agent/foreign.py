"""The configuration and the names of Hermes Agent 0.19, as facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

FACTS = Path(__file__).parent / "hermes_agent_defaults.json"
"""Every key of its default configuration, with the default."""

_NAMES = """
    browser clarify code_execution coding computer_use context_engine cronjob debugging delegation
    discord discord_admin feishu_doc feishu_drive file homeassistant image_gen kanban memory project
    safe search session_search skills spotify terminal todo tts video video_gen vision web x_search
    yuanbao hermes-acp hermes-api-server hermes-bluebubbles hermes-cli hermes-cron hermes-dingtalk
    hermes-discord hermes-email hermes-feishu hermes-gateway hermes-homeassistant hermes-matrix
    hermes-mattermost hermes-qqbot hermes-signal hermes-slack hermes-sms hermes-telegram
    hermes-webhook hermes-wecom hermes-wecom-callback hermes-weixin hermes-whatsapp hermes-yuanbao
"""
TOOLSETS = _NAMES.split()
"""Every name that `toolsets:` may have there."""


def default_keys() -> dict[str, Any]:
    """Its keys, dotted, with their defaults."""
    facts: dict[str, Any] = json.loads(FACTS.read_text(encoding="utf-8"))
    return facts


def tree(keys: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys as sections within sections."""
    top: dict[str, Any] = {}
    for key, value in keys.items():
        *path, last = key.split(".")
        place = top
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return top


def default_config(**changes: Any) -> str:
    """Its default config.yaml, with keys changed (dots written as two underscores)."""
    keys = default_keys() | {name.replace("__", "."): value for name, value in changes.items()}
    return yaml.safe_dump(tree(keys), allow_unicode=True)
