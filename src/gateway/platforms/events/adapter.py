"""Signed webhooks out: programs are told what has happened, once for each event.

Each is posted until the other side takes it (2xx), with growing pauses, always under the same
`webhook-id`; it is signed as standardwebhooks.com says. The answer of a job that goes to
`events:NAME` is posted in the same way, as an event of the type `message`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_base.certificates import certificates
from hermes_base.redaction import register_secret
from hermes_base.version import __version__

from ...config import Platform, PlatformConfig
from ..base import AdapterHost, Button, OnMessage, PlatformAdapter, SendError
from ..webhook.signing import sign
from .hooks import Hook, read_hooks
from .manifest import MANIFEST

if TYPE_CHECKING:
    import httpx

SECONDS = 20.0
"""How long the other side may take."""
GONE = 410
"""The answer by which the other side says that it wants no more."""


class EventsAdapter(PlatformAdapter):
    """Posts events; takes nothing in."""

    platform = Platform.of("events")
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self._hooks: dict[str, Hook] = {}
        self._client: httpx.AsyncClient | None = None

    async def connect(self) -> None:
        """Be ready to post; raises HookError if the configuration cannot be used."""
        import httpx

        self._hooks = read_hooks(self.config.extra.get("hooks"))
        for hook in self._hooks.values():
            register_secret(hook.secret)
        self._client = httpx.AsyncClient(verify=certificates(), timeout=SECONDS)

    async def run(self) -> None:
        """Nothing comes in."""
        await asyncio.Event().wait()

    async def disconnect(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(
        self,
        chat_id: str,
        text: str,
        *,
        thread_id: str | None = None,
        reply_to: str | None = None,
        buttons: Sequence[Button] = (),
        key: str | None = None,
    ) -> str | None:
        """Post an event to the hook of that name."""
        import httpx

        hook, client = self._hooks.get(chat_id), self._client
        if hook is None:
            raise SendError(f"There is no hook {chat_id} any more.", permanent=True)
        if client is None:
            raise SendError("Outgoing webhooks are not connected.")
        event_id, body = _event(text, key)
        moment = int(time.time())
        headers = {
            "content-type": "application/json", "user-agent": f"hermes/{__version__}",
            "webhook-id": event_id, "webhook-timestamp": str(moment),
            "webhook-signature": sign(hook.secret, event_id, moment, body),
        }  # fmt: skip
        try:
            response = await client.post(hook.url, content=body, headers=headers)
        except httpx.HTTPError as error:
            # Its id is the same when it is sent again, so it need not be known whether it arrived.
            raise SendError(f"{hook.name}: {type(error).__name__}") from error
        if response.is_success:
            return event_id
        raise SendError(
            f"{hook.name} answered {response.status_code}",
            permanent=response.status_code == GONE,
            retry_after=_seconds(response.headers.get("retry-after")),
        )


def _event(text: str, key: str | None) -> tuple[str, bytes]:
    """The id and the body of what is sent under a key: an event, or a text as one."""
    name = (key or "").rpartition(":")[0]
    if name.startswith("say:event:"):
        return str(json.loads(text)["id"]), text.encode()
    event_id = name.removeprefix("say:") or f"message:{time.time_ns()}"
    event = {"type": "message", "id": event_id, "timestamp": time.time(), "data": {"text": text}}
    return event_id, json.dumps(event, ensure_ascii=False).encode()


def _seconds(given: str | None) -> float | None:
    return float(given) if given and given.isdecimal() and len(given) < 6 else None
