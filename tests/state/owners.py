"""Processes of other machines, for tests: what an owner is called there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from hermes_base import process


def owner(name: str) -> str:
    """The name of a process on a machine of its own, which nobody here can see."""
    return f"machine-{name}|boot-{name}|pid:[1]|100|1"


@contextlib.contextmanager
def acting_as(name: str) -> Iterator[str]:
    """What this process writes meanwhile is written by another, on a machine of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_name_of", lambda pid: owner(name))
        yield owner(name)
