"""Markdown, as models write it, read and as plain text; platforms bring their own formats."""

from __future__ import annotations

from .plain import to_plain

__all__ = ["to_plain"]
