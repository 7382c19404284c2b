"""The last look at a platform's lease: in the HTTP client, right before bytes go out.

What an adapter does is fenced before it is called (`gateway.fencing`). Between that and the network
it may wait: for a place among the connections, for a name to be resolved, for a handshake. A
gateway may lose the platform meanwhile, by a pause or by being cut off from the store, so an
adapter whose platform would show a message twice has its client look again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

LOST = "another replica may hold this platform by now"
_WRITES = ("send_request_headers.started", "send_request_body.started")
"""What httpcore calls the moments before it writes, behind the version of the protocol."""

_fence: ContextVar[Callable[[], bool] | None] = ContextVar("fence of a platform", default=None)


@contextlib.contextmanager
def fenced_by(is_sure: Callable[[], bool]) -> Iterator[None]:
    """Let everything that is sent within the block be sent only while `is_sure` says so."""
    token = _fence.set(is_sure)
    try:
        yield
    finally:
        _fence.reset(token)


def is_lost() -> bool:
    """Whether what is being sent is no longer certainly ours to send."""
    is_sure = _fence.get()
    return is_sure is not None and not is_sure()


async def look_before_sending(request: httpx.Request) -> None:
    """A hook of an httpx client, for "request": raises httpx.WriteError instead of writing under a
    lease that may be lost. A request whose head was written is not finished, so nothing is done."""
    is_sure = _fence.get()
    if is_sure is None:
        return
    import httpx

    async def look(moment: str, info: dict[str, Any]) -> None:
        if moment.endswith(_WRITES) and not is_sure():
            raise httpx.WriteError(LOST, request=request)

    request.extensions = {**request.extensions, "trace": look}
