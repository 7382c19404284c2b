"""A real PgBouncer between Hermes and its server: refused in every mode, with the reason."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from hermes_state import SessionDB, StoreUnavailableError
from hermes_state.move import move_store
from hermes_state.server_report import examine

from .. import postgres, skips
from .memory import MEMORY
from .writers import PATIENCE

pytestmark = [
    pytest.mark.both_databases,
    skips.needs("pgbouncer"),
]

SETTINGS = """\
[databases]
x = host={server} dbname=x
[pgbouncer]
unix_socket_dir = {folder}
listen_addr =
listen_port = 5432
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
ignore_startup_parameters = {ignored}
logfile = {folder}/log
pidfile =
"""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.own_server() as running:
        running.create("x")
        yield running


@contextlib.contextmanager
def bouncer(server: postgres.Server, mode: str, ignored: str) -> Iterator[str]:
    """The address of the server's database through a PgBouncer."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-bouncer-", dir=MEMORY))
    (folder / "users").write_text('"hermes" ""\n')
    settings = folder / "settings.ini"
    settings.write_text(
        SETTINGS.format(server=server.folder, folder=folder, mode=mode, ignored=ignored)
    )
    as_nobody: dict[str, Any] = {}
    if os.getuid() == 0:  # it refuses to run as root
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        as_nobody = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    process = subprocess.Popen(
        ["pgbouncer", str(settings)], cwd="/", stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_nobody,
    )  # fmt: skip
    url = f"postgresql://hermes@/x?host={quote(str(folder), safe='')}"
    try:
        _await_answer(url, folder)
        yield url
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _await_answer(url: str, folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError as error:
            assert time.monotonic() < deadline, f"{error}\n{(folder / 'log').read_text()}"
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("ignored", "reason"),
    [("", "takes no settings from us"), ("options", "may hand each transaction to another")],
)
@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_it_is_refused_and_nothing_is_written(
    server: postgres.Server, tmp_path: Path, mode: str, ignored: str, reason: str
) -> None:
    with bouncer(server, mode, ignored) as url:
        with pytest.raises(StoreUnavailableError, match=reason) as error:
            SessionDB(tmp_path / "state.db", server=url)
        assert "PgBouncer" in str(error.value) and "server's own address" in str(error.value)
        wrong = " ".join(one.text for one in examine(url, 8) if one.level == "wrong")
        assert "server's own address" in wrong
        with SessionDB(tmp_path / "from" / "state.db") as source:
            source.create_session("s", "cli")
        with pytest.raises(StoreUnavailableError, match="server's own address"):
            move_store(tmp_path / "from" / "state.db", url, lambda *_: None)
    with psycopg.connect(server.url("x")) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchone()
    assert tables == (0,)


def test_the_server_behind_it_is_taken(server: postgres.Server, tmp_path: Path) -> None:
    server.create("direct")
    with SessionDB(tmp_path / "state.db", server=server.url("direct")) as db:
        db.create_session("s", "cli")
        assert db.session_count() == 1
