"""Leaving a wall: what is asked, what is granted, and that it is no more than that."""

from __future__ import annotations

import http.server
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_state import SessionDB
from tools.approval_words import grant_text
from tools.base import ApprovalRequest, Choice, ToolContext, ToolError
from tools.terminal.tool import terminal

Run = Callable[..., str]


class Person:
    """Answers every question in the same way, and remembers them."""

    def __init__(self) -> None:
        self.answer: Choice = "deny"
        self.asked: list[ApprovalRequest] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        self.asked.append(request)
        return self.answer

    def clarify(self, question: str, choices: list[str]) -> str:
        raise ToolError("no")

    @property
    def keys(self) -> list[list[str]]:
        return [request.pattern_keys for request in self.asked]


@pytest.fixture
def person(walled: ToolContext) -> Person:
    walled.asker = person = Person()
    return person


@pytest.fixture
def server() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"page {self.path}".encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served.server_port
        served.shutdown()


def ask(context: ToolContext, command: str, *needs: str) -> str:
    call = replace(context, call_id=f"{context.call_id}-{next(_numbers)}")
    return str(terminal.run(call, command, needs=list(needs)))


_numbers = itertools.count()


def test_inside_nothing_is_asked(walled: ToolContext, person: Person) -> None:
    ask(walled, "mkdir -p a && ln -s ../a b && touch x.pyc && find . -name '*.pyc' -delete")
    ask(
        walled,
        "rm -rf a; echo 'echo hi' > s.sh; sh s.sh; eval \"$(echo ZWNobyBoaQ== | base64 -d)\"",
    )
    assert person.asked == []


def test_a_place_that_is_granted_can_be_written_and_no_other(
    walled: ToolContext, person: Person
) -> None:
    outside = walled.workspace.root.parent / "outside"
    outside.mkdir()
    with pytest.raises(ToolError, match="Not allowed"):
        ask(walled, "touch ../outside/a", f"write:{outside}")
    person.answer = "once"
    ask(walled, "touch ../outside/a ../b", "write:../outside")
    assert person.keys == [[f"write:{outside}"]] * 2
    assert (outside / "a").exists()
    assert not (outside.parent / "b").exists()
    ask(walled, "touch ../outside/c")
    assert not (outside / "c").exists(), "it was granted once"


def test_the_agents_own_files_cannot_be_granted(walled: ToolContext, person: Person) -> None:
    person.answer = "always"
    home = walled.workspace.home
    for place in (home, home / "config.yaml", home.parent, "/"):
        with pytest.raises(ToolError, match=r"own files|All of the machine"):
            ask(walled, "true", f"write:{place}")


def test_a_need_that_nobody_knows_is_explained(walled: ToolContext) -> None:
    with pytest.raises(ToolError, match="Write write:PATH, host:NAME"):
        ask(walled, "true", "everything")


def fetch(port: int, host: str = "127.0.0.1") -> str:
    return f"curl -sS --noproxy '' --max-time 20 http://{host}:{port}/x"


def test_a_host_is_a_question_of_its_own(walled: ToolContext, person: Person, server: int) -> None:
    walled.workspace.settings = {
        **walled.workspace.settings,
        "web": {"allow_private": ["127.0.0.1"]},
    }
    refused = ask(walled, fetch(server))
    assert person.keys == [["host:127.0.0.1"]]
    assert "page" not in refused
    person.answer = "session"
    assert ask(walled, fetch(server)) == "page /x"
    assert ask(walled, fetch(server)) == "page /x"
    assert len(person.asked) == 2


def test_one_answer_holds_for_all_connections_of_a_command(
    walled: ToolContext, person: Person, server: int
) -> None:
    walled.workspace.settings = {
        **walled.workspace.settings,
        "web": {"allow_private": ["127.0.0.1"]},
    }
    both = f"{fetch(server)}; {fetch(server)}"
    assert "page" not in ask(walled, both)
    assert len(person.asked) == 1
    person.answer = "once"
    assert ask(walled, both).count("page /x") == 2
    assert len(person.asked) == 2
    ask(walled, both)
    assert len(person.asked) == 3


