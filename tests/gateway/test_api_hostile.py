"""Requests that nobody should send: wrong keys, huge and broken bodies, odd headers."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config import Platform
from gateway.platforms.api.auth import KEY_FILE, WeakKeyError, load_keys
from gateway.platforms.api.errors import ApiError
from gateway.platforms.api.reading import chat_messages, session_name

from .. import seeds
from .serving import KEY, Served, serving

HI = {"messages": [{"role": "user", "content": "hi"}]}


async def raw(served: Served, request: bytes, *, close: bool = False) -> bytes:
    """Send bytes as they are, and read until the server closes or answers."""
    adapter: Any = served.runner.adapters[Platform.API_SERVER]
    reader, writer = await asyncio.open_connection("127.0.0.1", adapter.port)
    try:
        writer.write(request)
        await writer.drain()
        if close:
            writer.write_eof()
        async with asyncio.timeout(60):
            return await reader.read(65536)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", KEY],
)
async def test_without_the_right_key_nothing_is_served(tmp_path: Path, header: str | None) -> None:
    async with serving(tmp_path) as served, served.client("") as nobody:
        headers = {} if header is None else {"Authorization": header}
        for method, path in (
            ("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/api/sessions"),
            ("POST", "/v1/runs"), ("POST", "/v1/responses"), ("GET", "/health/detailed"),
        ):  # fmt: skip
            answer = await nobody.request(method, path, headers=headers, json=HI)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
        assert served.model.requests == [] and served.db.session_count() == 0


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"messages": NaN}',
        b"{}", b'{"messages": []}', b'{"messages": {}}', b'{"messages": ["hi"]}',
        b'{"messages": [{}]}', b'{"messages": [{"role": "user"}]}',
        b'{"messages": [{"role": "user", "content": "  "}]}',
        b'{"messages": [{"role": "assistant", "content": "x"}]}',
        b'{"messages": [{"role": 5, "content": "x"}]}',
        b'{"messages": [{"role": "king", "content": "x"}]}',
        b'{"messages": [{"role": "user", "content": 7}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "video"}]}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url":'
        b' {"url": "file:///etc/passwd"}}]}]}',
        b'{"messages": [{"role": "assistant", "tool_calls": 5}, {"role": "user", "content": "x"}]}',
        b'{"n": 2, "messages": [{"role": "user", "content": "x"}]}',
    ],
)  # fmt: skip
async def test_a_broken_body_is_explained(tmp_path: Path, body: bytes) -> None:
    async with serving(tmp_path) as served:
        answer = await served.http.post("/v1/chat/completions", content=body)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error" and error["message"]
        assert served.model.requests == [] and served.db.session_count() == 0
        assert (await served.chat("still there?")).status_code == 200


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, extra={"max_body_bytes": 2000}) as served:
        large = json.dumps({"messages": [{"role": "user", "content": "x" * 3000}]}).encode()
        answer = await served.http.post("/v1/chat/completions", content=large)
        assert answer.status_code == 413

        async def pieces() -> Any:
            for _ in range(500):
                yield b"x" * 10

        answer = await served.http.post("/v1/chat/completions", content=pieces())
        assert answer.status_code == 413
        assert (await served.chat("small")).status_code == 200


async def test_a_body_that_ends_too_soon_begins_no_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Length: 1000\r\n\r\n{"
        )
        adapter: Any = served.runner.adapters[Platform.API_SERVER]
        _, writer = await asyncio.open_connection("127.0.0.1", adapter.port)
        writer.write(head.encode())
        await writer.drain()
        writer.transport.abort()
        assert (await served.chat("next")).status_code == 200
        assert len(served.model.requests) == 1


async def test_endless_headers_are_cut_off(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for head in (
            b"GET /health HTTP/1.1\r\n" + b"X-A: " + b"a" * 200_000,
            b"GET /health HTTP/1.1\r\n" + b"X-A: b\r\n" * 40_000,
            b"GET /" + b"a" * 200_000,
        ):
            answer = await raw(served, head)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
        assert (await served.chat("still there?")).status_code == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01", b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)  # fmt: skip
async def test_what_is_not_http_is_refused(tmp_path: Path, request_bytes: bytes) -> None:
    async with serving(tmp_path) as served:
        answer = await raw(served, request_bytes, close=True)
        assert not answer.startswith(b"HTTP/1.1 200")
        assert (await served.chat("still there?")).status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Hermes-Session-Id", "../../etc/passwd"),
        ("X-Hermes-Session-Id", "a/b"),
        ("X-Hermes-Session-Id", "a" * 129),
        ("X-Hermes-Session-Id", "a..b"),
        ("X-Hermes-Session-Id", "-a"),
        ("X-Hermes-Session-Id", "a b"),
        ("X-Hermes-Session-Id", "é"),
        ("X-Hermes-Session-Key", "x" * 300),
        ("X-Hermes-Session-Key", "tab\there"),
        ("Idempotency-Key", "y" * 300),
        ("Idempotency-Key", "\x80"),
    ],
)
async def test_a_header_that_is_no_name_is_refused(tmp_path: Path, name: str, value: str) -> None:
    async with serving(tmp_path) as served:
        headers = [(name.encode(), value.encode("latin-1"))]
        answer = await served.http.post("/v1/chat/completions", json=HI, headers=headers)
        assert answer.status_code == 400 and served.model.requests == []


async def test_an_error_puts_nothing_into_the_headers(tmp_path: Path) -> None:
    from agent.errors import RequestRefusedError
    from agent.scripted import fail

    trap = "bad\r\nSet-Cookie: a=b\r\n\r\n<script> é"
    async with serving(tmp_path, [fail(RequestRefusedError(trap))]) as served:
        answer = await served.chat("hi")
        assert answer.status_code == 502 and "set-cookie" not in answer.headers
        assert answer.headers["x-hermes-error"].startswith("bad Set-Cookie:")
        assert answer.headers["x-hermes-error"].isascii()


async def test_unknown_routes_and_methods_answer_in_json(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for method, path, status in (
            ("GET", "/nothing", 404), ("GET", "/", 404), ("GET", "/v1/chat/completions", 405),
            ("POST", "/v1/models", 405), ("GET", "/v1/../../etc/passwd", 404),
        ):  # fmt: skip
            answer = await served.http.request(method, path)
            assert answer.status_code == status and answer.json()["error"]["message"]


async def test_a_flood_on_one_conversation_is_bounded_and_each_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        answers = await asyncio.gather(*(served.chat(f"m{n}", "flood") for n in range(200)))
        codes = [one.status_code for one in answers]
        assert set(codes) <= {200, 429} and codes.count(200) >= 17
        told = served.told("flood")
        assert len(told) == 2 * codes.count(200)
        assert served.db.list_waiting() == []
        assert served.runner.conversations.in_flight == 0


async def test_a_store_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    from hermes_state import StoreFullError

    async with serving(tmp_path) as served:
        write = served.db._execute_write

        def full(work: Any, *about: Any, **how: Any) -> Any:
            raise StoreFullError("No room left on the disk")

        served.db._execute_write = full  # type: ignore[method-assign]
        answer = await served.chat("hi", "s1")
        assert answer.status_code in (502, 503) and "No room left" in answer.text
        assert served.model.requests == []  # what cannot be stored is not answered
        served.db._execute_write = write  # type: ignore[method-assign]
        assert (await served.chat("again", "s1")).status_code == 200


async def test_a_port_that_is_taken_is_explained(tmp_path: Path) -> None:
    async with serving(tmp_path / "a") as served:
        adapter: Any = served.runner.adapters[Platform.API_SERVER]
        with pytest.raises(AssertionError, match="cannot listen on"):
            async with serving(tmp_path / "b", extra={"port": adapter.port}):
                pass


def test_a_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    keys = load_keys({}, tmp_path, "127.0.0.1")
    file = tmp_path / KEY_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key = file.read_text().strip()
    assert len(key) >= 32 and keys.owner(key) == "default" and keys.owner(key[:-1]) is None
    assert load_keys({}, tmp_path, "127.0.0.1").owner(key) == "default"


def test_a_short_key_is_not_offered_to_other_machines(tmp_path: Path) -> None:
    assert load_keys({"key": "short"}, tmp_path, "127.0.0.1").owner("short") == "default"
    with pytest.raises(WeakKeyError, match="at least 16"):
        load_keys({"key": "short"}, tmp_path, "0.0.0.0")


def test_each_key_is_an_owner(tmp_path: Path) -> None:
    keys = load_keys({"keys": {"a": "key-a", "b": "key-b"}, "key": "key-c"}, tmp_path, "localhost")
    assert [keys.owner(one) for one in ("key-a", "key-b", "key-c", "key-d", "")] == [
        "a", "b", "default", None, None,
    ]  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    | st.sampled_from(["user", "assistant", "system", "tool", "text", "image_url"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "tool_calls", "id", "function", "url"])
        | st.text(max_size=3), inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
@settings(max_examples=seeds.examples(100), suppress_health_check=[HealthCheck.too_slow])
def test_any_messages_are_read_or_refused(messages: Any) -> None:
    try:
        said = chat_messages(messages)
    except ApiError as error:
        assert error.status == 400 and str(error)
    else:
        assert said.content and isinstance(said.history, list)


@given(st.text(max_size=140))
@settings(max_examples=seeds.examples(100))
def test_a_session_name_can_never_be_a_path_or_break_a_header(text: str) -> None:
    try:
        name = session_name(text)
    except ApiError:
        return
    assert name.isascii() and name.isprintable() and " " not in name
    assert "/" not in name and "\\" not in name and ".." not in name and not name.startswith(".")
