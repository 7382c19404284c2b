"""The address of a store on a server: what it names, and how it may be shown.

Taken apart as libpq does it, so that nothing of a password is ever taken for a host.
"""

from __future__ import annotations

import re

SCHEMES = ("postgresql://", "postgres://")
_HOST = re.compile(r"(?:[^\s:/@\[\]]*|\[[0-9A-Fa-f:.%]+\])(?::[0-9]*)?")


def is_server(address: object) -> bool:
    """Whether an address names a server, not a file."""
    return isinstance(address, str) and address.startswith(SCHEMES)


def _parts(address: str) -> tuple[str, str, str, str]:
    """User and password, hosts, database, and the settings behind the question mark."""
    rest = address.partition("://")[2]
    stop = re.search(r"[@/]", rest)
    user = ""
    if stop is not None and stop[0] == "@":
        user, rest = rest[: stop.start()], rest[stop.end() :]
    head, _, settings = rest.partition("?")
    hosts, _, database = head.partition("/")
    return user, hosts, database, settings


def shown(address: str) -> str:
    """The address without user and password, for people and logs."""
    _, hosts, database, settings = _parts(address)
    if not _are_hosts(hosts) or "@" in database:
        return "postgresql://…"  # written wrongly: a part of the password may be where a host is
    from urllib.parse import parse_qsl

    given = dict(parse_qsl(settings))
    return f"postgresql://{given.get('host') or hosts or 'localhost'}/{database}"


def _are_hosts(hosts: str) -> bool:
    return all(_HOST.fullmatch(host) for host in hosts.split(","))


def problem_of(address: str) -> str:
    """What is wrong with how an address is written; empty if nothing is."""
    _, hosts, database, _ = _parts(address)
    if not is_server(address):
        return "it must begin with postgresql://"
    if not _are_hosts(hosts) or "@" in database:
        return (
            "a part of it is no host. In a user or password write @ as %40, : as %3A, / as %2F and"
            " % as %25"
        )
    return ""


def password_of(address: str) -> str:
    """The password in an address as it is written there; empty if there is none."""
    user, _, _, settings = _parts(address)
    raw = re.search(r"(?:^|&)password=([^&]*)", settings)
    return user.partition(":")[2] or (raw[1] if raw else "")


def passwords_of(address: str) -> tuple[str, ...]:
    """Every form of the password in an address, to be kept out of what is shown."""
    from urllib.parse import unquote

    raw = password_of(address)
    return tuple({raw, unquote(raw)} - {""})


def with_password_from(address: str, name: str) -> str:
    """The address with a reference to a variable in the place of its password."""
    scheme, _, rest = address.partition("://")
    user = _parts(address)[0]
    who, _, password = user.partition(":")
    if password:
        return f"{scheme}://{who}:${{{name}}}{rest[len(user) :]}"
    head, _, settings = rest.partition("?")
    changed = re.sub(r"(^|&)password=[^&]*", rf"\1password=${{{name}}}", settings, count=1)
    return f"{scheme}://{head}?{changed}"


def add_password(address: str, password: str) -> str:
    """An address without a password, with one."""
    from urllib.parse import quote

    mark = "&" if "?" in address else "?"
    return f"{address}{mark}password={quote(password, safe='')}"
