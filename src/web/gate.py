"""The gate in front of everything, HTTP and WebSocket: refused unless every check passes.

A page on this machine is a remote control for a shell, so a browser must not be talked into using
it. `Host` has to be a name that we were told, with the port: another may be a trick with DNS.
An `Origin`, if there is one, has to be ours, whoever sends it. `Sec-Fetch-Site` has to be ours or
none, except for opening a document, which holds no secret. A key is asked for by the application,
for everything but the page's own files and the exchange of a code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
KEYS = "/web/keys"
DEVICE = "/web/device"
SOCKET = "/web/socket"
PROTOCOL = "hermes.v1"
KEY_PROTOCOL = "hermes.v1.key."
HEADERS = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
        " font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types {policy}",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ("x-dns-prefetch-control", "off"),
)


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    reason: str


class Gate:
    """Decides whether a request comes from where it may."""

    def __init__(self, hosts: tuple[str, ...] = ()) -> None:
        """`hosts` are the names, beyond loopback, under which the page may be reached."""
        self.port = 0
        self._named = tuple(name.lower() for name in hosts)

    def refusal(self, scope: Any) -> Refusal | None:
        """Why a request is refused; None if it may come in."""
        names = [name.lower() for name, _ in scope["headers"]]
        if names.count(b"host") != 1 or names.count(b"origin") > 1:
            return Refusal(400, "One Host and one Origin, please.")
        given = headers_of(scope)
        host = given.get("host", "").lower()
        if not self._is_ours(host):
            return Refusal(
                403, f"Not under the name {host[:80]!r}: name it in platforms.web.hosts."
            )
        origin = given.get("origin")
        if origin is not None and origin.lower() not in self._origins(host):
            return Refusal(403, "Not from that origin.")
        site = given.get("sec-fetch-site")
        is_document = (
            scope["type"] == "http"
            and scope["method"] == "GET"
            and given.get("sec-fetch-dest", "") == "document"
            and given.get("sec-fetch-mode", "") == "navigate"
        )
        if site not in (None, "none", "same-origin") and not is_document:
            return Refusal(403, "Not from another site.")
        if scope["type"] == "websocket" and origin is None and site is not None:
            return Refusal(403, "A browser says where it comes from.")
        return None

    def _is_ours(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        if name in LOOPBACK and port == str(self.port):
            return True
        # A proxy in front of us says the name that it was asked for, often without a port.
        return host in self._named or name in self._named

    def _origins(self, host: str) -> tuple[str, ...]:
        name = host.rpartition(":")[0]
        if name in LOOPBACK:
            return (f"http://{host}",)
        return (f"https://{host}", f"http://{host}")


def headers_of(scope: Any) -> dict[str, str]:
    """The headers of a request, by their names in lower case; the first of several counts."""
    found: dict[str, str] = {}
    for name, text in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), text.decode("latin-1"))
    return found


def key_of(scope: Any) -> str:
    """The key that a request shows; empty if it shows none."""
    if scope["type"] == "websocket":
        offered: list[str] = scope.get("subprotocols") or []
        return next(
            (name[len(KEY_PROTOCOL) :] for name in offered if name.startswith(KEY_PROTOCOL)), ""
        )
    kind, _, key = headers_of(scope).get("authorization", "").partition(" ")
    return key if kind.lower() == "bearer" else ""


def headers(policy: str = "'none'") -> list[tuple[bytes, bytes]]:
    """What every answer carries; `policy` is the Trusted Types policy that may be made."""
    return [(name.encode(), text.format(policy=policy).encode()) for name, text in HEADERS]
