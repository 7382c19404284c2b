"""An S3-compatible store on loopback, which believes no request whose signature is not right.

It makes the signature of a request anew from what came over the wire, by the letter of AWS's
description ("Signature Version 4: Create a signed AWS API request"), and shares no code with what
it is to test.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

ACCESS_KEY, SECRET_KEY, REGION = "AKIDTEST", "wJalrXUtnFEMI/K7MDENG+secret", "eu-test-1"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)


class S3Server(ThreadingHTTPServer):
    """The store: what is in it, and what it is to do wrong."""

    daemon_threads = True

    def __init__(self, bucket: str = "files") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket
        self.objects: dict[str, bytes] = {}
        self.failures: list[int] = []
        """Statuses that the next requests are answered with."""
        self.requests: list[str] = []
        self.largest_piece = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: S3Server
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        digest, pieces = hashlib.sha256(), []
        left = int(self.headers["Content-Length"])
        while left:
            piece = self.rfile.read(min(left, 65_536))
            left -= len(piece)
            digest.update(piece)
            pieces.append(piece)
        if not self._is_admitted():
            return
        if digest.hexdigest() != self.headers["x-amz-content-sha256"]:
            self._answer(400, "XAmzContentSHA256Mismatch")
            return
        self.server.objects[self._key] = b"".join(pieces)
        self._answer(200)

    def do_GET(self) -> None:
        if not self._is_admitted():
            return
        found = self.server.objects.get(self._key)
        if found is None:
            self._answer(404, "NoSuchKey")
        else:
            self._answer(200, body=found)

    def do_DELETE(self) -> None:
        if self._is_admitted():
            self.server.objects.pop(self._key, None)
            self._answer(204)

    @property
    def _key(self) -> str:
        return unquote(self.path.removeprefix(f"/{self.server.bucket}/"))

    def _is_admitted(self) -> bool:
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.failures:
            self._answer(self.server.failures.pop(0), "SlowDown")
        elif (problem := self._problem()) is not None:
            self._answer(403, problem)
        elif not self.path.startswith(f"/{self.server.bucket}/"):
            self._answer(404, "NoSuchBucket")
        else:
            return True
        return False

    def _problem(self) -> str | None:
        """What is wrong with the signature; None if it is right."""
        match = _AUTHORIZATION.fullmatch(self.headers.get("Authorization", ""))
        if match is None:
            return "AccessDenied"
        access_key, day, region, names, signature = match.groups()
        stamp = self.headers["x-amz-date"]
        if access_key != ACCESS_KEY:
            return "InvalidAccessKeyId"
        if region != REGION or not stamp.startswith(day):
            return "AuthorizationHeaderMalformed"
        signed = names.split(";")
        needed = {"host", "x-amz-content-sha256", "x-amz-date"}
        if signed != sorted(signed) or not needed <= set(signed):
            return "AccessDenied"
        path, _, query = self.path.partition("?")
        canonical = [
            self.command,
            quote(unquote(path), safe="/-_.~"),
            query,
            *(f"{name}:{' '.join((self.headers[name] or '').split())}" for name in signed),
            "",
            names,
            self.headers["x-amz-content-sha256"],
        ]
        hashed = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{day}/{REGION}/s3/aws4_request\n{hashed}"

        def keyed(key: bytes, words: str) -> bytes:
            return hmac.new(key, words.encode(), hashlib.sha256).digest()

        signing = keyed(
            keyed(keyed(keyed(b"AWS4" + SECRET_KEY.encode(), day), REGION), "s3"), "aws4_request"
        )
        expected = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
        return None if hmac.compare_digest(expected, signature) else "SignatureDoesNotMatch"

    def _answer(self, status: int, code: str = "", body: bytes = b"") -> None:
        if code:
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A store that runs for as long as the block."""
    with S3Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
