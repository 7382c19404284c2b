"""What every route needs: who asks, which conversation it is about, and how a turn is run there.

A conversation belongs to the owner of the key it was begun with; to everybody else it does not
exist. It is named by the id of any of its sessions, or by a key of the client's own choosing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from starlette.requests import Request as HttpRequest

from agent.outcome import TurnOutcome
from conversation.stored_turns import stored_outcome
from gateway.config import Platform
from gateway.requests import (
    AlreadyAskedError,
    Request,
    StoppingError,
    TooManyWaitingError,
    conversation_key,
)
from gateway.session import SessionSource
from gateway.session_store import new_gateway_session_id
from hermes_state import Person, PersonView, StoreError, is_owned

from .auth import Keys
from .errors import ApiError
from .names import marked_id, shown_id
from .reading import (
    BUSY_HEADER,
    IDEMPOTENCY_HEADER,
    KEY_HEADER,
    MAX_BODY,
    SESSION_HEADER,
    busy_mode,
    header,
    read_json,
    session_name,
)

if TYPE_CHECKING:
    from agent.access import Access
    from agent.events import Watcher
    from hermes_state import SessionDB
    from tools.base import Mode

    from ..request_host import RequestHost

P = ParamSpec("P")
R = TypeVar("R")

ON_DISCONNECT_HEADER = "X-Hermes-On-Disconnect"
_UNSAFE = re.compile(r"[^\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request's message goes."""

    owner: str
    session_id: str
    conversation_id: str
    is_new: bool
    client_key: str | None = None

    @property
    def key(self) -> str:
        """The key of the conversation."""
        return conversation_key(self.owner, self.conversation_id)

    @property
    def shown_id(self) -> str:
        """The session's id as the client is shown it."""
        return shown_id(self.owner, self.session_id)

    @property
    def headers(self) -> dict[str, str]:
        """What the client is told about it."""
        headers = {SESSION_HEADER: self.shown_id}
        if self.client_key is not None:
            headers[KEY_HEADER] = self.client_key
        return headers