def test_a_host_that_was_asked_for_beforehand_is_not_asked_again(
    walled: ToolContext, person: Person, server: int
) -> None:
    walled.workspace.settings = {
        **walled.workspace.settings,
        "web": {"allow_private": ["127.0.0.1"]},
    }
    person.answer = "once"
    assert ask(walled, fetch(server), "host:127.0.0.1") == "page /x"
    assert len(person.asked) == 1
    person.answer = "deny"
    assert "page" not in ask(walled, fetch(server))


def test_private_addresses_are_refused_as_the_web_tools_refuse_them(
    walled: ToolContext, person: Person, server: int
) -> None:
    person.answer = "always"
    for host in ("127.0.0.1", "localhost", "2130706433"):
        assert "not a public address" in ask(walled, fetch(server, host))


def test_socks_reaches_the_same_hosts(walled: ToolContext, person: Person, server: int) -> None:
    walled.workspace.settings = {
        "terminal": {"sandbox": "required", "allowed_hosts": ["127.0.0.*"]},
        "web": {"allow_private": ["127.0.0.1"]},
    }
    command = 'curl -sS --noproxy "" -x "socks5h://${http_proxy#http://}" '
    assert ask(walled, f"{command} http://127.0.0.1:{server}/y") == "page /y"
    assert person.asked == []


def test_network_off_has_no_proxy_and_asks_nobody(
    walled: ToolContext, person: Person, server: int
) -> None:
    walled.workspace.settings = {"terminal": {"sandbox": "required", "network": "off"}}
    assert "page" not in ask(walled, fetch(server))
    assert person.asked == []


def test_without_a_wall_only_when_that_was_asked(
    walled: ToolContext, person: Person, tmp_path: Path
) -> None:
    target = walled.workspace.root.parent / "free.txt"
    person.answer = "always"
    ask(walled, f"echo free > {target}", "no wall")
    ask(walled, f"echo free > {target}", "no wall")
    assert target.read_text() == "free\n"
    assert ["no-wall" in keys for keys in person.keys] == [True, True], "asked each time"


def test_plan_mode_writes_and_reaches_nothing(
    walled: ToolContext, person: Person, server: int
) -> None:
    walled.workspace.mode = "plan"
    person.answer = "always"
    ask(walled, f"touch made.txt; echo x > /tmp/x; {fetch(server)}; cat ../notes.txt")
    assert not (walled.workspace.root / "made.txt").exists()
    with pytest.raises(ToolError, match="In plan mode"):
        ask(walled, "touch x", f"write:{walled.workspace.root}")
    assert person.asked == []


def test_what_destroys_the_machine_is_refused_in_a_wall_too(walled: ToolContext) -> None:
    with pytest.raises(ToolError, match="Refused"):
        ask(walled, "rm -rf /")


def test_the_model_is_told_when_the_wall_was_in_the_way(walled: ToolContext) -> None:
    assert "call again with needs" in ask(walled, "touch ../outside.txt")
    assert "wall" not in ask(walled, "false")


def test_a_host_that_is_always_allowed_is_listed_and_taken_back_at_once(
    walled: ToolContext, person: Person, server: int, tmp_path: Path
) -> None:
    walled.workspace.settings = {
        **walled.workspace.settings,
        "web": {"allow_private": ["127.0.0.1"]},
    }
    with SessionDB(tmp_path / "state.db") as db, SessionDB(tmp_path / "state.db") as elsewhere:
        walled.db = db
        person.answer = "always"
        assert ask(walled, fetch(server)) == "page /x"
        person.answer = "deny"
        assert ask(walled, fetch(server)) == "page /x", "it is not asked again"
        (grant,) = elsewhere.list_grants()
        assert grant_text(grant["pattern_key"]) == "connect to 127.0.0.1"
        elsewhere.revoke_grant(grant["pattern_key"], grant["granted_by"])
        assert "page" not in ask(walled, fetch(server))
        assert len(person.asked) == 2
