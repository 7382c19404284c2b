"""The Matrix adapter without a server: events it reads and builds, and what servers refuse."""

from __future__ import annotations

import asyncio
import io
import json
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("vodozemac", reason="vodozemac is not installed: pip install -e '.[matrix]'")

from nio.crypto import OlmAccount
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.config import load_config
from gateway.config import Platform, PlatformConfig
from gateway.config_load import load_gateway_config
from gateway.platforms.base import MessageEvent, SendError
from gateway.platforms.host import StandaloneHost
from gateway.platforms.http_server import HttpServer
from gateway.platforms.matrix import keys_file
from gateway.platforms.matrix.adapter import MatrixAdapter, MatrixError
from gateway.platforms.matrix.events import (
    MAX_EVENT_BYTES,
    Attachment,
    Incoming,
    edit_content,
    is_addressed,
    membership_change,
    read_event,
    text_content,
    without_address,
)
from gateway.platforms.matrix.media import DecryptionError, MediaError, decrypt, encrypt, fetch
from gateway.platforms.matrix.state import Login, MatrixState, Place
from gateway.platforms.typed import as_command
from hermes_base.redaction import MASK, redact
from hermes_cli.main import main
from hermes_state import SessionDB

ME = "@hermes:example.org"


async def never(event: MessageEvent) -> None:
    raise AssertionError("nothing was to come in")


def adapter_for(url: str, **extra: Any) -> MatrixAdapter:
    return MatrixAdapter(PlatformConfig(token="a token", extra={"homeserver": url, **extra}), never)


@asynccontextmanager
async def homeserver(*answers: tuple[int, str, str]) -> AsyncIterator[MatrixAdapter]:
    """A connected adapter, whose server answers what it is sent with these, one by one."""
    left = list(answers)

    async def whoami(request: Request) -> Response:
        return _json(200, {"user_id": ME, "device_id": "D"})

    async def profile(request: Request) -> Response:
        return _json(200, {"displayname": "Hermes"})

    async def not_there(request: Request) -> Response:
        return _json(404, {"errcode": "M_NOT_FOUND", "error": "no"})

    async def rest(request: Request) -> Response:
        status, kind, body = left.pop(0)
        return Response(body, status, media_type=kind)

    prefix = "/_matrix/client/v3"
    app = Starlette(
        routes=[
            Route(f"{prefix}/account/whoami", whoami),
            Route(f"{prefix}/profile/{{user}}/displayname", profile),
            Route(f"{prefix}/rooms/{{room}}/state/m.room.encryption", not_there),
            Route("/{path:path}", rest, methods=["GET", "PUT", "POST"]),
        ]
    )
    server = HttpServer(app, "127.0.0.1", 0)
    await server.start()
    adapter = adapter_for(f"http://127.0.0.1:{server.port}", encryption=False)
    try:
        await adapter.connect()
        adapter.rooms_known.set()
        assert adapter.names == ("Hermes", "hermes")
        yield adapter
    finally:
        await adapter.disconnect()
        await server.stop(1)


def _json(status: int, body: Any) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")


def refusal(code: str, **more: Any) -> str:
    return json.dumps({"errcode": code, "error": "no", **more})


JSON = "application/json"


@pytest.mark.parametrize(
    ("answer", "permanent", "retry_after"),
    [
        ((429, JSON, refusal("M_LIMIT_EXCEEDED", retry_after_ms=1500)), False, 1.5),
        ((429, "text/html", "slow down"), False, None),
        ((403, JSON, refusal("M_FORBIDDEN")), True, None),
        ((413, JSON, refusal("M_TOO_LARGE")), True, None),
        ((401, JSON, refusal("M_UNKNOWN_TOKEN")), False, None),
        ((500, JSON, refusal("M_UNKNOWN")), False, None),
        ((502, "text/html", "<h1>Bad gateway</h1>"), False, None),
        ((200, JSON, "{}"), False, None),
        ((200, JSON, "not json"), False, None),
    ],
)
async def test_a_refusal_says_whether_to_try_again(
    answer: tuple[int, str, str], permanent: bool, retry_after: float | None
) -> None:
    async with homeserver(answer) as adapter:
        with pytest.raises(SendError) as refused:
            await adapter.send("!r:example.org", "hello")
        assert (refused.value.permanent, refused.value.retry_after) == (permanent, retry_after)