class Api:
    """The server's state, shared by its routes."""

    def __init__(self, host: RequestHost, keys: Keys, max_body: int = MAX_BODY) -> None:
        self.host = host
        self.keys = keys
        self.max_body = max_body
        self.store = host.store
        self.requests = host.queue
        self._sources: dict[str, SessionSource] = {}

    @property
    def db(self) -> SessionDB:
        """The store, for short reads."""
        return self.store.sync

    async def at_hand(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """A function that reads the store: here and now with a file, in a thread with a server."""
        return await self.store.at_hand(function, *args, **kwargs)

    async def change(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """A function that writes to the store, in a thread."""
        return await asyncio.to_thread(function, *args, **kwargs)

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return self.host.settings.model.name or "hermes"

    async def body(self, request: HttpRequest) -> dict[str, Any]:
        """The request's JSON object."""
        return await read_json(request, self.max_body)

    # Whose

    async def identify(self, owner: str) -> None:
        """Look up whose key `owner` is; at the beginning of each request, since it may change."""
        source = SessionSource(
            Platform.API_SERVER, owner, user_id=owner, user_name=owner, role_authorized=True
        )
        try:
            await self.host.identify(source)
        except StoreError as error:
            raise ApiError(503, f"The store cannot be used: {error}", code="store_error") from error
        self._sources[owner] = source

    def person(self, owner: str) -> Person:
        """Whose key this is."""
        person = self._sources[owner].person
        assert person is not None
        return person

    def access(self, owner: str, key: str | None = None) -> Access:
        """What may be used with a key, in the conversation of that session key."""
        source = self._sources[owner]
        return self.host.access(source, key or conversation_key(owner, ""))

    def require(self, owner: str, command: str) -> None:
        """Return if whoever has the key may use what a command does; ApiError if not."""
        if refusal := self.access(owner).why_no_command(command):
            raise ApiError(403, refusal, code="not_allowed")

    def view(self, owner: str) -> PersonView:
        """What may be shown with a key: its person's."""
        return self.db.view(self.person(owner).id)

    def own_id(self, owner: str, name: str) -> str:
        """The id of the owner's session that a client names, whether or not there is one yet."""
        return self._own(owner, name)[0]

    def _own(self, owner: str, name: str) -> tuple[str, dict[str, Any] | None]:
        """The same, and the session's row if there is one."""
        row = self.db.get_session(name)
        if row is not None and is_owned(row, self.person(owner).id):
            return name, row
        marked = marked_id(owner, name)
        marked_row = self.db.get_session(marked)
        return (name, None) if row is None and marked_row is None else (marked, marked_row)

    def owned(self, owner: str, session_id: str) -> dict[str, Any]:
        """A session's row; one of somebody else is as unknown as one that does not exist."""
        row = self.view(owner).session(session_id)
        if row is None:
            raise unknown_session(shown_id(owner, session_id))
        return row

    def place(self, http: HttpRequest, owner: str, session_id: str | None = None) -> Place:
        """The conversation a request is about, by its headers (or `session_id`); or a new one."""
        client_key = header(http, KEY_HEADER)
        named = session_id or http.headers.get(SESSION_HEADER, "").strip()
        if named:
            own = session_id or session_name(named)
            return self._placed(owner, *self._own(owner, own), client_key)
        if client_key is not None:
            source = SessionSource(
                Platform.API_SERVER, owner, user_id=owner, thread_id=f"key={client_key}"
            )
            return self.named(owner, self.host.session_for(source), client_key)
        once = header(http, IDEMPOTENCY_HEADER)
        new_id = new_gateway_session_id() if once is None else _id_for(owner, once)
        return self.named(owner, new_id) if once else Place(owner, new_id, new_id, True)

    def named(self, owner: str, session_id: str, client_key: str | None = None) -> Place:
        """The conversation that a session belongs to; a new one if there is no such session."""
        return self._placed(owner, session_id, self.db.get_session(session_id), client_key)

    def _placed(
        self, owner: str, session_id: str, row: dict[str, Any] | None, client_key: str | None
    ) -> Place:
        if row is None:
            return Place(owner, session_id, session_id, True, client_key)
        if not is_owned(row, self.person(owner).id):
            raise unknown_session(shown_id(owner, session_id))
        tip = session_id
        if row["end_reason"] == "compression":
            tip = self.view(owner).tip(session_id)
        is_new = not row["message_count"] and tip == session_id
        return Place(owner, tip, row["conversation_id"] or session_id, is_new, client_key)

    # Turns

    def request(
        self,
        http: HttpRequest,
        place: Place,
        content: Any,
        history: list[dict[str, Any]] | None = None,
        instructions: str = "",
        mode: Mode | None = None,
    ) -> Request:
        """The message, ready to be asked."""
        source, access = self._sources[place.owner], self.access(place.owner, place.key)
        if mode is not None and (refusal := access.why_no_mode(mode)):
            raise ApiError(403, refusal, code="mode_not_allowed", param="mode")
        once = header(http, IDEMPOTENCY_HEADER)
        return Request(
            f"{Platform.API_SERVER.value}:{place.owner}:{once or os.urandom(12).hex()}",
            place.owner,
            place.session_id,
            place.conversation_id,
            content,
            (history or []) if place.is_new else [],
            instructions,
            once,
            busy_mode=busy_mode(header(http, BUSY_HEADER)),
            mode=mode,
            person=source.person,
            doors=source.doors,
        )

    async def ask(
        self,
        http: HttpRequest,
        request: Request,
        watch: Watcher | None = None,
        on_accepted: Callable[[], None] | None = None,
    ) -> TurnOutcome:
        """Run the message's turn; what was answered before is answered the same. ApiError."""
        if not await self.host.passes_hooks(request):
            raise ApiError(403, "A plugin left this message out.", code="left_out")
        watcher = self._stop_when_gone(http, request)
        try:
            return await self.requests.ask(request, watch, on_accepted=on_accepted)
        except AlreadyAskedError:
            name = str(request.message_id)
            return await self.at_hand(self.earlier, request.session_id, name)
        except TooManyWaitingError as error:
            raise ApiError(
                429, str(error), code="conversation_busy", headers={"Retry-After": "5"}
            ) from error
        except StoppingError as error:
            raise ApiError(503, str(error), code="stopping") from error
        except StoreError as error:
            raise ApiError(503, f"It could not be stored: {error}", code="store_error") from error
        finally:
            if watcher is not None:
                watcher.cancel()

    def _stop_when_gone(self, http: HttpRequest, request: Request) -> asyncio.Task[None] | None:
        if http.headers.get(ON_DISCONNECT_HEADER, "").lower() != "stop":
            return None

        async def watch() -> None:
            while (await http.receive())["type"] != "http.disconnect":
                pass
            if self.requests.is_open(request.id):
                self.interrupt(request.key)

        return asyncio.ensure_future(watch())

    def interrupt(self, key: str) -> bool:
        """Stop the turn that runs in a conversation; False if none does."""
        agent = self.host.running_agent(key)
        interrupt = getattr(agent, "interrupt", None)
        return bool(interrupt is not None and interrupt())

    def earlier(self, session_id: str, message_id: str) -> TurnOutcome:
        """The outcome of a message that was answered before, from the store; ApiError if none."""
        outcome = stored_outcome(self.db, session_id, message_id)
        if outcome is None:
            raise ApiError(
                409,
                "A request with this name was accepted before and has no answer (yet). Look into"
                " the session, or send it under another name.",
                code="already_accepted",
                headers={"Retry-After": "5", "x-should-retry": "false"},
            )
        return outcome


def unknown_session(session_id: str) -> ApiError:
    """What is said about a session that is not there, or somebody else's."""
    return ApiError(404, f"There is no session {session_id}.", code="session_not_found")


def header_text(text: str, limit: int = 200) -> str:
    """A text as it may stand in a header."""
    from hermes_base.redaction import redact

    return _UNSAFE.sub(" ", redact(text))[:limit].strip()


def _id_for(owner: str, once: str) -> str:
    """The same new session for the same request, however often it is sent."""
    return f"api_{hashlib.sha256((owner + chr(0) + once).encode()).hexdigest()[:24]}"
