"""OpenClaw's home: conversations, what the agent knows, skills and keys.

A session is a file of JSON lines; each line names the one before it, so that a file may hold
branches. The branch of the last line is taken. Compactions in it are passed over, since everything
that they summed up is there. Thinking is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.config.env import load_dotenv
from agent.home import ConfigError
from tools.memory import memory_path, read_entries

from .home_parts import Step, file_step, folder_step, memory_step
from .home_secrets import env_steps, variable_step

TOKENS = {
    ("telegram", "botToken"): "TELEGRAM_BOT_TOKEN",
    ("discord", "token"): "DISCORD_BOT_TOKEN",
    ("slack", "botToken"): "SLACK_BOT_TOKEN",
    ("slack", "appToken"): "SLACK_APP_TOKEN",
}
"""A key of `channels` in its `openclaw.json`, and ours."""

MEMORY = {"MEMORY.md": "memory", "USER.md": "user"}


def is_openclaw(path: Path) -> bool:
    """Whether a folder is the home of OpenClaw."""
    return (path / "openclaw.json").is_file() or any(path.glob("agents/*/sessions"))


def sessions(home: Path, left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    """Every session of every agent; `left_out` counts what did not come along."""
    for folder in sorted(home.glob("agents/*/sessions")):
        titles = _titles(folder / "sessions.json")
        for path in sorted(folder.glob("*.jsonl")):
            session = _session(path, left_out)
            if session is None:
                left_out["empty conversations"] += 1
                continue
            agent = folder.parent.name
            session["title"] = titles.get(path.stem) or (agent if agent != "main" else None)
            yield session


def steps(source: Path, home: Path) -> Iterator[Step]:
    """Everything beside the conversations."""
    yield from env_steps(source, home)
    yield from _key_steps(source, home)
    yield from _token_steps(source, home)
    for workspace in sorted(source.glob("workspace*")):
        yield from _workspace_steps(workspace, home)
    yield from _skill_steps(source / "skills", home)
    if (source / "cron" / "jobs.json").is_file():
        yield Step("cron/jobs.json", "left behind", "its jobs differ; make them: hermes cron add")
    if (source / "openclaw.json").is_file():
        yield Step("openclaw.json", "left behind", "its settings differ; make yours: hermes setup")


# Conversations


def _session(path: Path, left_out: Counter[str]) -> dict[str, Any] | None:
    lines = list(_lines(path, left_out))
    header = next((line for line in lines if line.get("type") == "session"), {})
    models = [line.get("modelId") for line in lines if line.get("type") == "model_change"]
    messages: list[dict[str, Any]] = []
    for line in _branch(lines):
        message = line.get("message")
        if line.get("type") == "message" and isinstance(message, dict):
            read = _message(message, _time(line.get("timestamp")), left_out)
            if read is not None:
                messages.append(read)
    messages = _with_answered_calls(messages, left_out)
    if not any(message["role"] == "user" for message in messages):
        return None
    times = [message["timestamp"] for message in messages if message["timestamp"] is not None]
    started = _time(header.get("timestamp"))
    return {
        "id": f"openclaw_{path.stem}",
        "source": "openclaw",
        "model": next((model for model in reversed(models) if isinstance(model, str)), None),
        "started_at": started if started is not None else min(times, default=0.0),
        "ended_at": max(times, default=0.0),
        "end_reason": "imported",
        "messages": messages,
    }


def _lines(path: Path, left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                left_out["lines that cannot be read"] += bool(text.strip())
                continue
            if isinstance(line, dict):
                yield line


def _branch(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines that lead to the last one; all of them where they do not say what they follow."""
    by_id = {line["id"]: line for line in lines if isinstance(line.get("id"), str)}
    last = next((line for line in reversed(lines) if line.get("type") == "message"), None)
    if last is None or any("parentId" not in line for line in by_id.values() if _is_message(line)):
        return lines
    branch, seen = [], set()
    line: dict[str, Any] | None = last
    while line is not None and line.get("id") not in seen:
        branch.append(line)
        seen.add(line.get("id"))
        parent = line.get("parentId")
        line = by_id.get(parent) if isinstance(parent, str) else None
    return branch[::-1]


def _is_message(line: dict[str, Any]) -> bool:
    return line.get("type") == "message"


def _message(
    message: dict[str, Any], at: float | None, left_out: Counter[str]
) -> dict[str, Any] | None:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    blocks = [block for block in blocks if isinstance(block, dict)]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    text = "\n\n".join(text for text in texts if isinstance(text, str))
    left_out["pictures"] += sum(block.get("type") == "image" for block in blocks)
    role = message.get("role")
    if role == "toolResult":
        return {
            "role": "tool",
            "content": text,
            "tool_call_id": str(message.get("toolCallId")),
            "tool_name": str(message.get("toolName") or ""),
            "timestamp": at,
        }
    calls = [_call(block) for block in blocks if block.get("type") == "toolCall"]
    if role not in ("user", "assistant") or not (text.strip() or calls):
        return None
    read: dict[str, Any] = {"role": role, "content": text, "timestamp": at}
    if role == "assistant" and calls:
        read["tool_calls"] = calls
    return read