async def test_a_server_that_is_gone_is_tried_again() -> None:
    async with homeserver() as adapter:
        adapter.homeserver = adapter.client.homeserver = "http://127.0.0.1:9"
        for request in (
            adapter.send("!r", "x"),
            adapter.edit("!r", "$m", "x"),
            adapter.typing("!r"),
            adapter.react("!r", "$m", "👍"),
        ):
            with pytest.raises(SendError) as gone:
                await request
            assert not gone.value.permanent
            assert not gone.value.unsure, "nothing was sent"
        with pytest.raises(ConnectionError):
            await adapter.connect()


async def test_a_request_without_a_key_that_breaks_may_have_been_shown() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    broken = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with broken, homeserver() as adapter:
        adapter.plain_rooms.add("!r")
        adapter.client.homeserver = f"http://127.0.0.1:{broken.sockets[0].getsockname()[1]}"
        for key, unsure in ((None, True), ("a key", False)):
            with pytest.raises(SendError) as cut:
                await adapter.send("!r", "x", key=key)
            assert cut.value.unsure is unsure


def test_a_password_enables_it_as_a_token_does(tmp_path: Path) -> None:
    for name in ("MATRIX_PASSWORD", "MATRIX_ACCESS_TOKEN"):
        told = {"MATRIX_HOMESERVER": "https://a", "MATRIX_USER_ID": "@bot:a", name: "very secret"}
        config = load_gateway_config(load_config(tmp_path, told)).platforms[Platform.MATRIX]
        assert config.enabled
        assert redact("it is very secret") == f"it is {MASK}"
    told.pop(name)
    assert not load_gateway_config(load_config(tmp_path, told)).platforms[Platform.MATRIX].enabled


async def test_an_account_that_cannot_be_used_says_what_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(MatrixError, match="MATRIX_HOMESERVER"):
        await adapter_for("matrix.example.org").connect()
    nothing = PlatformConfig(extra={"homeserver": "http://127.0.0.1:9", "user_id": ME})
    for name, value in (("trust", "nobody"), ("trust", True)):
        with pytest.raises(MatrixError, match=r"platforms\.matrix\.trust"):
            await adapter_for("http://127.0.0.1:9", **{name: value}).connect()
    with pytest.raises(MatrixError, match="MATRIX_PASSWORD"):
        await MatrixAdapter(nothing, never).connect()
    monkeypatch.setitem(sys.modules, "nio", None)
    with pytest.raises(MatrixError, match=r"pip install .*\[matrix\]"):
        await adapter_for("http://127.0.0.1:9").connect()


async def test_a_file_without_an_honest_address_is_not_fetched(tmp_path: Path) -> None:
    host = StandaloneHost(PlatformConfig(), never, tmp_path)
    for url in ("http://evil.example/x", "mxc://a/../../b", "mxc://a/b?c", "mxc://a", ""):
        with pytest.raises(MediaError, match="no address"):
            await fetch("http://127.0.0.1:9", "t", Attachment(url, "n"), host, "!r")


async def test_a_file_is_decrypted_only_as_it_was_sent() -> None:
    async def pieces(data: bytes) -> AsyncGenerator[bytes, None]:
        for start in range(0, len(data), 7):
            yield data[start : start + 7]

    async def read(data: bytes, key: Any) -> bytes:
        return b"".join([part async for part in decrypt(pieces(data), key)])

    for plain in (b"", b"a", bytes(range(256)) * 5):
        sealed, key = encrypt(plain)
        assert await read(sealed, key) == plain
    assert plain[:16] not in sealed
    for broken in (
        {}, {**key, "iv": 3}, {**key, "key": None}, {**key, "key": {"k": "short"}},
        {**key, "hashes": {"sha256": "A" * 43}}, {**key, "iv": "é"},
        {**key, "iv": "AAAA"}, {**key, "iv": "A" * 400}, {**key, "hashes": []},
    ):  # fmt: skip
        with pytest.raises(DecryptionError):
            await read(sealed, broken)
    with pytest.raises(DecryptionError, match="changed"):
        await read(sealed[:-1] + b"!", key)


