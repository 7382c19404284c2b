"""Outgoing webhooks, as the rest of Hermes sees them."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting

MANIFEST = Manifest(
    name="events",
    label="Outgoing webhooks",
    adapter="gateway.platforms.events.adapter:EventsAdapter",
    capabilities=Capabilities(max_length=10_000_000, people=False, repeatable=True, signed=True),
    settings=(
        Setting("hooks.<name>.url", "text", "", "where its events are posted"),
        Setting(
            "hooks.<name>.secret", "text, a secret", "",
            "what they are signed with, 16 characters or more",
        ),
        Setting(
            "hooks.<name>.events", "list of texts", "all",
            "which: `turn.ended`, `job.failed`, `approval.wanted`",
        ),
        Setting(
            "hooks.<name>.person", "text", "operator",
            "whose: the operator's, those of one person (the id), or `everybody`",
        ),
    ),
    order=41,
)  # fmt: skip
