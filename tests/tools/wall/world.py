"""A small world around a root, with something to steal, to break and to reach."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from tools.base import ToolContext, Workspace
from tools.wall.places import writable_caches

SRC = Path(__file__).parents[3] / "src"
_OWN_BUSINESS = ("tool-runs", "tool-output", "processes.json", ".cache", ".npm", "checkpoints")
_SYSTEM = ("/etc", "/etc/cron.d", "/etc/profile.d", "/usr/bin", "/usr/local/bin", "/opt",
           "/var/spool/cron", "/etc/systemd/system")  # fmt: skip


class World:
    """A person's home, a Hermes home in it, and what must stay as it is."""

    def __init__(self, person: Path, root: Path, *, with_metadata: bool = True) -> None:
        """Without `with_metadata`, permissions and times of files are not looked at."""
        self.person, self.root, self._with_metadata = person, root, with_metadata
        self.hermes = person / ".hermes"
        self.outside = person / "outside"
        self.canary = f"canary-{secrets.token_hex(8)}"
        for folder in (".ssh", ".config/gh", ".aws", ".hermes", "outside"):
            (person / folder).mkdir(parents=True, exist_ok=True)
        for name in (".ssh/id_ed25519", ".netrc", ".config/gh/hosts.yml", ".aws/credentials"):
            (person / name).write_text(f"secret {self.canary}\n")
        (self.hermes / ".env").write_text(f"OPENAI_API_KEY={self.canary}\n")
        (self.hermes / "config.yaml").write_text(f"# {self.canary}\napprovals: {{mode: manual}}\n")
        (person / ".bashrc").write_text("true\n")
        (self.outside / "kept").write_text("kept\n")
        self.reset()
        self.connections = 0
        self._servers = [self._tcp(), self._udp(), self._unix(), self._abstract()]
        self.victim = subprocess.Popen(
            ["bash", "-c", "exec -a victim sleep 3600"],
            env={**os.environ, "VICTIM_SECRET": self.canary},
            cwd=self.outside,
            start_new_session=True,
        )
        writable_caches(person)  # those of installed programs are made with the first wall
        self.before = self.snapshot()

    def reset(self) -> None:
        """Give an attack what it expects to find inside."""
        root = self.root.resolve()
        for entry in root.iterdir():
            if entry.name == ".git":
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
        (root / "own").write_text("evil\n")
        (root / "x.sh").write_text(f"echo evil > {self.outside}/new\n")
        (root / "x.py").write_text(f"open({str(self.outside / 'new')!r}, 'w')\n")
        (root / "link").symlink_to(self.outside)

    def fill(self, command: str) -> str:
        """An attack with its places filled in."""
        return command.format(
            outside=self.outside,
            home=self.person,
            hermes=self.hermes,
            port=self.port,
            pid=self.victim.pid,
            socket=self.person / "agent.sock",
            python=os.path.realpath(sys.executable),
            src=SRC,
        )

    def snapshot(self) -> dict[str, object]:
        """All that must stay as it is, as values to compare."""
        found: dict[str, object] = {}
        for folder, folders, files in os.walk(self.person):
            folders[:] = [name for name in folders if name not in _OWN_BUSINESS]
            if Path(folder).resolve() == self.root.resolve():
                folders.clear()
                continue
            for name in files:
                if name.startswith(_OWN_BUSINESS):
                    continue
                path = Path(folder, name)
                info = path.lstat()
                text = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                digest = hashlib.sha256(text).hexdigest()
                metadata = (info.st_mode, info.st_uid, info.st_mtime_ns)
                found[str(path)] = (digest, metadata if self._with_metadata else ())
            found[folder] = Path(folder).lstat().st_mode if self._with_metadata else 0
        for place in _SYSTEM:
            if Path(place).exists():
                found[place] = sorted(os.listdir(place))  # noqa: PTH208 - names are enough
        found["connections"] = self._count_connections()
        stat = Path(f"/proc/{self.victim.pid}/stat").read_text()
        found["victim"] = (self.victim.poll(), stat.rpartition(")")[2].split()[0] == "T")
        return found

    def workspace(self) -> Workspace:
        """A conversation that the person put into the root."""
        return Workspace(self.hermes, self.root, settings={"terminal": {"sandbox": "required"}})

    def context(self) -> ToolContext:
        """With nobody to answer: every question is denied."""
        return ToolContext("s1", "call_1", workspace=self.workspace())

    def close(self) -> None:
        """End the victim and the servers."""
        self.victim.kill()
        self.victim.wait()
        for server in self._servers:
            server.close()

    def _count_connections(self) -> int:
        """Also those that came this very moment: the system has them before a client has its."""
        for server in self._servers:
            with contextlib.suppress(BlockingIOError):
                while True:
                    if server.type == socket.SOCK_STREAM:
                        server.accept()[0].close()
                    else:
                        server.recv(100)
                    self.connections += 1
        return self.connections

    def _serve(self, server: socket.socket) -> socket.socket:
        server.setblocking(False)
        if server.type == socket.SOCK_STREAM:
            server.listen()
        return server

    def _tcp(self) -> socket.socket:
        server = socket.create_server(("127.0.0.1", 0))
        self.port = server.getsockname()[1]
        return self._serve(server)

    def _udp(self) -> socket.socket:
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", self.port))
        return self._serve(server)

    def _unix(self) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        before = Path.cwd()
        os.chdir(self.person)  # a path of a socket may have some 100 characters only
        try:
            server.bind("agent.sock")
        finally:
            os.chdir(before)
        return self._serve(server)

    def _abstract(self) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"\0hermes-attack-{self.port}")
        return self._serve(server)
