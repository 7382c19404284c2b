"""A socket between a client and a PostgreSQL server that is cut when a test wants it."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote

from .memory import MEMORY
from .writers import PATIENCE

_SOCKET = ".s.PGSQL.5432"


class CutProxy:
    """Passes everything on, until it is told to cut the connection that sends a COMMIT.

    `cut` is "" for none, "before" (the server never gets it), "after" (it was carried out, and the
    answer is lost) or "late": the client loses its connection at once, and the server gets the
    COMMIT when `deliver` is called. Each cut happens once; with `stay_away` nobody gets through
    afterwards.
    """

    def __init__(self, server: Path) -> None:
        self._server = str(server / _SOCKET)
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-cut-", dir=MEMORY))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / _SOCKET))
        self._listener.listen(64)
        self._sockets: list[socket.socket] = []
        self.cut = ""
        self.stay_away = False
        self._is_closed = False
        self._deliver, self.delivered = threading.Event(), threading.Event()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        """The address of one of the server's databases through this."""
        return f"postgresql://hermes@/{database}?host={quote(str(self.folder), safe='')}"

    def deliver(self) -> None:
        """Let the server have a COMMIT that was held back, and wait for what it says."""
        self._deliver.set()
        assert self.delivered.wait(PATIENCE)

    def close(self) -> None:
        """Cut everything. What a thread waits on is closed by that thread, not under it."""
        self._is_closed = True
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):  # the other side may have closed it
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self.folder)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self.stay_away:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._sockets += [client, server]
            if self._is_closed:  # which may not have seen these two
                client.close()
                server.close()
                return
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError), client, server:  # both sides may go at any moment
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is client and self.cut and b"; COMMIT" in data:
                        self._cut(client, server, data)
                        return
                    (server if source is client else client).sendall(data)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        cut, self.cut = self.cut, ""
        self.cuts += 1
        if cut == "late":
            client.close()
            assert self._deliver.wait(PATIENCE)
        if cut != "before":
            server.sendall(data)
            answer = b""
            while b"Z\x00\x00\x00\x05" not in answer:  # ReadyForQuery: it is done, or refused
                if not (part := server.recv(1 << 16)):
                    return
                answer += part
            self.delivered.set()
