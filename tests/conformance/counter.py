"""A counter over HTTP, in the suite's own process: an effect that leaves the machine's files alone.

`POST /<home>/<mark>` counts one up for that key, and answers with the count. What it has counted
survives every process that the suite kills, and knows nothing of their stores.
"""

from __future__ import annotations

import functools
import http.server
import threading
from collections import Counter, defaultdict

COUNTER_VARIABLE = "CONFORMANCE_COUNTER"
"""The environment variable in which children find its address."""


class HttpCounter:
    """The server, and what it has counted."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._lock = threading.Lock()
        count = self._count

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self) -> None:
                home, _, mark = self.path.strip("/").partition("/")
                body = str(count(home, mark)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: there are thousands."""

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client was killed before it had read the answer; its effect is counted."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _count(self, home: str, mark: str) -> int:
        with self._lock:
            self._counts[home][mark] += 1
            return self._counts[home][mark]

    def marks(self, home: str) -> list[str]:
        """What was counted for a home: each mark as often as it was counted."""
        with self._lock:
            return list(self._counts[home].elements())

    def copy(self, home: str, target: str) -> None:
        """A home was copied: what was counted for it counts for the copy as well."""
        with self._lock:
            self._counts[target] = Counter(self._counts[home])

    def forget(self, home: str) -> None:
        """A home is done with."""
        with self._lock:
            self._counts.pop(home, None)


@functools.cache
def counter() -> HttpCounter:
    """The one of this process."""
    return HttpCounter()
