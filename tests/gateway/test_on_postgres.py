"""Some of the gateway's tests with their stores on PostgreSQL, where nothing may wait on the loop.

All of them: `HERMES_TEST_STORE=postgres make test ARGS=tests/gateway`.
"""

from __future__ import annotations

import pytest

from .test_api_chat import test_the_header_keeps_a_conversation
from .test_chat_commands import test_another_gateway_knows_what_was_set_in_a_chat
from .test_gateway_turns import (
    test_a_further_message_interrupts,
    test_a_message_that_is_delivered_again_does_nothing,
    test_a_question_is_answered_and_everything_is_stored,
)
from .test_links import (
    test_linked_chats_follow_a_compression_together,
    test_nobody_gets_in_without_the_code,
    test_two_chats_are_in_one_conversation_and_see_each_other,
)
from .test_take_over import test_a_gateway_that_runs_takes_over_too

__all__ = [
    "test_a_further_message_interrupts",
    "test_a_gateway_that_runs_takes_over_too",
    "test_a_message_that_is_delivered_again_does_nothing",
    "test_a_question_is_answered_and_everything_is_stored",
    "test_another_gateway_knows_what_was_set_in_a_chat",
    "test_linked_chats_follow_a_compression_together",
    "test_nobody_gets_in_without_the_code",
    "test_the_header_keeps_a_conversation",
    "test_two_chats_are_in_one_conversation_and_see_each_other",
]

pytestmark = pytest.mark.postgres
