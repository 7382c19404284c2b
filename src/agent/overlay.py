"""Adding to a request what does not belong to the conversation.

What was recalled for a question, or what a plugin has to say about it, is sent with the user's
message and never stored: the stored conversation stays what was said in it.
"""

from __future__ import annotations

from .model import Message


def overlay_last_user(
    messages: list[Message], extra: str, asked: Message | None = None
) -> list[Message]:
    """The messages with `extra` appended to the last one of the user; the given ones stay as is.

    `asked`, if it is still among them, is the message to append to instead: so the beginning of a
    request stays the same when the user adds something during the turn.
    """
    places = [index for index, message in enumerate(messages) if message["role"] == "user"]
    if not extra or not places:
        return messages
    place = next((index for index in places if messages[index] is asked), places[-1])
    content = messages[place].get("content")
    added: object
    if isinstance(content, list):
        added = [*content, {"type": "text", "text": extra}]
    else:
        added = f"{content}\n\n{extra}" if content else extra
    return [*messages[:place], {**messages[place], "content": added}, *messages[place + 1 :]]
