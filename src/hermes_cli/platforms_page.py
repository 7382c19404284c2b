"""The table of docs/platforms.md, made from the platforms' manifests.

    python -m hermes_cli.platforms_page docs/platforms.md

puts it anew between its marks.
"""

from __future__ import annotations

from agent import made_pages
from gateway.platforms.manifest import Manifest
from gateway.platforms.registry import own_manifests

_ENDLESS = 1_000_000
"""A longest message from here on is none worth telling."""


def generated() -> dict[str, str]:
    """The table by the name of its mark."""
    manifests = sorted(
        own_manifests().values(), key=lambda manifest: (manifest.order, manifest.name)
    )
    lines = [
        "| | Section | Extra | Longest message | Edits | Buttons | Typing | Reactions | Files |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(manifest) for manifest in manifests if manifest.has_setup),
    ]
    return {"capabilities": "\n".join(lines)}


def _row(manifest: Manifest) -> str:
    can = manifest.capabilities
    longest = f"{can.max_length:,}, then parts" if can.max_length < _ENDLESS else ""
    marks = (can.edits, can.buttons, can.typing, can.reactions, can.media)
    cells = [
        manifest.label,
        f"`platforms.{manifest.name}`",
        f"`{manifest.extra}`" if manifest.extra else "none",
        longest,
        *("yes" if mark else "" for mark in marks),
    ]
    return f"| {' | '.join(cells)} |"


def renewed(page: str) -> str:
    """The page with its table put anew."""
    return made_pages.renewed(page, generated())


if __name__ == "__main__":
    made_pages.renew_named(renewed)
