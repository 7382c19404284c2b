"""The services of a network, as InspIRCd is linked to them: accounts by SASL PLAIN, nothing else.

A server of its own in a thread, that speaks as much of the protocol between InspIRCd's servers
(1205) as logging in takes. Every account has the same password.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
import time
from collections.abc import Iterator

NAME, LINK_PASSWORD = "services.test.local", "only-here"
PASSWORD = "of every account"
_ID, _AGENT = "2SS", "2SSAAAAAA"


@contextlib.contextmanager
def services(port: int) -> Iterator[None]:
    """Services that are linked until the end."""
    is_linked = threading.Event()
    with socket.create_connection(("127.0.0.1", port)) as link:
        thread = threading.Thread(target=_serve, args=(link, is_linked), daemon=True)
        thread.start()
        assert is_linked.wait(30)
        try:
            yield
        finally:
            link.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def _serve(link: socket.socket, is_linked: threading.Event) -> None:
    def send(*lines: str) -> None:
        link.sendall("".join(f"{line}\r\n" for line in lines).encode())

    send(
        "CAPAB START 1205", "CAPAB CAPABILITIES :PROTOCOL=1205 CASEMAPPING=ascii", "CAPAB END",
        f"SERVER {NAME} {LINK_PASSWORD} 0 {_ID} :accounts",
    )  # fmt: skip
    with contextlib.suppress(OSError):
        for line in link.makefile():
            words = line.split()
            if words[0] == "ERROR":
                raise AssertionError(line)
            if words[0] == "SERVER":
                send(f":{_ID} BURST {int(time.time())}", f":{_ID} ENDBURST")
            elif words[1:2] == ["ENDBURST"]:
                is_linked.set()
            elif words[1:2] == ["PING"]:
                send(f":{_ID} PONG {words[0][1:]}")
            elif words[1:2] == ["ENCAP"] and words[3] == "SASL":
                send(*_answer(words[0][1:], *words[4:8]))


def _answer(server: str, user: str, agent: str, step: str, data: str = "") -> list[str]:
    said = f":{_ID} ENCAP {server} SASL {_AGENT} {user}"
    if step == "S":
        return [f"{said} C +"]
    if step != "C":
        return []
    _, account, password = base64.b64decode(data).decode().split("\0")
    if password != PASSWORD:
        return [f"{said} D F"]
    return [f":{_ID} METADATA {user} accountname :{account}", f"{said} D S"]
