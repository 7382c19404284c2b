"""`hermes store check` and `move`, and every other command with a store on a server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config import load_config
from agent.home import ConfigError
from agent.store import find_store, open_store
from gateway.status import GatewayLock
from hermes_state import BucketSettings, FileChange, SessionDB, StoreUnavailableError

from .. import postgres
from ..ports import free_port

pytestmark = pytest.mark.both_databases


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A database without a store in it."""
    yield postgres.database_for(tmp_path / "server", str(tmp_path))
    postgres.give_back(str(tmp_path))


@pytest.fixture
def there(rome: Any, address: str) -> Any:
    """The home of `rome`, with its conversations on a server."""
    said = rome("store", "move", "--to", address, "--yes")
    assert said.code == 0, said
    return rome


def with_password(address: str, password: str = "pass%2Fword-1") -> str:
    return address.replace("hermes@", f"hermes:{password}@")


# Where it is


def test_the_environment_wins_over_dotenv_and_both_over_the_file(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Path = cli.home
    assert find_store(home).server is None
    (home / "config.yaml").write_text("store: postgresql://in.file/db\nstore_connections: 3\n")
    assert find_store(home)[1:3] == ("postgresql://in.file/db", 3)
    (home / ".env").write_text("HERMES_STORE=postgresql://in.dotenv/db\n")
    assert find_store(home).server == "postgresql://in.dotenv/db"
    monkeypatch.setenv("HERMES_STORE", "postgresql://in.environment/db")
    assert find_store(home).server == "postgresql://in.environment/db"
    assert load_config(home).store == "postgresql://in.environment/db"
    monkeypatch.setenv("HERMES_STORE", "file")
    assert find_store(home).server is None
    assert load_config(home).store == ""


def test_a_password_comes_from_where_passwords_are_kept(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    home: Path = cli.home
    (home / "config.yaml").write_text("store: postgresql://me:${STORE_WORD}@host/db\n")
    (home / ".env").write_text("STORE_WORD=geheim-77\n")
    assert find_store(home).server == "postgresql://me:geheim-77@host/db"
    (home / "config.yaml").write_text("store: postgresql://me@host/db?sslmode=require\n")
    (home / ".env").write_text("PGPASSWORD=ge/heim\n")
    assert find_store(home).server == ("postgresql://me@host/db?sslmode=require&password=ge%2Fheim")
    monkeypatch.setenv("PGPASSWORD", "libpq reads this itself")
    assert find_store(home).server == "postgresql://me@host/db?sslmode=require"


@pytest.mark.parametrize(
    "wrong",
    [
        "store: mysql://host/db",
        "store: [a]",
        "store: postgresql://me:pa/ss@host/db",
        "store: postgresql://host/db\nstore_connections: 0",
        "store: {unclosed",
    ],
)
def test_a_wrong_address_stops_the_start_and_no_file_is_used_instead(cli: Any, wrong: str) -> None:
    (cli.home / "config.yaml").write_text(wrong)
    with pytest.raises(ConfigError) as caught:
        open_store(cli.home)
    assert "pa/ss" not in str(caught.value)
    assert cli("sessions", "list").code == 2
    assert not (cli.home / "state.db").exists()


def test_the_password_is_never_shown(rome: Any, address: str) -> None:
    secret = with_password(address)
    assert rome("store", "move", "--to", secret, "--yes").code == 0
    assert "pass%2Fword-1" not in (rome.home / "config.yaml").read_text()
    assert "HERMES_STORE_PASSWORD=pass%2Fword-1" in (rome.home / ".env").read_text()
    assert find_store(rome.home).server == secret
    for command in (
        ["config", "get"],
        ["config", "get", "store"],
        ["config", "get", "--json"],
        ["config", "check"],
        ["doctor"],
        ["doctor", "--json"],
        ["store", "check"],
        ["store", "check", "--json"],
        ["sessions", "stats"],
        ["sessions", "export", "--all"],
        ["backup", "-o", "b.tar.gz"],
    ):
        said = rome(*command)
        assert "word-1" not in said.out + said.err, command
    assert rome("config", "get", "store").out.startswith("postgresql://")
    (rome.home / "config.yaml").write_text(f"store: {secret}\n")
    said = rome("config", "check")
    assert "has a password in it, in a file that is not meant for secrets" in said.out
    assert "word-1" not in said.out
    (rome.home / "config.yaml").write_text("store: postgresql://me:pass%2Fword-1@127.0.0.1:1/db\n")
    assert "word-1" not in rome.fails("sessions", "list", code=1)
    assert "word-1" not in repr(load_config(rome.home)) + repr(find_store(rome.home))


def test_a_missing_driver_is_named_with_what_installs_it(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cli.home / "config.yaml").write_text("store: postgresql://host/db\n")
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "psycopg" else real(name, *a)
    )
    with pytest.raises(StoreUnavailableError, match=r"psycopg.*Run: .* -m pip install"):
        open_store(cli.home)
    said = cli("doctor")
    assert said.code == 1
    assert "pip install" in said.out


def test_nobody_loads_the_driver_who_does_not_use_it(hermes: Any, server: Any) -> None:
    for arguments in (["--version"], ["chat", "-q", "hello"], ["sessions", "list"]):
        if "chat" in arguments:
            server.say("Hello.")
        code = (
            "import sys\nfrom hermes_cli.main import main\n"
            f"try: code = main({arguments!r})\nexcept SystemExit as ended: code = ended.code\n"
            "assert not code, code\n"
            "assert not [one for one in sys.modules if one.startswith('psycopg')]\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=hermes.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


# Moving


def test_conversations_move_to_a_server_and_back(rome: Any, address: str) -> None:
    rome("memory", "add", "Likes tea.")
    before = rome("sessions", "export", "--all").out
    said = rome("store", "move", "--to", address, "--yes")
    assert said.code == 0, said
    assert "2 files of memories/ and skills/ went along" in said.out
    assert "2 sessions, 4 messages" in said.out
    assert "each compared" in said.out
    assert not (rome.home / "state.db").exists()
    (kept,) = rome.home.glob("state.db.moved-*")
    with SessionDB(kept) as db:
        assert db.session_count() == 2
    assert find_store(rome.home).server == address
    assert rome("sessions", "export", "--all").out == before
    assert "kept in" in rome.fails("store", "move", "--to", address, "--yes")
    with SessionDB(rome.home / "x.db", server=address) as db:
        files = {file.path: file for file in db.list_kept_files().files}
        assert files.keys() == {"memories/MEMORY.md", "memories/history/changes.jsonl"}
        memory = files["memories/MEMORY.md"]
        assert memory.content == b"Likes tea.\n"
        changed = FileChange(memory.path, b"Likes wine.\n", version=memory.version)
        assert db.change_kept_files([changed]) is not None
    said = rome("store", "move", "--to", "file", "--yes")
    assert said.code == 0, said
    assert (rome.home / "memories" / "MEMORY.md").read_text() == "Likes wine.\n"
    with SessionDB(rome.home / "state.db") as db:
        assert db.list_kept_files().files == [], "beside a file they are files"
    assert "still holds everything" in said.out
    assert (rome.home / "config.yaml").read_text() == "store: file\n"
    assert find_store(rome.home).server is None
    assert rome("sessions", "export", "--all").out == before
    assert "is not empty" in rome.fails("store", "move", "--to", address, "--yes", code=1)


def test_only_a_copy_leaves_everything_as_it_is(rome: Any, address: str) -> None:
    assert rome("store", "move", "--to", address, "--copy-only", "--yes").code == 0
    assert (rome.home / "state.db").exists()
    assert find_store(rome.home).server is None


def test_a_move_is_asked_for_and_refused_while_anything_runs(rome: Any, address: str) -> None:
    move = ("store", "move", "--to", address)
    assert "--yes" in rome.fails(*move)
    lock = GatewayLock(rome.home)
    lock.acquire()
    assert "gateway" in rome.fails(*move, "--yes")
    lock.release()
    with rome.store() as db:
        db.session_count()
        assert "is in use" in rome.fails(*move, "--yes")
    with SessionDB(rome.home / "x.db", server=address) as db:
        db.session_count()
        assert "End every Hermes" in rome.fails(*move, "--yes", code=1)
    assert find_store(rome.home).server is None


def test_what_cannot_be_moved_is_said(cli: Any, address: str) -> None:
    assert "nothing to move" in cli.fails("store", "move", "--to", address, "--yes")
    assert "Name a server" in cli.fails("store", "move", "--to", "elsewhere.db", "--yes")
    said = cli.fails("store", "move", "--to", "postgresql://me:a/b@host/db", "--yes")
    assert "%2F" in said
    assert "a/b" not in said


def test_a_variable_that_wins_is_told(
    rome: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_STORE", "file")
    said = rome("store", "move", "--to", address, "--yes")
    assert said.code == 0
    assert "HERMES_STORE in the environment decides" in said.out
    assert (rome.home / "state.db").exists()


# Looking


def test_a_server_is_looked_at_from_all_sides(rome: Any, tmp_path: Path) -> None:
    with postgres.own_server(
        fsync="on", full_page_writes="on", synchronous_commit="on", autovacuum="on"
    ) as server:
        url = server.url("postgres")
        said = rome("store", "check", "--url", url)
        assert said.code == 0, said
        assert "There is no store in it yet" in said.out
        assert rome("store", "move", "--to", url, "--yes").code == 0
        said = rome("store", "check")
        assert said.code == 0, said
        for part in ("PostgreSQL", "UTF8", "schema is", "superuser", "clock", "connections", "MB"):
            assert part in said.out, part
        assert rome("store", "check", "--json").json["ok"]
        said = rome("doctor")
        assert "PostgreSQL" in said.out
        assert "connections are used" in said.out
    said = rome("store", "check")
    assert said.code == 1
    assert "cannot be reached" in said.out
    said = rome("doctor")
    assert said.code == 1
    assert "cannot be reached" in said.out


def test_a_file_is_looked_at_too(rome: Any) -> None:
    said = rome("store", "check")
    assert said.code == 0
    assert "a file in the home" in said.out
    with rome.store() as db:
        db._execute_write(lambda conn: conn.execute("UPDATE sessions SET message_count = 99"))
    said = rome("store", "check")
    assert said.code == 1
    assert "hermes doctor --fix" in said.out


def test_a_file_beside_a_server_is_told(rome: Any, address: str) -> None:
    said = rome("config", "set", "store", address)
    assert "hermes store move brings it along" in said.out
    assert "is there too and is not used" in rome("store", "check").out
    assert "is there too and is not used" in rome("doctor").out


def test_a_backup_that_is_given_away_names_the_server_without_its_password(
    cli: Any, tmp_path: Path
) -> None:
    (cli.home / "config.yaml").write_text("store: postgresql://me:word-9@host/db  # mine\n")
    assert cli("backup", "--no-secrets", "-o", "b.tar.gz").code == 0
    with tarfile.open("b.tar.gz") as archive:
        file = archive.extractfile("config.yaml")
        assert file is not None
        kept = file.read().decode()
    assert kept == 'store: "postgresql://me:${HERMES_STORE_PASSWORD}@host/db"  # mine\n'


# Every other command


def test_commands_work_with_a_server(there: Any, tmp_path: Path) -> None:
    assert "Trip to Rome" in there("sessions", "list").out
    assert "noon" in there("sessions", "show", "Trip to Rome").out
    stats = there("sessions", "stats").out
    assert stats.startswith("postgresql://")
    assert there("insights").code == 0
    assert there("sessions", "rename", "Trip to Rome", "Rome").code == 0
    assert there("pairing", "list").code == 0
    assert there("sessions", "optimize").code == 0
    assert not (there.home / "state.db").exists()


def test_a_backup_holds_the_rest_of_the_home_and_says_so(there: Any) -> None:
    (there.home / "SOUL.md").write_text("I am.\n")
    said = there("backup", "-o", "b.tar.gz")
    assert said.code == 0, said
    assert "not in this archive" in said.out
    assert "pg_dump" in said.out
    assert "state.db" not in there("backup", "-o", "c.tar.gz", "--json").json["files"]
    assert "postgres.md" in there.fails("backup", "increment")
    (there.home / "SOUL.md").write_text("I was.\n")
    said = there("restore", "b.tar.gz", "--yes")
    assert said.code == 0, said
    assert "with the server's tools" in said.out
    assert (there.home / "SOUL.md").read_text() == "I am.\n"
    assert "Trip to Rome" in there("sessions", "list").out


def test_a_backup_of_a_file_is_not_used_while_a_server_is_named(
    rome: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rome("backup", "-o", "b.tar.gz").code == 0
    monkeypatch.setenv("HERMES_STORE", address)
    said = rome("restore", "b.tar.gz", "--yes")
    assert said.code == 0, said
    assert "is set to use postgresql://" in said.out


def test_repairing_says_what_is_the_servers_business(there: Any) -> None:
    said = there("sessions", "repair")
    assert "looks after its files itself" in said.out
    assert not (there.home / "state.db").exists()


def test_another_home_is_imported_into_the_server(there: Any, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    with SessionDB(old / "state.db") as db:
        db.create_session("20250101_000000_cccccc", "cli")
        db.append_message("20250101_000000_cccccc", "user", "from elsewhere")
    said = there("import", str(old))
    assert said.code == 0, said
    assert not (there.home / "state.db").exists()
    assert "from elsewhere" in there("sessions", "show", "20250101_000000_cccccc").out


def test_a_chat_is_kept_on_the_server(hermes: Any, server: Any, address: str) -> None:
    with (hermes.home / ".hermes" / "config.yaml").open("a") as file:
        file.write(f"store: {address}\n")
    server.say("Hello from there.")
    done = hermes.run("chat", "-q", "hello")
    assert done.returncode == 0, done.stderr
    assert "Hello from there." in done.stdout
    assert not (hermes.home / ".hermes" / "state.db").exists()
    with SessionDB(hermes.home / "x.db", server=address) as db:
        (session,) = db.list_sessions_rich()
        assert [one["content"] for one in db.get_messages(session["id"])] == [
            "hello",
            "Hello from there.",
        ]
    assert os.environ.get("HERMES_STORE") is None


def test_the_session_server_and_the_gateway_keep_theirs_there_too(
    hermes: Any, server: Any, address: str
) -> None:
    port = free_port()
    with (hermes.home / ".hermes" / "config.yaml").open("a") as file:
        file.write(
            f"store: {address}\n"
            f"platforms: {{api_server: {{enabled: true, port: {port}, key: {'k' * 24}}}}}\n"
        )
    server.say("From the session server.")
    with start(hermes, "tui_gateway.entry", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as entry:
        created = rpc(entry, "session.create")
        rpc(entry, "prompt.submit", session_id=created["session_id"], text="hello there")
        wait_for_event(entry, "message.complete")
        entry.stdin.close()
        assert entry.wait(20) == 0
    server.say("From the gateway.")
    with start(hermes, "hermes_cli.main", "gateway", "run", stderr=subprocess.PIPE) as gateway:
        assert "The gateway runs with api_server" in gateway.stderr.readline()
        assert "From the gateway." in ask(port, "hello gateway")
        gateway.terminate()
        assert gateway.wait(20) == 0
    assert not (hermes.home / ".hermes" / "state.db").exists()
    with SessionDB(hermes.home / "x.db", server=address) as db:
        sources = {one["source"] for one in db.list_sessions_rich()}
    assert sources == {"tui", "api_server"}


@contextlib.contextmanager
def start(hermes: Any, *module: str, **streams: Any) -> Iterator[Any]:
    """A program of ours, ended in any case."""
    with subprocess.Popen(
        [sys.executable, "-m", *module], env=hermes.environment, text=True, **streams
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def rpc(entry: Any, method: str, **params: Any) -> Any:
    request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    entry.stdin.write(json.dumps(request) + "\n")
    entry.stdin.flush()
    while True:
        said = json.loads(entry.stdout.readline())
        if said.get("id") == method:
            return said["result"]


def wait_for_event(entry: Any, kind: str) -> None:
    while json.loads(entry.stdout.readline()).get("params", {}).get("type") != kind:
        pass


def ask(port: int, text: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=json.dumps({"model": "x", "messages": [{"role": "user", "content": text}]}).encode(),
        headers={"Authorization": f"Bearer {'k' * 24}", "Content-Type": "application/json"},
    )
    for _ in range(200):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.read().decode())
        except ConnectionRefusedError:
            time.sleep(0.05)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.05)
    raise AssertionError("nobody listens")


S3 = """\
store: postgresql://in.file/db
store_objects: {place: s3, endpoint: "https://s3.example.org", bucket: files, prefix: h/}
"""


def test_the_bucket_for_files_is_found_with_its_key(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Path = cli.home
    (home / "config.yaml").write_text(S3)
    with pytest.raises(ConfigError, match=r"store_objects\.access_key, store_objects\.secret_key"):
        find_store(home)
    (home / ".env").write_text(
        "HERMES_OBJECTS_ACCESS_KEY=me\nHERMES_OBJECTS_SECRET_KEY=hush-hush\n"
    )
    bucket = find_store(home).bucket
    assert bucket == BucketSettings(
        "https://s3.example.org", "files", "us-east-1", "h/", "me", "hush-hush"
    )
    assert "hush" not in f"{bucket!r} {find_store(home)!r}"
    monkeypatch.setenv("HERMES_OBJECTS_ACCESS_KEY", "another")
    (home / "config.yaml").write_text(S3.replace("place: s3, ", ""))
    bucket = find_store(home).bucket
    assert bucket is not None
    assert bucket.access_key == "another"
    assert not bucket.is_used, "what is there from before is found"
    (home / "config.yaml").write_text(S3.replace("https://", "https://me:key@"))
    with pytest.raises(ConfigError, match="hold no key"):
        find_store(home)
    (home / "config.yaml").write_text(S3.replace("postgresql://in.file/db", "file"))
    assert find_store(home).bucket is None, "beside a file nothing is put anywhere"
