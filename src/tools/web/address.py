"""Which addresses the web tools may connect to.

A name is resolved once, every address it has is judged, and the connection goes to exactly those
addresses. Nothing resolves the name a second time, so an answer that changes in between is of no
use to anybody. What is not plainly part of the public internet is refused, unless `allow_private`
in the web settings lists the name, the address or its network.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable

from ..base import ToolError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Turns a name and a port into addresses; raises OSError when there are none."""

_NUMERIC_HOST = re.compile(r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+)){0,3}\.?", re.IGNORECASE)

# Repeated here because `is_global` differs between versions of Python.
_NEVER_PUBLIC = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # answers virtual machines at one provider, like 169.254.169.254
        "::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20",
        "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
]  # fmt: skip


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, also the IPv4 address inside an IPv6 one."""
    inner = _embedded(address)
    if inner is not None:
        return is_public(inner)
    if any(address.version == network.version and address in network for network in _NEVER_PUBLIC):
        return False
    return address.is_global and not address.is_multicast


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a mapped, 6to4 or NAT64 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


class AllowedPrivate:
    """The names, addresses and networks beyond the public internet that may be reached, and the
    sites that may not."""

    def __init__(self, entries: Iterable[str] = (), blocked: Iterable[str] = ()) -> None:
        self._blocked = {
            str(name).strip().lower().removeprefix("*.").strip(".")
            for name in ([blocked] if isinstance(blocked, str) else blocked)
        } - {""}
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in [entries] if isinstance(entries, str) else entries:
            try:
                self._networks.append(ipaddress.ip_network(str(entry).strip("[]"), strict=False))
            except ValueError:
                self._names.add(str(entry).lower().rstrip("."))

    def blocks(self, host: str) -> bool:
        """Whether a host, or a domain above it, was listed as one that is not read."""
        labels = host.lower().strip(".").split(".")
        return any(".".join(labels[start:]) in self._blocked for start in range(len(labels)))

    def permits(self, host: str, address: Address) -> bool:
        """Whether this address, found under this name, was listed."""
        if host.lower().rstrip(".") in self._names:
            return True
        return any(address in network for network in self._networks)


async def checked_addresses(
    host: str, port: int, allowed: AllowedPrivate, resolve: Resolver
) -> list[str]:
    """The addresses a host has, all of them permitted; ToolError if there is any that is not."""
    if allowed.blocks(host):
        raise ToolError(f"{host} is listed under web.blocked in the settings, so it is not read.")
    literal = literal_address(host)
    if literal is not None:
        resolved = [str(literal)]
    else:
        try:
            resolved = await resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ToolError(
                f"The name {host} cannot be resolved: {error}. Check the URL."
            ) from None
    addresses = []
    for text in dict.fromkeys(resolved):
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_public(address) and not allowed.permits(host, address):
            raise ToolError(
                f"{host} is at {address}, which is not a public address, so it was not contacted. "
                "If the user wants this, they can list it under web.allow_private in the settings."
            )
        addresses.append(str(address))
    if not addresses:
        raise ToolError(f"The name {host} has no address. Check the URL.")
    return addresses


def literal_address(host: str) -> Address | None:
    """The address a host spells out, in any way that the system's resolver would understand."""
    host = host.strip("[]")
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    if _NUMERIC_HOST.fullmatch(host):
        # 2130706433, 0x7f.1 and 0177.0.0.1 are all 127.0.0.1 to inet_aton.
        with contextlib.suppress(OSError):
            return ipaddress.IPv4Address(socket.inet_aton(host.rstrip(".")))
    return None


async def system_resolver(host: str, port: int) -> list[str]:
    """Ask the system; in a daemon thread, so that a dead name server cannot hold anybody up."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(resolved: list[str], error: OSError | UnicodeError | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(resolved)
        else:
            answer.set_exception(error)

    def ask() -> None:
        resolved: list[str] = []
        failure: OSError | UnicodeError | None = None
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            resolved = [str(info[4][0]) for info in infos]
        except (OSError, UnicodeError) as error:
            failure = error
        # The loop may be closed by now: then nobody is waiting.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, resolved, failure)

    threading.Thread(target=ask, name="hermes-resolve", daemon=True).start()
    return await answer
