"""What all models behind HTTP share: asking, reading events, and insisting on a whole reply.

A provider adds two pure things: `_payload` (a request in its words) and a reply reader (its events
to chunks). Neither does any input or output, so both can be tested with plain values.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from agent.model import Chunk, ModelRequest
from agent.providers import failures
from agent.providers.http import HttpPeer
from agent.providers.known import needs_key
from agent.providers.sse import SseDecoder

DEFAULT_TIMEOUT = 120.0
"""Seconds a provider may be silent within a reply."""


class ReportedFailure(Exception):
    """The provider reports a failure inside its stream; `event` is what it sent."""

    def __init__(self, event: Any) -> None:
        super().__init__("the provider reported a failure")
        self.event = event


class IncompleteReply(ValueError):
    """The reply is not what the protocol says; the message says what is missing."""


class ReplyReader(Protocol):
    """Turns the events of one reply into chunks."""

    done: bool
    """Set once the event that ends a reply has been read."""

    def feed(self, event: dict[str, Any]) -> Sequence[Chunk]:
        """The chunks one event brings; raises ReportedFailure if it reports one."""
        ...

    def finish(self) -> Sequence[Chunk]:
        """The last chunks, ending with Finished; raises IncompleteReply if the reply is cut."""
        ...


class HttpModel:
    """A model behind HTTP. Subclasses say what is sent where, and how the reply is read."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        provider: str,
        api_key: str = "",
        context_length: int = 128_000,
        timeout: float = DEFAULT_TIMEOUT,
        headers: Mapping[str, str] | None = None,
        max_output_tokens: int | None = None,
        vision: bool = True,
        reasoning: bool = False,
    ) -> None:
        """`vision` and `reasoning` say what the model can do, `max_output_tokens` how much it can
        say at once; `headers` are sent with every request."""
        api_key = api_key.strip()
        self.name = name
        self.provider = provider
        self.context_length = context_length
        self._max_output_tokens = max_output_tokens
        self._vision = vision
        self._reasoning = reasoning
        self._http = HttpPeer(
            provider=provider,
            model=name,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            headers={**self._authorization(api_key), **(headers or {})},
        )
        self.base_url = self._http.base_url

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Ask, and yield chunks as they come; raises a ModelError on failure."""
        peer = self._http.peer
        if not peer.api_key and needs_key(self.provider, self.base_url):
            raise failures.key_unusable(peer, "There is no API key")
        if not (peer.api_key.isascii() and peer.api_key.isprintable()):
            raise failures.key_unusable(peer, "The API key has characters that no key has")
        reader = self._reader()
        decoder = SseDecoder()
        feed, loads = reader.feed, json.loads
        async with self._http.post(self._path(), self._payload(request)) as received:
            async for piece in received:
                try:
                    events = decoder.feed(piece)
                except ValueError as error:
                    raise failures.broken(peer, str(error)) from error
                for data in events:
                    if data == b"[DONE]":
                        reader.done = True
                        break
                    try:
                        # Events are UTF-8; left to find that out, it would look at each.
                        chunks = feed(loads(data.decode("utf-8", "surrogatepass")))
                    except ReportedFailure as failure:
                        raise failures.reported(peer, failure.event) from None
                    except (ValueError, LookupError, TypeError, AttributeError) as error:
                        raise failures.broken(peer, f"{type(error).__name__}: {error}") from error
                    for chunk in chunks:
                        yield chunk
                    if reader.done:
                        break
                if reader.done:
                    break
            try:
                last = reader.finish()
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise failures.broken(peer, str(error)) from error
            for chunk in last:
                yield chunk

    async def aclose(self) -> None:
        """Close this event loop's connections. The model may be used again afterwards."""
        await self._http.aclose()

    def _authorization(self, api_key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {api_key}"} if api_key else {}

    def _path(self) -> str:
        raise NotImplementedError

    def _payload(self, request: ModelRequest) -> dict[str, Any]:
        raise NotImplementedError

    def _reader(self) -> ReplyReader:
        raise NotImplementedError
