"""`hermes chat`: a plain conversation in a terminal or a pipe.

A question on standard input or with `-q` is answered and the program ends; in a terminal it is a
conversation. Whatever ends it (`/exit`, end of input, Ctrl-C twice, SIGTERM, SIGHUP), the running
turn is stopped, stored, and the session ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.agent import AIAgent
from agent.build import build_agent, build_models
from agent.config import Config, ConfigError, load_config
from agent.events import (
    BackgroundFinished,
    Event,
    NoteStored,
    Noticed,
    StreamRestarted,
    ToolFinished,
    ToolStarted,
)
from agent.providers import UnknownProviderError
from agent.request import Content, Question, WaitingNotes
from agent.store import open_store
from hermes_cli.asking import TerminalAsker
from hermes_cli.chat_door import INTERRUPTED, TerminalDoor
from hermes_cli.chat_notes import Prompt
from hermes_cli.interrupts import Interrupts
from hermes_cli.terminal_guard import guard_terminal
from hermes_state import EVERYONE, SessionDB, StoreError, at_hand

if TYPE_CHECKING:
    from hermes_cli.chat_surface import ChatSurface

PROMPT = "› "
LOCAL_NOTICE_GIVEN = "local_model_notice"


class ChatOptions(NamedTuple):
    """What was asked for on the command line."""

    query: str | None = None
    quiet: bool = False
    resume: str | None = None
    continue_last: bool = False
    model: str | None = None
    mode: str | None = None
    folders: tuple[str, ...] = ()
    """Folders that are added to the conversation."""


class UsageError(Exception):
    """Something a person can correct; the message says how."""


def run_chat(options: ChatOptions) -> int:
    """Chat as asked; returns the exit code.

    0 answered, 1 failed, 2 usage, 130 interrupted, 128 and its number after another signal.
    """
    guard_terminal()
    try:
        config = load_config()
        from agent.auto_prune import begin_pruning
        from agent.logs import setup_logging

        setup_logging(config.home, config.logging)
        with open_store(config.home) as db:
            if db.salvage_report is not None:
                complain(str(db.salvage_report))
            db.settle_at_startup()
            begin_pruning(db, config.home, config.sessions)
            from agent.abandoned_work import end_abandoned_work

            end_abandoned_work(config.home, db)
            return Chat(config, db, options).run()
    except (ConfigError, UnknownProviderError, UsageError, StoreError) as error:
        complain(f"hermes: {error}")
        return 2
    except KeyboardInterrupt:  # the second one, for somebody who does not want to wait
        complain(INTERRUPTED)
        return 130
    except BrokenPipeError:
        raise  # the reader of the pipe has gone
    except OSError as error:  # a disk that is read-only or full, also beside the store
        place = f"{error.filename}: " if error.filename else ""
        complain(f"hermes: {place}{error.strerror or error}. Check the disk and its permissions.")
        return 1


def complain(text: str) -> None:
    """A line for the person, apart from the answer."""
    print(text, file=sys.stderr, flush=True)


class Chat:
    """One run of `hermes chat`."""

    def __init__(self, config: Config, db: SessionDB, options: ChatOptions) -> None:
        self.config = config
        self.db = db
        self._options = options
        self._model = build_models(config, options.model)
        self.asker = TerminalAsker()
        self._door = TerminalDoor(self)
        folders = self._added_folders()
        self.agent = self._new_agent(self._session_to_resume())
        self._choose_wall(folders)
        self._at_line_start = True
        self._prompt = Prompt(PROMPT)
        self._surface: ChatSurface | None = None

    def run(self) -> int:
        """Answer one question, or talk until the person leaves."""
        for warning in self.config.notices() if not self.is_quiet else ():
            complain(f"hermes: {warning}")
        with Interrupts(self._interrupt) as interrupts:
            try:
                question = self._given_question()
                if question is not None:
                    code = self._answer_one(question)
                    return interrupts.exit_code if interrupts.leaving else code
                with self._prompt:
                    return self._talk(interrupts)
            finally:
                self._stop_background()
                self._end_session("cli_close")
                self._door.finish_telling()

    def _end_session(self, reason: str) -> None:
        from hermes_base import plugins

        history = self.agent._session_messages
        if history and not self._options.query:
            self.agent.commit_memory_session(history)
        if history:
            plugins.invoke_hook(
                "on_session_finalize",
                session_id=self.agent.session_id,
                platform="cli",
                reason="shutdown" if reason == "cli_close" else "session_boundary",
            )
        self.agent.close()
        self.db.end_session(self.agent.session_id, reason)

    def _stop_background(self) -> None:
        background = sys.modules.get("agent.background")  # not imported: nothing runs
        if background is not None and (running := background.running_here()):
            complain(f"[stopping {len(running)} background tasks]")
            background.stop_all(self.db)

    def _interrupt(self) -> bool:
        self.asker.stop()
        is_running = self.agent.interrupt()
        return self._door.stop() or is_running

    # One question

    def _given_question(self) -> str | None:
        piped = None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()
        query = self._options.query
        if query is None and piped is None:
            return None
        question = "\n\n".join(part for part in (query, piped) if part)
        if not question:
            raise UsageError(
                'Nothing was asked. Try: echo "What is the capital of France?" | hermes chat'
            )
        return question

    def _answer_one(self, question: str) -> int:
        code = self._turn(question)
        if not self.is_quiet:
            complain(f"[{self.agent.model} · hermes chat --resume {self.agent.session_id}]")
        return code

    def _turn(self, message: Content) -> int:
        self._tell_about_local_model()
        return self._door.work(Question(message))

    # What is shown

    @property
    def is_quiet(self) -> bool:
        """Whether standard output is for the answer that was asked for, and nothing else."""
        return self._options.quiet

    def show(self, text: str) -> None:
        """Show a piece of an answer."""
        sys.stdout.write(text)
        sys.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def end_line(self) -> None:
        """Let what is shown next begin on a line of its own."""
        if not self._at_line_start:
            self.show("\n")

    async def end_turn(self) -> None:
        """A turn has ended: show no more of it, and name a conversation that has its row now."""
        self.end_line()
        if self._surface is None or self._surface.pending_title is None:
            return
        problem = await at_hand(self.db, self._surface.give_title)
        if problem is not None:
            complain(problem)

    def _tell_about_local_model(self) -> None:
        notice = getattr(self._model, "notice", None)
        if notice and not self.is_quiet and self.db.get_meta(LOCAL_NOTICE_GIVEN) is None:
            complain(notice)
            self.db.set_meta(LOCAL_NOTICE_GIVEN, "1")

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Noticed):
            complain(event.text)
        elif isinstance(event, NoteStored):
            self._prompt.wake()
        elif self.is_quiet:
            return
        elif isinstance(event, ToolStarted):
            complain(f"· {event.name} …")
        elif isinstance(event, ToolFinished) and event.is_error:
            complain(f"· {event.name}: {event.result[:200]}")
        elif isinstance(event, StreamRestarted):
            self.end_line()
            complain(f"[{event.reason}; trying again in {event.delay:.0f} s]")
        elif isinstance(event, BackgroundFinished):
            # It comes whenever it likes, also while a line is being typed.
            complain(f"\n[{event.delegation_id} {event.status}]")
            if self._prompt.is_open:
                self.show(PROMPT)

    # A conversation

    def _talk(self, interrupts: Interrupts) -> int:
        mode = self.agent.workspace.mode
        mode_note = "" if mode == "guarded" else f" · mode {mode}"
        complain(f"Hermes · {self.agent.model}{mode_note} · /help for commands, /exit to leave")
        edit_lines(self.config.home / "chat_history", self._completions)
        self._see_to_abandoned()
        warned = False
        while not interrupts.leaving:
            try:
                given = self._prompt.read(self._door.has_notes)
                warned = False
            except EOFError:
                complain("")
                return 0
            except KeyboardInterrupt:
                if warned:
                    return 0
                warned = True
                complain("\n(Ctrl-C again to leave)")
                continue
            interrupts.turn_begins()
            if given is None:
                self.show("\n")
                self._door.work(WaitingNotes())
            elif line := given.strip():
                self._door.cannot_tell = False
                self._take(line)
            if self._surface is not None and self._surface.leaving:
                return 0
        return interrupts.exit_code

    def _see_to_abandoned(self) -> None:
        """Take over this conversation's abandoned turn; in a new one, name one elsewhere."""
        if self._options.resume is not None or self._options.continue_last:
            self._door.finish_abandoned()
            return
        from hermes_cli.abandoned_in_terminal import abandoned_elsewhere

        line = abandoned_elsewhere(self.db, self.config.agent)
        if line is not None:
            complain(line)

    def _take(self, line: str) -> None:
        """Carry out a slash command, or answer a message."""
        message: str | list[dict[str, Any]] = line
        if line.startswith("/"):
            from hermes_cli.chat_surface import carry_out, is_command

            if is_command(line):
                before = self.agent
                carry_out(self._commands(), line, self._turn, prefill_next)
                if self.agent is not before:
                    self._door.finish_abandoned()
                return
        if self._surface is not None and self._surface.images:
            from hermes_cli.chat_surface import with_images

            message = with_images(line, self._surface.images)
            self._surface.images = []
        self._turn(message)

    def _commands(self) -> ChatSurface:
        from hermes_cli.chat_surface import ChatSurface

        if self._surface is None:
            self._surface = ChatSurface(self)
        return self._surface

    def _completions(self, line: str) -> list[str]:
        from hermes_cli.chat_surface import complete_line

        return complete_line(self._commands(), line)

    def switch(self, session_id: str | None, reason: str) -> None:
        """End the session and resume that one, or begin a new one."""
        from hermes_base import plugins

        is_boundary = bool(self.agent._session_messages) or session_id is not None
        self._end_session(reason)
        self.agent = self._new_agent(session_id)
        if is_boundary:
            plugins.invoke_hook(
                "on_session_reset",
                session_id=self.agent.session_id,
                platform="cli",
                reason=reason,
            )

    def switch_model(self, name: str) -> str:
        """Switch to another model; raises ConfigError or UnknownProviderError."""
        self._model = build_models(self.config, name)
        self.agent.switch_model(self._model)
        return self.agent.model

    # Which conversation

    def _added_folders(self) -> list[Path]:
        from agent.wall_choices import WallChoiceError, folder_named

        try:
            return [
                folder_named(folder, Path(), self.config.home) for folder in self._options.folders
            ]
        except WallChoiceError as error:
            raise UsageError(f"--add-dir: {error}") from error

    def _choose_wall(self, folders: list[Path]) -> None:
        """Keep with the conversation what the command line says about it."""
        from agent.wall_choices import add_folders, choose_mode, mode_named

        session_id = self.agent.session_id
        if self._options.mode:
            choose_mode(self.db, session_id, mode_named(self._options.mode), self.agent)
        if folders:
            add_folders(self.db, session_id, folders, self.agent)

    def _new_agent(self, session_id: str | None) -> AIAgent:
        agent = build_agent(
            self.config,
            self.db,
            model=self._model,
            session_id=session_id,
            owner=EVERYONE,
            on_event=self._on_event,
            asker=self.asker,
        )
        agent.follow_wall()
        self._door.tell_compressions(agent)
        return agent

    def _session_to_resume(self) -> str | None:
        wanted, everyones = self._options.resume, self.db.view(EVERYONE)
        if wanted is not None:
            session = self.db.resolve_session_id(wanted) or everyones.resolve_title(wanted)
            if session is None:
                raise UsageError(
                    f"There is no conversation {wanted!r} (or several begin with it). "
                    "Leave --resume away to begin a new one, or use --continue for the last."
                )
            return self.db.get_compression_tip(session)
        if self._options.continue_last:
            recent = everyones.list_sessions(
                source="cli", limit=1, order_by_last_active=True, min_message_count=1
            )
            if not recent:
                raise UsageError("There is no conversation to continue yet. Begin one: hermes chat")
            return str(recent[0]["id"])
        return None


def edit_lines(path: Path, completions: Callable[[str], list[str]]) -> None:
    """Line editing with completion and a history that is kept, where the platform has it."""
    try:
        import readline
    except ImportError:  # not on every platform; typing works without
        return
    import atexit

    candidates: list[str] = []

    def complete(line: str, number: int) -> str | None:
        if number == 0:
            candidates[:] = completions(line) if line.startswith("/") else []
        return candidates[number] if number < len(candidates) else None

    readline.set_completer(complete)
    readline.set_completer_delims("")  # a candidate is a whole line
    readline.parse_and_bind("tab: complete")
    path.touch(mode=0o600, exist_ok=True)
    try:
        readline.read_history_file(path)
    except OSError:  # libedit refuses a file it did not write; start without
        return
    readline.set_history_length(1000)
    atexit.register(readline.write_history_file, path)


def prefill_next(text: str) -> None:
    """Offer text for editing in the next line, where the platform can."""
    try:
        import readline
    except ImportError:
        readline = None  # type: ignore[assignment]
    if readline is None or "\n" in text:  # an input line has no room for several
        complain(text)
        return

    def insert() -> None:
        readline.insert_text(text)
        readline.set_startup_hook(None)

    readline.set_startup_hook(insert)