def _call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = block.get("arguments")
    return {
        "id": str(block.get("id")),
        "type": "function",
        "function": {
            "name": str(block.get("name") or "tool"),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments or {}),
        },
    }


def _with_answered_calls(
    messages: list[dict[str, Any]], left_out: Counter[str]
) -> list[dict[str, Any]]:
    """Calls with their results behind them; a call or a result without the other is dropped."""
    kept: list[dict[str, Any]] = []
    results: dict[str, dict[str, Any]] = {}
    for message in messages:
        if message["role"] == "tool":
            results.setdefault(message["tool_call_id"], message)
    for message in messages:
        if message["role"] == "tool":
            continue
        calls = message.pop("tool_calls", [])
        answered = [call for call in calls if call["id"] in results]
        left_out["tool calls without a result"] += len(calls) - len(answered)
        if answered:
            message["tool_calls"] = answered
        if answered or message["content"].strip():
            kept.append(message)
            kept += [results.pop(call["id"]) for call in answered if call["id"] in results]
    left_out["results without a tool call"] += len(results)
    return kept


def _titles(path: Path) -> dict[str, str]:
    """What its index calls the sessions, by their ids."""
    titles = {}
    for key, entry in _mapping(_read_json(path)).items():
        fields = _mapping(entry)
        name = fields.get("label") or fields.get("displayName") or fields.get("subject")
        if isinstance(fields.get("sessionId"), str):
            titles[fields["sessionId"]] = str(name or key)[:100]
    return titles


def _time(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


# Everything else


def _key_steps(source: Path, home: Path) -> Iterator[Step]:
    from agent.providers.known import ALIASES, KNOWN

    try:
        here = load_dotenv(home / ".env")[0]
    except ConfigError as error:
        yield Step("keys", "left behind", str(error))
        return
    for path in sorted(source.glob("agents/*/agent/auth-profiles.json")):
        for name, profile in _mapping(_mapping(_read_json(path)).get("profiles")).items():
            fields = _mapping(profile)
            provider = str(fields.get("provider") or "")
            known = KNOWN.get(ALIASES.get(provider, provider))
            key = fields.get("key")
            if fields.get("type") != "api_key" or not isinstance(key, str) or not key:
                note = "a log-in cannot be moved; get a key from the provider: hermes setup"
                yield Step(f"key {name}", "left behind", note)
            elif known is None or not known.key_variables:
                yield Step(f"key {name}", "left behind", "its provider is not known here")
            else:
                variable = known.key_variables[0]
                yield from variable_step(home, f"key {name}", variable, key, here)
                here.setdefault(variable, key)


def _token_steps(source: Path, home: Path) -> Iterator[Step]:
    channels = _mapping(_mapping(_read_json(source / "openclaw.json")).get("channels"))
    try:
        here = load_dotenv(home / ".env")[0]
    except ConfigError:
        return  # said with the keys
    for (channel, key), variable in TOKENS.items():
        token = _mapping(channels.get(channel)).get(key)
        if isinstance(token, str) and token and "${" not in token:
            yield from variable_step(home, f"channels.{channel}", variable, token, here)
    for channel in sorted(channels.keys() - {channel for channel, _ in TOKENS}):
        yield Step(f"channels.{channel}", "left behind", "connect it: hermes gateway setup")


def _workspace_steps(workspace: Path, home: Path) -> Iterator[Step]:
    yield from file_step(workspace, home, "SOUL.md")
    for name, target in MEMORY.items():
        here = read_entries(memory_path(home, target))
        for entry in _entries(workspace / name):
            if entry not in here:
                yield memory_step(home, target, entry, name)
    notes = sorted((workspace / "memory").glob("*.md"))
    if notes:
        why = f"{len(notes)} daily notes stay in {workspace}/memory: hermes --add-dir reads them"
        yield Step("daily notes", "left behind", why)
    yield from _skill_steps(workspace / "skills", home)


def _entries(path: Path) -> list[str]:
    """The points of a list, and the paragraphs between them, without headings."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    entries: list[str] = []
    is_open = False
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "---", "<!--")):
            is_open = False
        elif stripped.startswith(("- ", "* ")) or not is_open:
            entries.append(stripped.removeprefix("- ").removeprefix("* "))
            is_open = True
        else:
            entries[-1] += f" {stripped}"
    return list(dict.fromkeys(entries))


def _skill_steps(top: Path, home: Path) -> Iterator[Step]:
    for path in sorted(top.rglob("SKILL.md")) if top.is_dir() else ():
        where = path.parent.relative_to(top)
        if where.parts and not any(part.startswith(".") for part in where.parts):
            ours = home / "skills" / where
            yield folder_step(path.parent, ours, f"skill {where.as_posix()}")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None  # not there, or with comments in it: what it says is set up anew


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
