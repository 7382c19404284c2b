"""`hermes gateway status` and `hermes doctor` with several gateways over one store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_state import LEASE_SECONDS, SessionDB, formats

from .. import postgres
from ..state.owners import acting_as, owner
from ..state.raw import tamper

pytestmark = pytest.mark.both_databases


@pytest.fixture
def shared(cli: Any, tmp_path: Path) -> Iterator[SessionDB]:
    """A store on a server, which the home of `cli` names."""
    address = postgres.database_for(tmp_path / "server", str(tmp_path))
    (cli.home / "config.yaml").write_text(f"store: {address}\n")
    with SessionDB(tmp_path / "server.db", server=address) as db:
        yield db
    postgres.give_back(str(tmp_path))


def register(db: SessionDB, name: str, digest: str = "same", version: str = "2.0") -> None:
    with acting_as(name):
        db.register_replica(
            host=f"host-{name}", version=version, config_digest=digest, address=f"http://{name}:1"
        )


def test_all_gateways_are_shown_with_what_they_hold(cli: Any, shared: SessionDB) -> None:
    for name in ("a", "b", "c"):
        register(shared, name)
    with acting_as("a"):
        shared.take_platform("telegram:1")
    with acting_as("b"):
        shared.drain_replica()
    tamper(
        shared,
        f"UPDATE replicas SET heartbeat_at = heartbeat_at - {LEASE_SECONDS + 30}"
        f" WHERE owner = '{owner('c')}'",
    )
    said = cli("gateway", "status")
    assert said.code == 3, "none runs for this home"
    assert "host-a (process 100): holds telegram:1, 0 turns, version 2.0, http://a:1" in said.out
    assert "host-b (process 100): holds nothing" in said.out
    assert "draining: takes no new work" in said.out
    assert "host-c (process 100): not heard of for 5" in said.out
    told = json.loads(cli("gateway", "status", "--json").out)
    assert [one["holds"] for one in told["replicas"]] == [["telegram:1"], [], []]


def test_a_server_that_is_gone_is_said(cli: Any) -> None:
    (cli.home / "config.yaml").write_text("store: postgresql://me@127.0.0.1:1/db\n")
    said = cli("gateway", "status")
    assert said.code == 3
    assert "cannot be listed" in said.out
    assert json.loads(cli("gateway", "status", "--json").out)["replicas"] == []


def test_doctor_says_when_they_differ(cli: Any, shared: SessionDB) -> None:
    register(shared, "a")
    register(shared, "b")
    assert "Gateways of this store" not in cli("doctor").out
    register(shared, "c", digest="another", version="2.1")
    said = cli("doctor").out
    assert "have different settings in config.yaml: host-a, host-b; host-c" in said
    assert "have different versions: host-a, host-b; host-c" in said


def test_what_waits_for_a_newer_release_is_said_with_since_when(
    cli: Any, shared: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "newer release" not in cli("gateway", "status").out
    with monkeypatch.context() as newer, acting_as("a"):
        newer.setattr(formats, "UNDERSTOOD", 2)
        newer.setattr(formats, "NEEDED", {"inbox.location": 2, "delivery.local": 2})
        shared.register_replica(host="host-a", version="3.0")
        for number in range(2):
            shared.accept_message(f"m{number}", "s", "hello", session_key="k",
                                  facts={"location": "here"})  # fmt: skip
        shared.add_delivery("d", "hi", session_key="k", platform="local", chat_id="1")
    tamper(shared, "UPDATE inbox SET received_at = 1000000000")
    said = cli("gateway", "status").out
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_000_000_000))
    assert f"Waiting for a newer release since {since}: 2 messages, 1 delivery. A gateway" in said
    (first, *_) = json.loads(cli("gateway", "status", "--json").out)["waiting_for_newer"]
    assert (first["name"], first["needs_format"], first["is_taken"]) == ("m0", 2, True)
    with acting_as("a"):
        shared.leave_replicas()
    assert "No gateway of such a release runs" in cli("gateway", "status").out
    assert "Waiting for a newer release" in cli("doctor").out
