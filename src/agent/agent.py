"""AIAgent: one conversation with one model, kept in the store.

It composes what a turn needs (model, journal, tools, prompt) and offers it to front ends: run a
turn from ordinary code or from a coroutine, interrupt or steer it from any thread.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_base import session_context
from hermes_state import Limit, Owner, SessionDB, at_hand, person_of
from tools.base import Asker, Mode, NobodyToAsk, ToolContext, TurnFacts, Workspace
from tools.memory_scope import MemoryScope, Space, Spaces, may_be_told, written_down
from tools.permissions import EVERYTHING, Permissions
from tools.registry import Registry
from tools.services import Services

from . import asking, running
from .auxiliary import Auxiliary
from .busy_state import BusyState, TurnRunningError
from .call_costs import SpendsFor
from .code_calls import CodeCalls
from .compression.driver import Compressor
from .compression.result import CompressionResult
from .config.schema import CompressionSettings
from .delegation import Delegation
from .events import Event, Watcher, watch_all, watch_text
from .goals import Goals
from .ids import new_session_id
from .journal import Journal, Look
from .learning.learner import OFF, Learner, LearningSettings
from .learning.memory_providers import MemoryProviders
from .loop import Turn
from .model import Message, Model
from .notes import Notes
from .outcome import TurnOutcome, as_dict
from .request import Content, DeliverTo, Question, TurnRequest
from .rotation import Rotation
from .side_calls import SideCalls
from .threads import run_to_end
from .tool_calls import ToolRunner

if TYPE_CHECKING:
    from .limits import Limiter, LimitTable

log = logging.getLogger(__name__)

StreamCallback = Callable[[str], None]
FindLimits = Callable[[], "LimitTable | None"]
FindPermissions = Callable[[], Permissions]

__all__ = ["AIAgent", "TurnRunningError"]


class AIAgent:
    """An agent in one conversation.

    `session_id`, `model` (its name) and `platform` say which, with what and from where. After a
    turn, `session_id` is the session the conversation is in, which a compression may have changed.
    """

    def __init__(
        self,
        model: Model,
        *,
        db: SessionDB | None = None,
        session_id: str | None = None,
        platform: str = "cli",
        user_id: str | None = None,
        owner: Owner | None = None,
        tools: Registry | None = None,
        system_prompt: str | Callable[[Spaces], str] = "",
        max_iterations: int = 90,
        on_event: Watcher | None = None,
        session_facts: dict[str, Any] | None = None,
        request_options: dict[str, Any] | None = None,
        workspace: Workspace | None = None,
        asker: Asker | None = None,
        services: Services | None = None,
        auxiliary: Auxiliary | None = None,
        compression: CompressionSettings | None = None,
        compression_timeout: float = 120.0,
        learning: LearningSettings | None = None,
        memory_providers: Iterable[Any] = (),
        limits: LimitTable | FindLimits | None = None,
        permissions: Permissions = EVERYTHING,
        find_permissions: FindPermissions | None = None,
        memory: MemoryScope | None = None,
    ) -> None:
        """`system_prompt` may be a function: it is called for the session's first turn, with the
        spaces whose memories may be told, and again if those become fewer.

        `user_id` is the person whose conversation it is (None: the operator), `owner` whose past
        conversations its tools may look into: that person's unless said otherwise.
        `session_facts` are further columns of the session's row (chat_id, cwd, …),
        `request_options` fields of every ModelRequest (max_tokens, temperature, …). `workspace`,
        `asker` and `services` are what tools get: where they work, whom they ask, what they borrow.
        `auxiliary` is asked for side tasks; without it there are none. `compression` says when and
        how the conversation is compressed, `compression_timeout` how long one summary may take.
        `on_event` hears all that happens, in turns and beside them (titles, background work).
        `learning` says what is done beside the turns (titles, reviews), nothing by default;
        `memory_providers` are further places to remember in. `limits` are what may be used, or
        a function that finds them when the first turn begins; they hold where there is a store.
        `permissions` are what the person may use, `find_permissions` finds them anew for each turn;
        the tools that the model is told of stay those of the beginning.
        `memory` says whose memories and skills there are; by default those of `user_id`.
        """
        self.llm = model
        self.platform = platform
        self.max_iterations = max_iterations
        self.watchers: dict[str, Watcher] = {} if on_event is None else {"": on_event}
        """Who hears all that happens, by name."""
        self.questions = asking.OpenQuestions()
        self._emit = watch_all(on_event)
        """Emits events to the watchers of the running turn, or of the last one."""
        self.db = db
        providers = MemoryProviders(memory_providers)
        self.tools = providers.add_tools(tools or Registry())
        self._tool_schemas = self.tools.schemas()
        self._prompt_source = system_prompt
        self._cached_system_prompt: str | None = None
        self._prompt_is_new = False
        self.persona = ""
        """Whom a person chose for this conversation; empty for the configured one."""
        self._prompt_is_checked = False
        """Whether what the prompt tells may still be told, as far as is known."""
        self._prompt_of: tuple[Space, ...] = ()
        """Whose memories it tells, if it was built here."""
        self._request_options = dict(request_options or {})
        self.user_id = user_id
        self.owner: Owner = owner if owner is not None else person_of(user_id)
        self.memory = memory or MemoryScope(person_of(user_id), is_operator=user_id is None)
        self.workspace = workspace or Workspace(Path.home() / ".hermes", Path.cwd())
        self.permissions = permissions
        self._find_permissions = find_permissions
        self._mode, self._folders = self.workspace.mode, list(self.workspace.folders)
        self.workspace.mode = permissions.nearest_mode(self._mode)
        self.asker: Asker = asker or NobodyToAsk()
        self.auxiliary = auxiliary
        self._find_limits = limits if callable(limits) and db is not None else None
        self.limits: LimitTable | None = None
        self.limiter: Limiter | None = None
        self.job_limits: list[Limit] = []
        """What the scheduled job may spend that it works for."""
        self.job_depth = 0
        """How far it is from a person: 1 for a job that a person made."""
        if not callable(limits):
            self._use_limits(limits)
        self.side_calls = SideCalls(self)
        if auxiliary is not None:
            self.side_calls.attach(auxiliary)
        self.learner = Learner(self, learning or OFF, providers, self.announce)
        self.delegation = Delegation(self)
        self.notes = Notes(self)
        self.goals = Goals(self)
        own = Services(
            delegate=self.delegation,
            call_tool=CodeCalls(self.tools, self._tool_context),
            session_environ=session_context.session_environ,
            notify=self.notes.notify,
            auxiliary=auxiliary,
        )
        self.services = own.replaced_by(services)
        facts = {"model": model.name, "billing_provider": model.provider, **(session_facts or {})}
        if user_id is not None:
            facts["user_id"] = user_id
        self._busy = BusyState()
        self.turn_facts = TurnFacts()
        """Of the running turn, or the last one, for its tools."""
        self._journal = Journal(
            db,
            session_id or new_session_id(),
            source=platform,
            facts=facts,
            lease_lost=self._busy.interrupt,
        )
        self.compression = compression or CompressionSettings()
        self.compression_timeout = compression_timeout
        self._compressor = Compressor(
            self._journal,
            db,
            self.compression,
            auxiliary,
            timeout=compression_timeout,
            platform=platform,
        )
        if providers:
            self._compressor.memory_context = providers.pre_compress
        self.holders = self._journal.holders
        """Called when a compression has moved the conversation; front ends add themselves."""
        self.holders.add("session context", _enter_session)
        self.holders.add("memory providers", providers.rotated)

    # What it is

    @property
    def session_id(self) -> str:
        """The session the conversation is in."""
        return self._journal.session_id

    @property
    def conversation_id(self) -> str:
        """The conversation's one id for life."""
        return self._journal.conversation_id()

    @property
    def model(self) -> str:
        """The model's name."""
        return self.llm.name

    @property
    def _session_messages(self) -> list[Message] | None:
        """The conversation as this agent knows it; None before the first turn."""
        return list(self._journal.messages) or None

    # Running a turn

    def run_conversation(
        self,
        prompt: Content,
        conversation_history: list[Message] | None = None,
        stream_callback: StreamCallback | None = None,
    ) -> dict[str, Any]:
        """Answer a message: run one turn to its end and return its outcome as a dict.

        `conversation_history` is what the caller holds of the conversation; messages in it that are
        not stored yet are stored first. `stream_callback` gets the answer's text as it comes.
        Returns `final_response`, `messages`, `api_calls`, `session_id`, `completed`, `partial`,
        `failed`, `interrupted`, `error` and `usage`; `pending_steering` is what came too late to be
        read in this turn where there is no store to keep it for the next. Only a misuse raises.
        """
        history = None if conversation_history is None else tuple(conversation_history)
        watch = None if stream_callback is None else watch_text(stream_callback)
        return as_dict(self.run_blocking(Question(prompt, history=history), watch=watch))

    async def run(self, request: TurnRequest, *, watch: Watcher | None = None) -> TurnOutcome:
        """Run one turn to its end: answer a question, deliver notes, or finish a turn taken over.

        `watch` hears the events of this turn. Only a misuse raises: TurnRunningError if the agent
        is in the middle of something.
        """
        return await running.run(self, request, watch)

    def run_blocking(self, request: TurnRequest, *, watch: Watcher | None = None) -> TurnOutcome:
        """The same as `run`, for ordinary code."""
        outcome = run_to_end(self.run(request, watch=watch))
        session_context.set_current_session_id(self.session_id)
        return outcome

    def _use_limits(self, limits: LimitTable | None) -> None:
        self.limits = limits
        if limits is not None and self.db is not None:
            from .limits import Limiter

            self.limiter = Limiter(limits, self)

    async def follow_permissions(self) -> None:
        """Find what the person may use by now, if that may have changed since the last turn."""
        if self._find_permissions is not None:
            self.permissions = await at_hand(self.db, self._find_permissions)

    async def find_limits(self) -> None:
        """Find what may be used, if that was left for the first turn."""
        find, self._find_limits = self._find_limits, None
        if find is not None:
            self._use_limits(await at_hand(self.db, find))

    def _new_turn(self, watch: Watcher | None = None, deliver_to: DeliverTo | None = None) -> Turn:
        emit = self._emit = watch_all(watch, *self.watchers.values())
        return Turn(
            model=self.llm,
            journal=self._journal,
            tools=ToolRunner(self.tools, self._journal, emit, self._tool_context),
            tool_schemas=self._tool_schemas,
            system="",
            emit=emit,
            busy=self._busy,
            max_iterations=self.max_iterations,
            request_options=self._request_options,
            has_news=self.notes.has_news,
            compressor=self._compressor,
            deliver_to=deliver_to,
        )

    def set_mode(self, mode: Mode) -> None:
        """Choose the conversation's mode; its turns follow, in any process, from the next one."""
        if self.db is None:
            self._mode = self.workspace.mode = self.permissions.nearest_mode(mode)
        else:
            self.db.set_wall_mode(self.session_id, mode)

    def follow_wall(self) -> None:
        """Take over what was decided about this conversation's wall, in any process, as far as it
        may be chosen."""
        if self.db is None:
            return
        kept = self.db.get_wall_settings(self.session_id)
        self.workspace.mode = self.permissions.nearest_mode(kept["mode"] or self._mode)
        self.workspace.folders = [*self._folders, *map(Path, kept["folders"])]
        for child in self.delegation.children:
            child.inherit_wall(self.workspace)

    def inherit_wall(self, parent: Workspace) -> None:
        """Take over what was decided for the agent that this one works for."""
        self._mode, self._folders = parent.mode, list(parent.folders)
        self.workspace.mode, self.workspace.folders = parent.mode, list(parent.folders)

    def spend_for(self, parent: AIAgent) -> None:
        """Let the model calls count for the chat of the agent that this one works for."""
        key, source, job = parent._journal.spends_for
        self._journal.works_for = SpendsFor(key, source or parent.platform, job)

    @property
    def session_facts(self) -> Mapping[str, Any]:
        """What the session's row is created with."""
        return self._journal.facts

    @property
    def job_id(self) -> str | None:
        """The scheduled job that it works for."""
        return self._journal.job

    def spend_for_job(self, job_id: str, limits: list[Limit]) -> None:
        """Let the model calls count for a scheduled job, within its own limits too."""
        self._journal.job, self.job_limits = job_id, limits

    def _tool_context(self, call_id: str, progress: Callable[[str], None]) -> ToolContext:
        return ToolContext(
            self.session_id,
            call_id,
            progress=progress,
            workspace=self.workspace,
            db=self.db,
            user_id=self.user_id,
            owner=self.owner,
            permissions=self.permissions,
            memory=self.memory,
            asker=self.turn_asker(),
            turn=self.turn_facts,
            services=self._turn_services(),
        )

    def turn_asker(self) -> Asker:
        """Whom the running turn's tools ask; its watchers are told while a question is open."""
        return asking.watched_asker(self.asker, self._emit, self.platform, self.questions)

    def _turn_services(self) -> Services:
        ask = self.services.sudo_password
        if ask is None:
            return self.services
        watched = asking.watched_password(ask, self._emit, self.platform)
        return dataclasses.replace(self.services, sudo_password=watched)

    def announce(self, event: Event) -> None:
        """Emit an event that does not belong to a turn, to the agent's listeners."""
        watch_all(*self.watchers.values())(event)

    def add_watcher(self, name: str, watcher: Watcher) -> None:
        """Let a watcher hear all that happens from now on, in turns and beside them, in place of
        an earlier one of that name."""
        self.watchers[name] = watcher

    async def _prepare(self, conversation_history: Iterable[Message] | None = None) -> None:
        session, view = await at_hand(self.db, self._look)
        if view is not None and session is not None and not session["system_prompt"]:
            self._prompt_is_checked = False  # what it tells may be told no longer
        self._journal.take_in(session, view)
        if conversation_history is None:
            return
        history = list(conversation_history)
        if self.db is None:
            self._journal.messages = history
        elif history != self._journal.messages:
            await self._journal.persist(history)

    def _look(self) -> Look:
        """The stored conversation, after background work of dead processes was ended."""
        self.settle_background()
        return self._journal.look()

    def settle_background(self) -> None:
        """End the conversation's background work whose process is gone."""
        db = self.db
        running = db.list_delegations(self._journal.session_id, "running") if db else []
        if db is not None and running:
            from .background import end_abandoned

            end_abandoned(db, running)

    async def _system_prompt(self, instructions: str = "") -> str:
        """The session's prompt; one that is built now ends with the instructions."""
        if self._cached_system_prompt is None or not self._prompt_is_checked:
            await self._find_prompt(instructions)
            self._prompt_is_checked = True
        assert self._cached_system_prompt is not None
        return self._cached_system_prompt

    async def _find_prompt(self, instructions: str) -> None:
        """Take the stored prompt, if what it tells may be told here; else build one.

        One that was built because of that in another's conversation, or in a chat that the
        conversation was brought to, is not stored: where it came from it goes on as it was.
        """
        db, facts = self.db, self._journal.facts
        stored = await at_hand(db, db.get_session, self.session_id) if db else None
        spaces = await at_hand(db, self.memory.spaces, db, self.session_id)
        kept = str(stored["system_prompt"] or "") if stored else ""
        if stored and kept and may_be_told(stored["memory_of"], kept, spaces):
            self._cached_system_prompt = kept
            facts |= {"system_prompt": kept, "memory_of": stored["memory_of"]}
            return
        if self._cached_system_prompt is not None and not kept and self._prompt_of == spaces.read:
            return  # not stored yet, or without a store
        source = self._prompt_source
        built = source if isinstance(source, str) else await at_hand(db, _built, source, spaces)
        remembered = await self.learner.providers.system_prompt_block()
        prompt = "\n\n".join(filter(None, (built, instructions, remembered)))
        self._cached_system_prompt, self._prompt_of = prompt, spaces.read
        self._prompt_is_new = not kept
        if kept and spaces.write is None:
            facts |= {"system_prompt": None, "memory_of": None}
            return
        told = "[]" if isinstance(source, str) else written_down(spaces.read)
        facts |= {"system_prompt": prompt or None, "memory_of": told}
        if stored and db and prompt:
            await at_hand(db, db.update_system_prompt, self.session_id, prompt, told)
            await self._journal.refresh()

    # Compression

    def use_context_engine(self, engine: Any | None) -> None:
        """Let a plugin's context engine compress; None for the built-in way.

        To be called before the first turn: the tools that come with it are the agent's from then.
        """
        self._leave_engine()
        if engine is None:
            return
        from .compression.plugin_engine import Engine

        used = self._compressor.engine = Engine(engine, self.platform)
        used.use_model(self.llm)
        extended = Registry(self.tools)
        for tool in used.tools(lambda: list(self._journal.messages)):
            if not self.permissions.allow_tool(tool):
                continue
            if extended.get(tool.name) is None:
                extended.add(tool)
            else:
                log.warning("There is a tool %s already; the engine's is left out", tool.name)
        self.tools = extended
        self._tool_schemas = extended.schemas()
        calls = CodeCalls(extended, self._tool_context)
        self.services = dataclasses.replace(self.services, call_tool=calls)

    def context_status(self) -> str:
        """The figures of a plugin's context engine, in one line; empty if there are none."""
        engine = self._compressor.engine
        return "" if engine is None else engine.status()

    async def _session_begins(self) -> None:
        """A turn is about to begin, in this session or another one than before."""
        await self.learner.session_begins()
        engine = self._compressor.engine
        if engine is not None:
            known = await at_hand(self.db, self._journal.known_conversation)
            name = known or self.session_id
            engine.session_begins(self.session_id, name, is_new=known is None)

    def _leave_engine(self) -> None:
        engine, self._compressor.engine = self._compressor.engine, None
        if engine is not None:
            engine.session_ends(self._journal.messages)
            engine.close()

    def compress(self, focus: str | None = None, dry_run: bool = False) -> CompressionResult:
        """Compress the conversation now, with an eye on `focus`; nothing said is lost.

        With `dry_run` nothing is changed: `preview` says what would be. Raises TurnRunningError
        while a turn runs. The conversation may be in another session afterwards: `session_id`.
        """
        result = run_to_end(self.acompress(focus, dry_run))
        session_context.set_current_session_id(self.session_id)
        return result

    async def acompress(self, focus: str | None = None, dry_run: bool = False) -> CompressionResult:
        """The same as `compress`, for coroutines. `interrupt` stops it."""
        self._busy.claim(
            "A turn is running in this conversation. Compress it when that has ended.",
            compressing=True,
        )
        old_id = self.session_id
        try:
            await self._journal.refresh()
            await self.find_limits()
            turn = self._new_turn()
            await self._session_begins()
            turn.system = await self._system_prompt()
            work = asyncio.create_task(self._compressor.compress_now(turn, focus, dry_run=dry_run))
            self._busy.attach(work)
            return await work
        except asyncio.CancelledError:
            if not self._busy.interrupt_wanted:
                raise
            return CompressionResult(self.session_id, old_id, False, "It was interrupted.")
        finally:
            self._busy.release()
            session_context.set_current_session_id(self.session_id)

    # While it runs

    def runs_turn(self, fence: int) -> bool:
        """Whether the turn that runs has the lease with that number."""
        return self._busy.is_turn(fence)

    def interrupt(self, fence: int | None = None) -> bool:
        """Stop the running turn, from any thread; what it did is stored. False if none runs.

        With a `fence` only the turn whose lease has that number is stopped.
        """
        is_running = self._busy.interrupt(fence=fence)
        if is_running and self.db is not None:
            self.db.wake.ring()  # for a turn that still waits for another one to end
        return is_running

    def make_way(self, fence: int | None = None) -> bool:
        """Interrupt the running turn for a further message of the person; False if none runs.

        If nothing was answered yet, the history says that the question is still open, so that the
        next turn answers both. With a `fence` only the turn whose lease has that number is stopped.
        """
        return self._busy.interrupt(message_waits=True, fence=fence)

    def join(self, content: Content, inbox_id: str | None = None) -> bool:
        """Let the running turn answer a further message together with its question, as long as the
        model has not said anything; False if it has, or if no turn runs. With `inbox_id` the
        message is a row of the inbox, which is marked as taken when the turn reads it.
        """
        return self._busy.join(running.inbound(content, _ids(inbox_id)))

    def steer(self, text: str, inbox_id: str | None = None, fence: int | None = None) -> bool:
        """Add a message to the running turn; it is read at the next step. False if none runs.

        With `inbox_id` it is one that the store has accepted, and is taken there when it is read;
        with a `fence` it is for the turn whose lease has that number, and for no other.
        Any other is stored first (StoreError if it cannot be): if the turn ends before it is read,
        however it ends, it is told with the next one, or as a turn of its own (`WaitingNotes`).
        """
        if not text.strip():
            return False
        if self.db is None or inbox_id is not None:
            return self._busy.steer(running.inbound(text, _ids(inbox_id)), fence)
        if not self._busy.is_in_turn():
            return False
        self.notes.steer(text)
        return True

    def move_to(self, session_id: str) -> None:
        """Go on in another conversation, as its first or next turn; nothing of this one is lost.

        If it is the same one, compressed elsewhere, the agent follows it there.
        """
        self._busy.require_free("The conversation cannot be left while a turn is running.")
        if self.db is not None and self.db.get_compression_tip(self.session_id) == session_id:
            self._journal.refresh_blocking()
            return
        if self._compressor.engine is not None:
            self._compressor.engine.session_ends(self._journal.messages)
        self._journal.move_to(session_id)
        self._cached_system_prompt = None
        self._prompt_is_new = False

    def switch_model(self, model: Model) -> None:
        """Switch to another model from the next turn on."""
        self._busy.require_free("The model cannot be changed while a turn is running.")
        self.llm = model
        if self._compressor.engine is not None:
            self._compressor.engine.use_model(model)
        self._journal.facts |= {"model": model.name, "billing_provider": model.provider}
        if self.db is not None:
            self.db.update_session_model(self.session_id, model.name)

    def rebuild_prompt(self) -> None:
        """Build the session's prompt anew with the next turn: something in it was chosen."""
        self._busy.require_free("This cannot be changed while a turn is running.")
        self._cached_system_prompt = None
        if self.db is not None and self.db.get_session(self.session_id) is not None:
            self.db.update_system_prompt(self.session_id, "")
            self._journal.refresh_blocking()

    def set_request_option(self, name: str, value: Any) -> None:
        """Set a field of every further request (reasoning_effort, …); None takes it away."""
        options = {key: given for key, given in self._request_options.items() if key != name}
        self._request_options = options if value is None else {**options, name: value}

    # For front ends

    def ensure_session(self) -> None:
        """Create the session's row before its first message, for work done on its behalf."""
        self._journal.ensure_session()

    def _persist_session(
        self, messages: list[Message], conversation_history: list[Message] | None = None
    ) -> None:
        """Store those of `messages` that are not stored yet; the lists may alias each other."""
        self._journal.persist_blocking(messages)

    def commit_memory_session(self, history: list[Message] | None = None) -> None:
        """Store what was learnt in the session that ends; `history` is the conversation, if known.

        Memory providers are told, and a session of some length is looked back on. This waits for it
        for a bounded time, so call it off an event loop; it never raises.
        """
        self.learner.commit(history)

    def close(self) -> None:
        """End what the conversation's tools have left running, and what is done beside it."""
        self.learner.close()
        self.goals.close()
        self._leave_engine()
        terminal = sys.modules.get("tools.terminal.tool")  # not imported: nothing can be running
        if terminal is not None:
            terminal.close_terminal(self.workspace)

    async def aclose(self) -> None:
        """Free the model's connections, and end what tools have left running."""
        self.close()
        await self.llm.aclose()


def _enter_session(rotation: Rotation) -> None:
    """Let the code that runs now, and its child processes, know the session it is in."""
    session_context.set_current_session_id(rotation.new_session_id)


def _ids(inbox_id: str | None) -> tuple[str, ...]:
    return () if inbox_id is None else (inbox_id,)


def _built(source: Callable[..., str], spaces: Any) -> str:
    """A prompt from whoever builds it; scripts' own builders need not know of memories."""
    return source(spaces) if inspect.signature(source).parameters else source()
