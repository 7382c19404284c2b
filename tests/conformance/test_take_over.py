"""Take-over: the turn of a process that died is finished by exactly one other. Not promised yet.

Today a turn belongs to the process that began it. When that dies, the turn is closed as cut off by
the next turn or start, its finished results are kept, and the user asks again. With a lease on each
turn the following will be asked for: of eight processes that find the dead one's turn, one takes it
over; results that are stored are used; an effectful call that had started is reported unknown; the
user gets one answer; and the first owner, woken up late, can write nothing.
"""

from __future__ import annotations

import pytest


@pytest.mark.skip(reason="turns have no lease yet: a cut-off turn is closed, not taken over")
def test_take_over() -> None:
    raise NotImplementedError("to be written with the lease")
