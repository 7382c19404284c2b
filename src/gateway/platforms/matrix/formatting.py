"""Markdown as the HTML that Matrix clients show (`org.matrix.custom.html`)."""

from __future__ import annotations

from ...markdown.html import to_html


def to_matrix_html(markdown: str) -> str:
    """Markdown as HTML within what the Matrix specification allows."""
    return to_html(markdown)
