"""`hermes approvals`: what is always allowed, in words, and taken back by its number."""

from __future__ import annotations

from typing import Any

from hermes_state import SessionDB


def test_what_commands_were_granted_beyond_their_wall_reads_well(cli: Any) -> None:
    with SessionDB(cli.home / "state.db") as db:
        for key in ("write:/srv/data", "host:example.org", "network"):
            db.grant_patterns([key], None)
    listed = cli("approvals", "list").out
    for text in ("write to /srv/data", "connect to example.org", "use the whole network"):
        assert text in listed
    rows = [one["pattern_key"] for one in cli("approvals", "list", "--json").json]
    number = rows.index("host:example.org") + 1
    assert "connect to example.org" in cli("approvals", "revoke", str(number)).out
    with SessionDB(cli.home / "state.db") as db:
        left = {one["pattern_key"] for one in db.list_grants()}
    assert left == {"write:/srv/data", "network"}
