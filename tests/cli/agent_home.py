"""A home as Hermes Agent 0.19 makes it: the files it keeps, where, and in which form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SECRETS = ("sk-or-first", "sk-or-second", "sk-ant-login", "sk-env", "tg-token")
PLUGIN = "def register(ctx):\n    raise SystemExit('a plugin that was not allowed has run')\n"
HANDLER = "def handle(event, context):\n    raise SystemExit('a hook has run')\n"


def make_agent_home(home: Path) -> Path:
    """Everything but a store, with every kind of thing that runs by itself."""
    write(home / "config.yaml", "toolsets: [hermes-cli]  # all\nplugins: {enabled: [greeter]}\n"
          "hooks_auto_accept: true\nmemory: {memory_enabled: true}\n")  # fmt: skip
    write(home / ".env", "OPENAI_API_KEY=sk-env\nTELEGRAM_BOT_TOKEN=tg-token\n")
    write(home / "auth.json", json.dumps(auth()))
    write(home / "SOUL.md", "You are kind.\n")
    write(home / "shell-hooks-allowlist.json", '{"approvals": []}')
    write(home / "memories" / "MEMORY.md", "The sky is blue.\n")
    write(home / "memories" / "USER.md", "Likes tea.\n")
    write(home / "skills" / "kitchen" / "bread" / "SKILL.md",
          "---\nname: bread\ndescription: Bake bread\n---\nMix.\n")  # fmt: skip
    write(home / "plugins" / "greeter" / "plugin.yaml", "name: greeter\nversion: '1'\n")
    write(home / "plugins" / "greeter" / "__init__.py", PLUGIN)
    write(home / "hooks" / "watcher" / "HOOK.yaml", "name: watcher\nevents: [agent:start]\n")
    write(home / "hooks" / "watcher" / "handler.py", HANDLER)
    write(home / "cron" / "jobs.json", json.dumps({"jobs": [{"id": "1", "prompt": "Say hi"}]}))
    write(home / "scripts" / "job.sh", "echo hi\n")
    write(home / "profiles" / "coder" / "SOUL.md", "You write code.\n")
    write(home / "profiles" / "coder" / "memories" / "MEMORY.md", "Uses tabs.\n")
    write(home / "profiles" / "coder" / ".env", "MISTRAL_API_KEY=sk-profile\n")
    write(home / "logs" / "agent.log", "x\n")
    write(home / "kanban.db", "x")
    write(home / "audio_cache" / "a.ogg", "x")
    write(home / "pairing" / "telegram-approved.json", "{}")
    write(home / "mystery" / "x", "x")
    return home


def auth() -> dict[str, Any]:
    """Two keys of one provider, one from the environment, a log-in, a provider nobody knows."""

    def entry(token: str, kind: str = "api_key", **facts: Any) -> dict[str, Any]:
        return {"access_token": token, "auth_type": kind, "priority": 0, "source": "manual"} | facts

    return {
        "version": 1,
        "providers": {"nous": {"access_token": "sk-ant-login"}},
        "credential_pool": {
            "openrouter": [entry("sk-or-second", priority=1), entry("sk-or-first")],
            "openai": [entry("sk-env", source="env:OPENAI_API_KEY")],
            "anthropic": [entry("sk-ant-login", "oauth")],
            "custom:mine": [entry("sk-mine")],
        },
    }


def write(path: Path, text: str) -> None:
    """A file with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
