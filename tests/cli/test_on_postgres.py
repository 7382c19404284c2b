"""Some of the terminal's tests with their stores on PostgreSQL.

All of them: `HERMES_TEST_STORE=postgres make test ARGS=tests/cli`.
"""

from __future__ import annotations

import pytest

from .test_chat_commands import (
    screen,
    test_a_title_before_the_first_message_and_resuming_by_it,
)
from .test_chat_recovery import (
    cut_off,
    terminal,
    test_a_command_that_ran_is_not_run_again,
    test_one_that_is_not_gone_on_with_is_closed_and_said,
)

__all__ = [
    "cut_off",
    "screen",
    "terminal",
    "test_a_command_that_ran_is_not_run_again",
    "test_a_title_before_the_first_message_and_resuming_by_it",
    "test_one_that_is_not_gone_on_with_is_closed_and_said",
]

pytestmark = pytest.mark.postgres
