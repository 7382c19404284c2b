"""Markdown, as models write it, in the formats that chat platforms take."""

from __future__ import annotations

from .matrix import to_matrix_html
from .plain import to_plain
from .telegram import to_telegram_html

__all__ = ["to_matrix_html", "to_plain", "to_telegram_html"]
