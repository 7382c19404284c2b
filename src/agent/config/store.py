"""Where conversations are kept: the keys `store` and `store_connections`, and HERMES_STORE.

`agent.store` reads these without the rest of the configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.config.schema import FILE_STORE, Limits, ObjectSettings, StoreSettings
from agent.config.values import Findings, convert, read_section
from agent.home import ConfigError
from hermes_base.redaction import register_secret
from hermes_state.address import add_password, is_server, password_of, passwords_of, problem_of

if TYPE_CHECKING:
    from hermes_state import BucketSettings

VARIABLE = "HERMES_STORE"
"""Wins over `store`."""
PASSWORD_VARIABLE = "PGPASSWORD"

KEY_VARIABLES = {
    "access_key": "HERMES_OBJECTS_ACCESS_KEY",
    "secret_key": "HERMES_OBJECTS_SECRET_KEY",
}
"""Where the keys of a bucket are looked for, if they are not in the file."""

WANTED = "file, or an address that begins with postgresql://"


def read_store(raw: Mapping[str, Any], findings: Findings) -> StoreSettings:
    """The settings from what is in the file, with the environment above it."""
    given = {**raw, "store": findings.environ.get(VARIABLE) or raw.get("store")}
    chosen: dict[str, Any] = {}
    for item in fields(StoreSettings):
        if given.get(item.name) is None:
            continue
        limits: Limits = item.metadata["limits"]
        value = convert(item.name, given[item.name], str(item.type), limits, findings)
        if value is not None:
            chosen[item.name] = value
    settings = StoreSettings(**chosen)
    if settings.store in FILE_STORE:
        return replace(settings, store="")
    for password in passwords_of(settings.store):
        register_secret(password)
    problem = problem_of(settings.store)
    if problem:
        findings.problems.append(
            f"{findings.path}: store ({VARIABLE}) cannot be used: {problem}. It must be {WANTED}."
        )
        return replace(settings, store="")
    return settings


def store_settings(home: Path, environ: Mapping[str, str] | None = None) -> StoreSettings:
    """The settings of a home; raises ConfigError if they cannot be read or used.

    Falling back to a file because the configuration is broken would hide everything that was said.
    """
    environ = os.environ if environ is None else environ
    from agent.config import read_yaml
    from agent.config.env import load_dotenv

    path = home / "config.yaml"
    dotenv, _ = load_dotenv(home / ".env")
    findings = Findings(str(path), {**dotenv, **environ})
    settings = read_store(read_yaml(path), findings)
    if findings.problems:
        raise ConfigError("\n".join(findings.problems))
    return settings


def bucket_settings(home: Path, environ: Mapping[str, str]) -> BucketSettings | None:
    """The bucket that objects are kept in, by the settings of a home; None if there is none.

    Raises ConfigError if it cannot be used.
    """
    from agent.config import read_yaml
    from agent.config.env import load_dotenv

    path = home / "config.yaml"
    dotenv, _ = load_dotenv(home / ".env")
    findings = Findings(str(path), {**dotenv, **environ})
    raw = read_yaml(path).get("store_objects")
    bucket = _bucket_of(read_section(ObjectSettings, "store_objects", raw, findings), findings)
    if findings.problems:
        raise ConfigError("\n".join(findings.problems))
    return bucket


def _bucket_of(settings: ObjectSettings, findings: Findings) -> BucketSettings | None:
    """A bucket, if one is named: also where new files are put into the database, since files may be
    in it from before."""
    keys = {
        name: getattr(settings, name) or findings.environ.get(variable, "")
        for name, variable in KEY_VARIABLES.items()
    }
    for key in keys.values():
        register_secret(key)
    wanted = {"endpoint": settings.endpoint, "bucket": settings.bucket, **keys}
    missing = [name for name, value in wanted.items() if not value]
    if settings.place == "s3" and missing:
        findings.problems.append(
            f"{findings.path}: store_objects.place is s3, and store_objects."
            f"{', store_objects.'.join(missing)} is missing."
        )
    address = urlsplit(settings.endpoint)
    if settings.endpoint and (address.scheme not in ("http", "https") or "@" in address.netloc):
        findings.problems.append(
            f"{findings.path}: store_objects.endpoint must begin with https:// (or http://), and"
            " hold no key."
        )
        return None
    if missing:
        return None
    from hermes_state import BucketSettings  # with what reads and writes the store

    return BucketSettings(
        settings.endpoint, settings.bucket, settings.region, settings.prefix,
        is_used=settings.place == "s3", **keys,
    )  # fmt: skip


def address_of(settings: StoreSettings, home: Path, environ: Mapping[str, str]) -> str:
    """The server's address; with a password from `.env`, which libpq does not read."""
    address = settings.store
    if not is_server(address) or password_of(address) or PASSWORD_VARIABLE in environ:
        return address
    from agent.config.env import load_dotenv

    password = load_dotenv(home / ".env")[0].get(PASSWORD_VARIABLE)
    if not password:
        return address
    register_secret(password)
    return add_password(address, password)
