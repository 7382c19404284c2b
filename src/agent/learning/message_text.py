"""What is said in a message, and what a model says beside its thoughts."""

from __future__ import annotations

import re
from typing import Any

from hermes_base.redaction import redact

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


def plain(content: Any) -> str:
    """The text in a message's content, without secrets."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "\n".join(part for part in parts if isinstance(part, str))
    return redact(content).strip() if isinstance(content, str) else ""


def without_thoughts(reply: str) -> str:
    """A model's reply without the thinking that some models write into it."""
    return _THOUGHTS.sub("", reply)