def test_keys_are_handled_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str, said: str = "a passphrase\n") -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        code = main(["gateway", "matrix", *words])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setattr(keys_file, "ROUNDS", 10)
    file, account = str(tmp_path / "keys.txt"), OlmAccount()
    assert "None yet" in run("devices")[1]
    assert "0 keys" in run("keys", "export", file)[1]
    assert "exists already" in run("keys", "export", file)[1]
    assert run("keys", "import", file)[0] == 1
    kept = {"pickle": account.pickle().decode(), "shared": True}
    with SessionDB(tmp_path / "state.db") as db:
        db.add_platform_records("matrix", {"@b:x DEV account ": json.dumps(kept)})
    assert run("keys", "import", file) == (
        0, "0 of 0 keys are new. A gateway that runs reads them at its next start.\n",
    )  # fmt: skip
    assert "passphrase" in run("keys", "import", file, said="wrong\n")[1]
    assert "No such file" in run("keys", "import", file + "x")[1]
    assert account.identity_keys["ed25519"] in run("devices")[1]


def test_what_is_kept_is_private_and_for_one_account(tmp_path: Path) -> None:
    state = MatrixState(tmp_path)
    assert state.login("https://a", "bot") is None
    state.keep_login(Login("https://a", "@bot:a", "D", "secret"))
    for name in ("bot", "@bot:a"):
        kept = state.login("https://a", name)
        assert kept is not None and kept.access_token == "secret"
        assert "secret" not in repr(kept)
    assert state.login("https://b", "bot") is None
    assert state.login("https://a", "other") is None
    state.keep_place(Place("https://a", "@bot:a", "s1", {"!r": {"by": "@ann:a"}}))
    assert state.place("https://a", "@bot:a").since == "s1"
    assert state.place("https://a", "@other:a") == Place("https://a", "@other:a")
    for file in (tmp_path / "gateway").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (tmp_path / "gateway" / "matrix-sync.json").write_text("{cut")
    assert state.place("https://a", "@bot:a").since == ""


