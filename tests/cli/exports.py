"""Exports of other programs, small but in their real shapes."""

from __future__ import annotations

from typing import Any


def chatgpt() -> list[dict[str, Any]]:
    """A question asked twice, a program that ran, a picture, and things nobody saw."""

    def node(name: str, parent: str | None, role: str | None, content: Any = None, **extra: Any):  # type: ignore[no-untyped-def]
        message = role and {
            "id": name,
            "author": {"role": role, **extra.pop("author", {})},
            "create_time": 1_700_000_000.5 + len(nodes),
            "content": content,
            "metadata": extra,
        }
        nodes[name] = {"id": name, "message": message, "parent": parent, "children": []}
        if parent:
            nodes[parent]["children"].append(name)

    def text(*parts: Any) -> dict[str, Any]:
        return {"content_type": "text", "parts": list(parts)}

    nodes: dict[str, Any] = {}
    node("root", None, None)
    node("system", "root", "system", text(""), is_visually_hidden_from_conversation=True)
    node(
        "context", "system", "user", {"content_type": "user_editable_context", "user_profile": "x"}
    )
    node("q1", "context", "user", text("Plot a sine wave"))
    node("old", "q1", "assistant", text("I cannot do that."))
    node(
        "code", "q1", "assistant", {"content_type": "code", "language": "python", "text": "plot()"}
    )
    node("ran", "code", "tool", {"content_type": "execution_output", "text": "done"})
    node("a1", "ran", "assistant", text("Here it is."), model_slug="gpt-4o")
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    node("q2", "a1", "user", {"content_type": "multimodal_text", "parts": [picture, "And this?"]})
    node("a2", "q2", "assistant", text("A cat."), model_slug="gpt-4o")
    return [
        {
            "title": "Sine wave",
            "create_time": 1_700_000_000.0,
            "update_time": 1_700_000_500.0,
            "mapping": nodes,
            "current_node": "a2",
            "conversation_id": "6541-abc",
            "default_model_slug": "gpt-4",
        },
        {"title": "Nothing", "create_time": 1.0, "mapping": {}, "current_node": None, "id": "e"},
    ]


def claude() -> list[dict[str, Any]]:
    """A conversation with an attachment, thinking and a tool, and one of an older export."""
    return [
        {
            "uuid": "0001-f",
            "name": "Soup recipe",
            "created_at": "2024-05-01T12:00:00.000000Z",
            "updated_at": "2024-05-01T12:05:00.000000Z",
            "account": {"uuid": "me"},
            "chat_messages": [
                {
                    "uuid": "m1",
                    "text": "Read this",
                    "content": [{"type": "text", "text": "Read this"}],
                    "sender": "human",
                    "created_at": "2024-05-01T12:00:01.000000Z",
                    "attachments": [{"file_name": "soup.txt", "extracted_content": "Leeks."}],
                    "files": [{"file_name": "photo.png"}],
                },
                {
                    "uuid": "m2",
                    "text": "",
                    "content": [
                        {"type": "thinking", "thinking": "hmm"},
                        {"type": "tool_use", "name": "web_search", "input": {}},
                        {"type": "text", "text": "A leek soup."},
                    ],
                    "sender": "assistant",
                    "created_at": "2024-05-01T12:00:09.000000Z",
                    "attachments": [],
                    "files": [],
                },
            ],
        },
        {
            "uuid": "0002-f",
            "name": "",
            "created_at": "2023-01-01T00:00:00Z",
            "updated_at": "2023-01-01T00:00:00Z",
            "chat_messages": [{"text": "Only text", "sender": "human"}],
        },
    ]
