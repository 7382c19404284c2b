"""Conversations as pages to read: Markdown and HTML, made piece by piece."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator
from typing import Any

from hermes_state import plain_text
from tools.fences import fence_for

from .output import when

_STYLE = """\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;border-top:1px solid #8886;padding-top:1.5rem}
.facts,.who{color:#777;font-size:.85rem}
.message{margin:1rem 0;padding:.6rem .9rem;border-radius:.5rem;background:#8881}
.user{background:#48f2}
.text{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:inherit}
details{margin:.4rem 0}summary{cursor:pointer;color:#777}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}
"""


def markdown_page(conversations: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Conversations as Markdown: a heading each, and one for every message."""
    for conversation in conversations:
        yield f"# {_title(conversation)}\n\n{_facts(conversation)}\n\n"
        for message in _said(conversation):
            yield f"## {_who(message)}\n\n"
            text = plain_text(message.get("content")).strip()
            if message["role"] == "tool":
                yield f"{_fenced(text)}\n\n"
                continue
            if text:
                yield f"{text}\n\n"
            for name, arguments in _calls(message):
                yield f"Calls `{name}`:\n\n{_fenced(arguments)}\n\n"


def html_page(conversations: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Conversations as one HTML page that needs nothing else and runs nothing."""
    yield (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'\">"
        f"<title>Conversations</title>\n<style>\n{_STYLE}</style>\n"
    )
    for conversation in conversations:
        yield f"<h1>{html.escape(_title(conversation))}</h1>\n"
        yield f'<p class="facts">{html.escape(_facts(conversation))}</p>\n'
        for message in _said(conversation):
            yield _html_message(message)
    yield "</html>\n"


def _html_message(message: dict[str, Any]) -> str:
    text = html.escape(plain_text(message.get("content")).strip())
    who = html.escape(_who(message))
    if message["role"] == "tool":
        return f"<details><summary>{who}</summary><pre>{text}</pre></details>\n"
    calls = "".join(
        f"<details><summary>calls {html.escape(name)}</summary>"
        f"<pre>{html.escape(arguments)}</pre></details>"
        for name, arguments in _calls(message)
    )
    role = "user" if message["role"] == "user" else "assistant"
    shown = f'<p class="text">{text}</p>' if text else ""
    return f'<div class="message {role}"><div class="who">{who}</div>{shown}{calls}</div>\n'


def _said(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages that were not rewound, without empty ones."""
    for message in conversation["messages"]:
        visible = message.get("active", 1) or message.get("compacted")
        if visible and (message.get("content") or message.get("tool_calls")):
            yield message


def _title(conversation: dict[str, Any]) -> str:
    return str(conversation.get("title") or conversation["id"])


def _facts(conversation: dict[str, Any]) -> str:
    return " · ".join(
        str(fact)
        for fact in (
            conversation["id"],
            when(conversation.get("started_at")),
            conversation.get("source"),
            conversation.get("model"),
        )
        if fact
    )


def _who(message: dict[str, Any]) -> str:
    tool = f" {message['tool_name']}" if message.get("tool_name") else ""
    return f"{message['role']}{tool} · {when(message.get('timestamp'))}"


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        part = function if isinstance(function, dict) else call if isinstance(call, dict) else {}
        arguments = part.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        yield str(part.get("name") or "?"), arguments


def _fenced(text: str) -> str:
    """Text in a fence longer than any it contains."""
    fence = fence_for(text)
    return f"{fence}\n{text}\n{fence}"
