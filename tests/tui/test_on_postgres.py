"""Some of the session server's tests with their stores on PostgreSQL.

All of them: `HERMES_TEST_STORE=postgres make test ARGS=tests/tui`.
"""

from __future__ import annotations

import pytest

from .test_server_life import (
    home,
    provider,
    test_a_prompt_is_answered_and_the_title_is_set,
    test_what_a_killed_run_left_is_ended_at_the_next_start,
)

__all__ = [
    "home",
    "provider",
    "test_a_prompt_is_answered_and_the_title_is_set",
    "test_what_a_killed_run_left_is_ended_at_the_next_start",
]

pytestmark = pytest.mark.postgres