class _Shelf:
    """A store that several gateways share."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        return self.kept

    def write(self, kept: Mapping[str, Any]) -> None:
        self.kept.update(kept)


def test_what_is_kept_in_a_shared_store_is_there_for_another_home(tmp_path: Path) -> None:
    alone = MatrixState(tmp_path / "a")
    alone.keep_place(Place("https://a", "@bot:a", "s1"))
    shelf = _Shelf()
    first, second = MatrixState(tmp_path / "a", shelf), MatrixState(tmp_path / "b", shelf)
    assert first.place("https://a", "@bot:a").since == "s1", "from before the store was shared"
    first.keep_place(Place("https://a", "@bot:a", "s2"))
    first.keep_login(Login("https://a", "@bot:a", "D", "secret"))
    assert second.place("https://a", "@bot:a").since == "s2"
    kept = second.login("https://a", "bot")
    assert kept is not None and kept.device_id == "D"
    assert not (tmp_path / "b").exists()
    assert alone.place("https://a", "@bot:a").since == "s1"


def message(content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message", "event_id": "$e", "sender": "@ann:a",
        "origin_server_ts": 1_700_000_000_000, "content": content, **more,
    }  # fmt: skip


def read(content: Any) -> Incoming:
    found = read_event(message(content))
    assert found is not None
    return found


def test_replies_threads_edits_and_files_are_read() -> None:
    reply = read({
        "msgtype": "m.text", "body": "> <@x:a> was\n> said\n\nyes",
        "m.relates_to": {"m.in_reply_to": {"event_id": "$q"}},
    })  # fmt: skip
    assert (reply.text, reply.reply_to) == ("yes", "$q")
    quoted = read({"msgtype": "m.text", "body": "> a quote of mine\n\nand more"})
    assert quoted.text.startswith("> a quote")
    thread = read({
        "msgtype": "m.text", "body": "on",
        "m.relates_to": {"rel_type": "m.thread", "event_id": "$root"},
    })  # fmt: skip
    assert thread.thread_id == "$root"
    edit = read({
        "msgtype": "m.text", "body": "* new", "m.new_content": {"msgtype": "m.text", "body": "new"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$old"},
    })  # fmt: skip
    assert (edit.text, edit.replaces) == ("new", "$old")
    plain = read({"msgtype": "m.file", "body": "a.txt", "url": "mxc://a/b", "info": {"size": 3}})
    assert (plain.text, plain.attachment) == ("", Attachment("mxc://a/b", "a.txt", 3))
    captioned = read(
        {"msgtype": "m.image", "body": "look", "filename": "a.png", "url": "mxc://a/b"}
    )
    assert captioned.text == "look" and captioned.attachment is not None
    assert captioned.attachment.name == "a.png"


def test_who_is_meant() -> None:
    names = ("Hermes", "hermes-bot")
    pill = '<a href="https://matrix.to/#/@hermes:example.org">Hermes</a> hi'
    for content in (
        {"body": "hi", "m.mentions": {"user_ids": [ME]}},
        {"body": "hi", "format": "org.matrix.custom.html", "formatted_body": pill},
        {"body": "hi", "formatted_body": pill.replace("@", "%40").replace(":e", "%3Ae")},
        {"body": f"what says {ME}?"},
        {"body": "hermes: hi"},
        {"body": "@Hermes hi"},
        {"body": "Hermes-bot, hi"},
        {"body": "Hermes"},
    ):
        assert is_addressed(read({"msgtype": "m.text", **content}), ME, names), content
    for body in ("hi", "hermeshi", "I asked Hermes", "@ann hi"):
        assert not is_addressed(read({"msgtype": "m.text", "body": body}), ME, names), body
    assert without_address("Hermes:  do it", names) == "do it"
    assert without_address("do it, Hermes", names) == "do it, Hermes"


def test_commands_may_begin_with_an_exclamation_mark() -> None:
    assert as_command("!stop") == "/stop" and as_command("!last") == "/last"
    assert as_command("/approve session") == "/approve session"
    for text in ("!", "!!", "! stop", "!important", "/etc/hosts", "stop", ""):
        assert as_command(text) is None, text


def test_a_change_of_name_is_no_joining() -> None:
    def member(now: str, before: str | None) -> dict[str, Any]:
        unsigned = {"prev_content": {"membership": before}} if before else {}
        return {
            "type": "m.room.member", "state_key": ME,
            "content": {"membership": now}, "unsigned": unsigned,
        }  # fmt: skip

    assert membership_change(member("join", None), ME) == "join"
    assert membership_change(member("join", "invite"), ME) == "join"
    assert membership_change(member("join", "join"), ME) is None
    assert membership_change(member("invite", "leave"), ME) == "invite"
    assert membership_change(member("join", None), "@ann:a") is None


_NAMES = st.sampled_from(
    [
        "type", "event_id", "sender", "content", "msgtype", "body", "m.relates_to", "rel_type",
        "m.new_content", "m.in_reply_to", "m.mentions", "user_ids", "url", "file", "filename",
        "info", "size", "origin_server_ts", "formatted_body", "unsigned", "prev_content",
    ]
)  # fmt: skip
_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_LIKELY = st.sampled_from(["m.room.message", "m.text", "m.image", "m.replace", "m.thread", "> x"])
_JSON = st.recursive(
    _VALUES | _LIKELY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=6),
    max_leaves=20,
)


@given(st.dictionaries(_NAMES, _JSON), _JSON)
def test_any_event_can_be_read(event: dict[str, Any], content: Any) -> None:
    for source in (event, message(content), {**message(content), **event}):
        found = read_event(source)
        if found is not None:
            assert found.text.strip() or found.attachment or found.encrypted
            is_addressed(found, ME, ("Hermes",))
        membership_change(source, ME)


@given(st.text(max_size=4000) | st.text("<&😀`*_\n", max_size=4000))
def test_any_text_fits_an_event(text: str) -> None:
    for content in (text_content(text, thread_id="$t"), edit_content("$m", text)):
        size = len(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
        assert size <= MAX_EVENT_BYTES
        assert content.get("m.new_content", content)["body"] == text


def test_a_full_message_of_wide_characters_fits_as_an_edit() -> None:
    for text in ("😀" * 4000, "\x01" * 4000, "<" * 4000, "**a** " * 666):
        content = edit_content("$m", text)
        assert len(json.dumps(content, ensure_ascii=False).encode()) <= MAX_EVENT_BYTES
        assert content["m.new_content"]["body"] == text
