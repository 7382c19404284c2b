"""What was allowed, as a person reads it."""

from __future__ import annotations

import pytest

from tools.approval_words import grant_text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("write:/srv/data", "write to /srv/data"),
        ("host:example.org", "connect to example.org"),
        ("network", "use the whole network"),
        ("write-outside", "write files outside of where a conversation is"),
        ("git-push", "git-push"),
        ("host:", "host:"),
        ("network:x", "network:x"),
    ],
)
def test_a_grant_reads_well(key: str, text: str) -> None:
    assert grant_text(key) == text
