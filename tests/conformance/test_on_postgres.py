"""Some of the suite with stores on PostgreSQL, whose connections and server are killed as well.

All of it: `HERMES_TEST_STORE=postgres make conformance`.
"""

from __future__ import annotations

import pytest

from .test_effects_exactly_once import test_effects_exactly_once
from .test_recovery_determinism import test_recovery_determinism

__all__ = [
    "test_effects_exactly_once",
    "test_recovery_determinism",
]

pytestmark = pytest.mark.postgres
