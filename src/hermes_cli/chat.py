"""`hermes chat`: a plain conversation in a terminal or a pipe.

A question on standard input or with `-q` is answered and the program ends; in a terminal it is a
conversation. Whatever ends it (`/exit`, end of input, Ctrl-C twice, SIGTERM, SIGHUP), the running
turn is stopped, stored, and the session ended.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from agent.agent import AIAgent
from agent.build import build_agent, build_models
from agent.config import Config, ConfigError, load_config
from agent.events import Event, Noticed, StreamRestarted, ToolFinished, ToolStarted
from agent.providers import UnknownProviderError
from hermes_cli.asking import TerminalAsker
from hermes_cli.interrupts import Interrupts
from hermes_state import SessionDB, StoreError

HELP = """\
/new            begin a new conversation
/model [NAME]   show the model, or go on with another one
/help           this list
/exit           leave (also Ctrl-D, or Ctrl-C twice)
Ctrl-C          stop the answer"""

LOCAL_NOTICE_GIVEN = "local_model_notice"


class ChatOptions(NamedTuple):
    """What was asked for on the command line."""

    query: str | None = None
    quiet: bool = False
    resume: str | None = None
    continue_last: bool = False
    model: str | None = None


class UsageError(Exception):
    """Something a person can put right; the message says how."""


def run_chat(options: ChatOptions) -> int:
    """Chat as asked; returns the exit code (0 answered, 1 failed, 2 usage, 130 interrupted)."""
    try:
        config = load_config()
        from agent.logs import setup_logging

        setup_logging(config.home, config.logging)
        with SessionDB(config.home / "state.db") as db:
            if db.salvage_report is not None:
                complain(str(db.salvage_report))
            db.settle_at_startup()
            from tools.processes.ledger import reap_orphans

            reap_orphans(config.home)
            return Chat(config, db, options).run()
    except (ConfigError, UnknownProviderError, UsageError, StoreError) as error:
        complain(f"hermes: {error}")
        return 2


def complain(text: str) -> None:
    """A line for the person, apart from the answer."""
    print(text, file=sys.stderr, flush=True)


class Chat:
    """One run of `hermes chat`."""

    def __init__(self, config: Config, db: SessionDB, options: ChatOptions) -> None:
        self._config = config
        self._db = db
        self._options = options
        self._model = build_models(config, options.model)
        self._asker = TerminalAsker()
        self._agent = self._new_agent(self._session_to_resume())
        self._at_line_start = True

    def run(self) -> int:
        """Answer one question, or talk until the person leaves."""
        for warning in self._config.warnings if not self._options.quiet else ():
            complain(f"hermes: {warning}")
        with Interrupts(self._interrupt) as interrupts:
            try:
                question = self._given_question()
                if question is not None:
                    return self._answer_one(question)
                return self._talk(interrupts)
            finally:
                self._end_session("cli_close")

    def _end_session(self, reason: str) -> None:
        self._agent.close()
        self._db.end_session(self._agent.session_id, reason)

    def _interrupt(self) -> bool:
        self._asker.stop()
        return self._agent.interrupt()

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
        if not self._options.quiet:
            complain(f"[{self._agent.model} · hermes chat --resume {self._agent.session_id}]")
        return code

    def _turn(self, text: str) -> int:
        self._tell_about_local_model()
        result = self._agent.run_conversation(text, stream_callback=self._show)
        if not self._at_line_start:
            self._show("\n")
        if result["interrupted"]:
            complain("[interrupted]")
            return 130
        if result["failed"]:
            complain(f"hermes: {result['error']}")
            return 1
        if result["partial"]:
            complain(f"[{result['error'] or 'The answer was cut at its longest allowed length.'}]")
        return 0

    def _show(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def _tell_about_local_model(self) -> None:
        notice = getattr(self._model, "notice", None)
        if notice and not self._options.quiet and self._db.get_meta(LOCAL_NOTICE_GIVEN) is None:
            complain(notice)
            self._db.set_meta(LOCAL_NOTICE_GIVEN, "1")

    def _on_event(self, event: Event) -> None:
        if self._options.quiet:
            return
        if isinstance(event, ToolStarted):
            complain(f"· {event.name} …")
        elif isinstance(event, ToolFinished) and event.is_error:
            complain(f"· {event.name}: {event.result[:200]}")
        elif isinstance(event, StreamRestarted):
            if not self._at_line_start:
                self._show("\n")
            complain(f"[{event.reason}; trying again in {event.delay:.0f} s]")
        elif isinstance(event, Noticed):
            complain(event.text)

    # A conversation

    def _talk(self, interrupts: Interrupts) -> int:
        complain(f"Hermes · {self._agent.model} · /help for commands, /exit to leave")
        remember_lines(self._config.home / "chat_history")
        warned = False
        while not interrupts.leaving:
            try:
                line = input("› ").strip()
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
            if line.startswith("/"):
                if not self._command(line):
                    return 0
            elif line:
                interrupts.turn_begins()
                self._turn(line)
        return interrupts.exit_code

    def _command(self, line: str) -> bool:
        """Carry out a slash command; False to leave."""
        name, _, argument = line[1:].partition(" ")
        if name in ("exit", "quit"):
            return False
        if name in ("new", "reset"):
            self._end_session("new_session")
            self._agent = self._new_agent(None)
            complain("New conversation.")
        elif name == "model":
            self._switch_model(argument.strip())
        elif name == "help":
            complain(HELP)
        else:
            complain(f"There is no command /{name}. /help lists them.")
        return True

    def _switch_model(self, name: str) -> None:
        if name:
            try:
                self._model = build_models(self._config, name)
            except (ConfigError, UnknownProviderError) as error:
                complain(str(error))
                return
            self._agent.switch_model(self._model)
        complain(f"Model: {self._agent.model}")

    # Which conversation

    def _new_agent(self, session_id: str | None) -> AIAgent:
        return build_agent(
            self._config,
            self._db,
            model=self._model,
            session_id=session_id,
            on_event=self._on_event,
            asker=self._asker,
        )

    def _session_to_resume(self) -> str | None:
        wanted = self._options.resume
        if wanted is not None:
            found = self._db.resolve_session_id(wanted) or self._db.resolve_session_by_title(wanted)
            if found is None:
                raise UsageError(
                    f"There is no conversation {wanted!r} (or several begin with it). "
                    "Leave --resume away to begin a new one, or use --continue for the last."
                )
            return self._db.get_compression_tip(found)
        if self._options.continue_last:
            recent = self._db.list_sessions_rich(
                source="cli", limit=1, order_by_last_active=True, min_message_count=1
            )
            if not recent:
                raise UsageError("There is no conversation to continue yet. Begin one: hermes chat")
            return str(recent[0]["id"])
        return None


def remember_lines(path: Path) -> None:
    """Line editing with a history that is kept, where the platform has it."""
    try:
        import readline
    except ImportError:  # not on every platform; typing works without
        return
    import atexit

    path.touch(mode=0o600, exist_ok=True)
    try:
        readline.read_history_file(path)
    except OSError:  # libedit refuses a file it did not write; start without
        return
    readline.set_history_length(1000)
    atexit.register(readline.write_history_file, path)
