"""The proxy against a program inside that knows how it works."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from tools.base import ToolContext, ToolError
from tools.wall.guardhouse import _is_listed
from tools.wall.leaving import parse_needs
from tools.wall.proxy import Proxy
from tools.web.address import AllowedPrivate


class Judge:
    """Allows one host; a question about any other waits until it is let go, and is a no."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = threading.Event()

    def decide(self, host: str, port: int) -> None:
        self.asked.append(host)
        self.may_answer.wait(30)
        raise ToolError("no")

    def is_allowed(self, host: str) -> bool:
        return host == "127.0.0.1"


@pytest.fixture
def page() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"page of " + self.headers["Host"].encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served.server_port
        served.shutdown()


@pytest.fixture
def judge() -> Judge:
    return Judge()


def _proxy(judge: Judge) -> tuple[Proxy, int]:
    listener = socket.create_server(("127.0.0.1", 0))
    allowed = AllowedPrivate(["127.0.0.1"])
    return Proxy(listener, judge.decide, allowed, judge.is_allowed), listener.getsockname()[1]


def _say(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
        return answer


@pytest.mark.parametrize(
    "host",
    [
        b"127.0.0.1@evil.example",
        b"127.0.0.1\nallowed",
        b"127.0.0.1\x1b[2K",
        b"127.0.0.1 evil",
        b"127.0.0.1\0.evil",
        b"127.0.0.1%0a",
        b"",
        b"*",
        b"a" * 255,
    ],
)
def test_a_name_that_is_none_is_neither_asked_nor_reached(judge: Judge, host: bytes) -> None:
    proxy, port = _proxy(judge)
    try:
        judge.may_answer.set()
        assert b"200" not in _say(port, b"CONNECT " + host + b":80 HTTP/1.1\r\n\r\n")
        socks = b"\5\1\0\5\1\0\3" + bytes([len(host)]) + host + b"\0\x50"
        assert _say(port, socks) == b"\5\0"
        assert judge.asked == []
    finally:
        proxy.close()


def test_a_question_that_waits_holds_up_no_other_connection(judge: Judge, page: int) -> None:
    proxy, port = _proxy(judge)
    other, other_port = _proxy(judge)
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    try:
        for connection in waiting:
            connection.sendall(b"CONNECT unknown.example:443 HTTP/1.1\r\n\r\n")
        for at in (port, other_port):
            request = f"GET http://127.0.0.1:{page}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            assert b"page of x" in _say(at, request)
        assert len(judge.asked) <= 1, "one at a time"
    finally:
        judge.may_answer.set()
        for connection in waiting:
            connection.close()
        proxy.close()
        other.close()


def test_a_second_request_goes_to_the_host_that_was_allowed(judge: Judge, page: int) -> None:
    proxy, port = _proxy(judge)
    try:
        first = f"GET http://127.0.0.1:{page}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answer = _say(port, first + b"GET http://evil.example/ HTTP/1.1\r\nHost: evil\r\n\r\n")
        assert answer.count(b"page of") == 1
        assert judge.asked == []
    finally:
        proxy.close()


def test_nothing_listens_after_the_end(judge: Judge) -> None:
    proxy, port = _proxy(judge)
    proxy.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("need", ["host:*", "host:a b", "host:a\nb", "host:[a-z]*", "write:a\nb"])
def test_what_is_asked_for_can_be_read_by_a_person(need: str) -> None:
    with pytest.raises(ToolError, match="cannot be asked for"):
        parse_needs(ToolContext("s1", "c1"), [need])


def test_patterns_of_the_person_hold_for_whole_names() -> None:
    assert _is_listed("Api.Example.org.", ["*.example.org"])
    assert not _is_listed("example.org.evil.net", ["*.example.org", "example.org"])
    assert not _is_listed("evilexample.org", ["*.example.org"])
