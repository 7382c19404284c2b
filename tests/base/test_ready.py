"""Waiting until a descriptor can be read."""

from __future__ import annotations

import fcntl
import os
import resource

import pytest

from hermes_base.ready import wait_readable


def test_what_can_be_read_is_told() -> None:
    first, second = os.pipe(), os.pipe()
    try:
        assert wait_readable([first[0], second[0]], 0) == set()
        os.write(second[1], b"x")
        assert wait_readable([first[0], second[0]]) == {second[0]}
        os.close(first[1])
        assert wait_readable([first[0], second[0]]) == {first[0], second[0]}
    finally:
        for descriptor in (first[0], *second):
            os.close(descriptor)


def test_a_descriptor_that_select_refuses() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 2000:
        pytest.skip("needs 2,000 open files: ulimit -n 4096")
    readable, writable = os.pipe()
    high = fcntl.fcntl(readable, fcntl.F_DUPFD, 1500)
    try:
        os.write(writable, b"x")
        assert wait_readable([high], 0) == {high}
    finally:
        for descriptor in (readable, writable, high):
            os.close(descriptor)
