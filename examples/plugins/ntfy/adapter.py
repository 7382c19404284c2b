"""ntfy: one stream of all topics in, a request for each text out."""

import asyncio
import json
import re
from pathlib import Path

import httpx

from gateway.config import Platform
from gateway.platforms.base import MessageEvent, PlatformAdapter, SendError
from gateway.platforms.kept import KeptFacts
from gateway.platforms.lanes import hand_in
from gateway.session import SessionSource

OURS = "robot"
"""The tag of everything that we say: our own messages come back in the stream."""
SILENCE_SECONDS = 120
"""A server says something at least every 45 seconds."""
PLACE = "ntfy-place"


class NtfyAdapter(PlatformAdapter):
    """Every topic that the section names, each a direct chat of whoever may write there."""

    platform = Platform.of("ntfy")

    def __init__(self, config, host):
        super().__init__(config, host)
        extra = config.extra
        self._server = str(extra.get("server") or "https://ntfy.sh").rstrip("/")
        topics = extra.get("topics") or ""
        named = topics if isinstance(topics, str) else ",".join(topics)
        self._topics = re.findall(r"[-\w]+", named)
        self._http = None
        self.place = ""

    @property
    def http(self):
        """The connection."""
        if self._http is None:
            raise SendError("ntfy is not connected")
        return self._http

    async def connect(self):
        """Find out whether the server is there."""
        await self.disconnect()
        token = self.config.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.AsyncClient(base_url=self._server, headers=headers, timeout=30)
        try:
            (await self._http.get("/v1/health")).raise_for_status()
        except httpx.HTTPError as error:
            await self.disconnect()
            raise ConnectionError(f"ntfy cannot be reached: {error}") from error

    async def disconnect(self):
        """Free the connection."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def run(self):
        """Read the stream from where it was left: the server keeps what was said for some hours."""
        kept = KeptFacts.of(self.host)
        self.place = str(kept.read(PLACE).get("since", ""))
        since = {"since": self.place} if self.place else {}
        path = f"/{','.join(self._topics)}/json"
        wanted = self.http.stream("GET", path, params=since, timeout=SILENCE_SECONDS)
        try:
            async with wanted as stream:
                stream.raise_for_status()
                async for line in stream.aiter_lines():
                    said = json.loads(line)
                    if said["event"] == "message":
                        await self._take(said)
                        self._keep(kept, said["id"])
                    elif said["event"] == "open" and not self.place:
                        self._keep(kept, str(said["time"]))  # what came before is not for us
        except httpx.HTTPError as error:
            raise ConnectionError(f"ntfy's stream broke: {error}") from error
        raise ConnectionError("ntfy ended the stream")

    def _keep(self, kept, place):
        self.place = place
        kept.write(PLACE, {"since": place})

    async def _take(self, said):
        if OURS in said.get("tags", ()):
            return
        topic, text = said["topic"], said.get("message", "")
        # ntfy does not say who wrote, so the topic is who: all who can write there are one.
        source = SessionSource(self.platform, topic, chat_type="dm", user_id=topic, user_name=topic)
        event = MessageEvent(text, source, message_id=said["id"])
        attached = said.get("attachment")
        if attached and await self.host.is_allowed(source):
            await self._fetch(event, str(attached["name"]), str(attached["url"]))
        await hand_in(self.on_message, event)

    async def _fetch(self, event, name, url):
        # A message may name any address: only the server's own files are fetched.
        if not url.startswith(f"{self._server}/file/"):
            event.text += f"\n[{name}: not on the server, and not fetched]"
            return
        async with self.http.stream("GET", url) as reply:
            if reply.is_error:
                event.text += f"\n[{name}: the server does not have it any more]"
                return
            path = await self.host.keep_file(event.source.chat_id, name, reply.aiter_bytes())
            event.media.append(str(path))

    def measure(self, markdown):
        """ntfy counts bytes."""
        return len(markdown.encode())

    def format(self, markdown):
        """Plain text, and something where nothing is left of it."""
        return super().format(markdown).strip() or "…"

    async def send(self, chat_id, text, *, thread_id=None, reply_to=None, buttons=(), key=None):
        """Publish a text. Raises SendError."""
        message = {"topic": chat_id, "message": text, "tags": [OURS]}
        return await self._publish(chat_id, "/", json=message)

    async def send_media(self, chat_id, path, *, caption="", thread_id=None):
        """Publish a file."""
        params = {"filename": Path(path).name, "tags": OURS, "message": caption}
        data = await asyncio.to_thread(Path(path).read_bytes)
        return await self._publish(chat_id, f"/{chat_id}", content=data, params=params)

    async def _publish(self, topic, path, **what):
        if topic not in self._topics:
            raise SendError(f"{topic} is not among the section's topics", permanent=True)
        try:
            reply = await self.http.put(path, **what)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise SendError(f"ntfy cannot be reached: {error}") from error
        except httpx.HTTPError as error:
            raise SendError(f"the connection to ntfy broke: {error}", unsure=True) from error
        if reply.status_code == httpx.codes.TOO_MANY_REQUESTS:
            wait = float(reply.headers.get("Retry-After", 60))
            raise SendError("ntfy limits how much we say", retry_after=wait)
        if reply.is_error:
            message = f"ntfy refuses: {reply.text[:200]}"
            raise SendError(message, permanent=reply.is_client_error)
        return reply.json()["id"]
