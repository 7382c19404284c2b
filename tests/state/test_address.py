"""Addresses of servers: taken apart as libpq does it, shown without what is secret."""

from __future__ import annotations

import pytest

from hermes_state.address import (
    add_password,
    password_of,
    passwords_of,
    problem_of,
    shown,
    with_password_from,
)

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize(
    ("address", "seen", "password"),
    [
        ("postgresql://me:word@host/db", "postgresql://host/db", "word"),
        ("postgres://me:word@host:5432/db?sslmode=require", "postgresql://host:5432/db", "word"),
        ("postgresql://me:w@a:1,b:2/db", "postgresql://a:1,b:2/db", "w"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db", ""),
        ("postgresql:///db?host=%2Frun%2Fpg&password=w", "postgresql:///run/pg/db", "w"),
        ("postgresql://me:12?3@host/db", "postgresql://host/db", "12?3"),
        ("postgresql://same:same@host/db", "postgresql://host/db", "same"),
        ("postgresql://host", "postgresql://host/", ""),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, seen: str, password: str) -> None:
    assert shown(address) == seen
    assert password_of(address) == password
    assert problem_of(address) == ""
    if password:
        referring = with_password_from(address, "NAME")
        assert "${NAME}" in referring
        assert referring.replace("${NAME}", password) == address


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:se/cret@host/db",
        "postgresql://me:se@cret@host/db",
        "postgresql://me:secret@ho:st/db",
        "postgresql://me:se:cret/x@host/db",
    ],
)
def test_an_address_that_is_written_wrongly_shows_nothing(address: str) -> None:
    assert shown(address) == "postgresql://…"
    assert "%40" in problem_of(address)


def test_every_form_of_a_password_is_known() -> None:
    assert set(passwords_of("postgresql://me:a%2Fb@host/db")) == {"a%2Fb", "a/b"}
    assert passwords_of("postgresql://me@host/db") == ()
    added = add_password("postgresql://me@host/db", "a/b&c")
    assert added == "postgresql://me@host/db?password=a%2Fb%26c"
    assert password_of(add_password("postgresql://h/db?x=1", "w")) == "w"
