"""A server of embeddings that says what it was asked: the model is how long a text is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


class Server(BaseHTTPRequestHandler):
    """What is set on the class holds for the requests that follow."""

    asked: ClassVar[list[dict[str, Any]]] = []
    reply: Any = None
    status = 200
    url = ""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append({**body, "key": self.headers["authorization"], "path": self.path})
        data = [
            {"index": place, "embedding": [float(len(text)), 1.0]}
            for place, text in reversed(list(enumerate(body["input"])))
        ]
        said = json.dumps({"data": data} if self.reply is None else self.reply).encode()
        self.send_response(self.status)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@contextmanager
def embeddings_server() -> Iterator[Any]:
    """A server for as long as the block runs; its `url` is what stands before `/embeddings`."""
    handler: Any = type("Bound", (Server,), {"asked": []})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    handler.url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield handler
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
