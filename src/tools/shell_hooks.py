"""Shell hooks: hooks that are commands in the configuration.

    hooks:
      pre_tool_call:
        - matcher: "terminal|execute_code"      # the whole name of the tool
          command: ~/bin/check-command
          timeout: 10

The command gets a JSON object on standard input and may answer with one on standard output:
`{"decision": "block", "reason": …}` or `{"action": "block", "message": …}` (before a tool, or
before the end of a turn) or `{"context": …}` (before the model is asked). It is started without a
shell, without the agent's credentials, and only after a person agreed to it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hermes_base.plugins.calls import Callback, TookTooLong
from hermes_base.plugins.hooks import KNOWN_HOOKS, Hooks
from hermes_base.session_context import session_environ
from tools.processes.ledger import RUN_FOLDER
from tools.terminal.environ import child_environment, named
from tools.trees import remove_tree
from tools.wall.programs import ProgramWall

from .hook_consents import agree, read_consents

log = logging.getLogger(__name__)

TIMEOUT = 60.0
LONGEST_TIMEOUT = 300.0
MOST_OUTPUT = 1_000_000
_TOOL_EVENTS = ("pre_tool_call", "post_tool_call", "transform_tool_result")
_TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class ShellHook:
    """One command for one event."""

    event: str
    command: str
    matcher: re.Pattern[str] | None = None
    timeout: float = TIMEOUT
    pass_env: tuple[str, ...] = ()
    roots: tuple[str, ...] | None = None
    """With a list, even an empty one, it runs inside a wall and writes to these folders only."""


class Answer(NamedTuple):
    """How a run went."""

    code: int | None
    output: str
    errors: str
    value: dict[str, Any] | None
    """What it asked for, if anything."""


def read_hooks(raw: Mapping[str, Any]) -> tuple[list[ShellHook], list[str]]:
    """The commands in the `hooks:` section, and what is wrong with the others."""
    section = raw.get("hooks") or {}
    if not isinstance(section, Mapping):
        return [], ["hooks must hold events, each with a list of commands"]
    terminal = raw.get("terminal")
    passed = terminal.get("pass_env") if isinstance(terminal, Mapping) else None
    pass_env = tuple(map(str, passed)) if isinstance(passed, list) else ()
    hooks, problems = [], []
    for event, entries in section.items():
        if event not in KNOWN_HOOKS:
            problems.append(f"hooks.{event}: there is no such hook")
            continue
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            try:
                hooks.append(_read_hook(str(event), entry, pass_env))
            except ValueError as error:
                problems.append(f"hooks.{event}[{number}]: {error}")
    return hooks, problems


def _read_hook(event: str, entry: Any, pass_env: tuple[str, ...]) -> ShellHook:
    entry = {"command": entry} if isinstance(entry, str) else entry
    command = entry.get("command") if isinstance(entry, Mapping) else None
    if not isinstance(command, str) or not command.strip():
        raise ValueError("it needs a command")
    words = shlex.split(command)  # ValueError for a quote that is not closed
    if not words:
        raise ValueError("it needs a command")
    matcher = entry.get("matcher")
    if matcher is not None and event not in _TOOL_EVENTS:
        log.warning("hooks.%s: a matcher is of use only for hooks on tools; it is ignored", event)
        matcher = None
    try:
        pattern = re.compile(str(matcher)) if matcher else None
    except re.error as error:
        raise ValueError(f"matcher is no regular expression: {error}") from error
    timeout = entry.get("timeout", TIMEOUT)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        raise ValueError(f"timeout must be seconds up to {LONGEST_TIMEOUT:g}, not {timeout!r}")
    roots = entry.get("roots")
    if roots is not None and not isinstance(roots, list):
        raise ValueError("roots must be a list of folders; an empty one for a wall without any")
    kept = None if roots is None else tuple(map(str, roots))
    return ShellHook(event, command, pattern, min(float(timeout), LONGEST_TIMEOUT), pass_env, kept)


def accepts_all(raw: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Whether a person has agreed to everything in the configuration."""
    chosen = environ.get("HERMES_ACCEPT_HOOKS", "").strip().lower() in _TRUE
    return chosen or raw.get("hooks_auto_accept") is True


def add_shell_hooks(
    raw: Mapping[str, Any], home: Path, environ: Mapping[str, str], hooks: Hooks
) -> None:
    """Register the commands that were agreed to; log the others, with how to agree."""
    commands, problems = read_hooks(raw)
    for problem in problems:
        log.error("config.yaml: %s; it is left out", problem)
    if accepts_all(raw, environ):
        try:
            agree(home, [(hook.event, hook.command) for hook in commands])
        except OSError as error:
            log.warning("The consent to shell hooks could not be kept: %s", error)
        agreed = {(hook.event, hook.command) for hook in commands}
    else:
        agreed = set(read_consents(home))
    for hook in commands:
        if (hook.event, hook.command) in agreed:
            # The command is stopped at its own limit; this second limit is for when stopping it
            # fails.
            callback = Callback(
                f"shell hook {hook.command!r}",
                hook.event,
                _caller(hook, home, environ),
                hook.timeout + 5,
            )
            hooks.add(hook.event, callback)
        else:
            log.warning(
                "The shell hook %r for %s is not run: nobody has agreed to it. To agree, run:"
                " hermes hooks accept (or start Hermes with --accept-hooks)",
                hook.command,
                hook.event,
            )


def _caller(hook: ShellHook, home: Path, environ: Mapping[str, str]) -> Any:
    def call(**kwargs: Any) -> Any:
        tool = kwargs.get("tool_name")
        if hook.matcher and not (isinstance(tool, str) and hook.matcher.fullmatch(tool)):
            return None
        return run_hook(hook, home, kwargs, environ).value

    return call


def run_hook(
    hook: ShellHook, home: Path, kwargs: Mapping[str, Any], environ: Mapping[str, str]
) -> Answer:
    """Run the command once; TookTooLong if it had to be stopped, OSError if it cannot start.

    `environ` is the environment with `.env` beneath it, for what `pass_env` names.
    """
    words = shlex.split(hook.command)
    words[0] = os.path.expanduser(words[0])  # noqa: PTH111 - a word of a command, not a path yet
    own = _environment(hook, home, environ)
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as errors,
        _walled(hook, home, words, own) as (argv, variables, fds),
    ):
        given.write(json.dumps(payload(hook.event, kwargs), default=str).encode())
        given.seek(0)
        process = subprocess.Popen(
            argv,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=variables,
            start_new_session=True,
            pass_fds=fds,
        )
        too_late = threading.Event()

        def stop() -> None:
            too_late.set()
            _kill(process)

        timer = threading.Timer(hook.timeout, stop)
        timer.daemon = True
        timer.start()
        assert process.stdout is not None
        try:
            with process.stdout:
                output = process.stdout.read(MOST_OUTPUT)
            _kill_if_it_says_more(process, output)
            process.wait()
        finally:
            timer.cancel()
        if too_late.is_set():
            raise TookTooLong(f"was stopped after {hook.timeout:g} s")
        errors.seek(0)
        complaint = errors.read(2_000).decode(errors="replace").strip()
    text = output.decode(errors="replace")
    if process.returncode:
        log.warning(
            "The shell hook %r ended with %d: %s", hook.command, process.returncode, complaint
        )
    return Answer(process.returncode, text, complaint, asked_for(hook, text))


@contextmanager
def _walled(
    hook: ShellHook, home: Path, words: list[str], environ: dict[str, str]
) -> Iterator[tuple[list[str], dict[str, str], tuple[int, ...]]]:
    """How to start the command: as it is, or inside a wall where the person said so."""
    if hook.roots is None:
        yield words, environ, ()
        return
    folder = home.resolve() / RUN_FOLDER / f"hook-{os.urandom(8).hex()}"
    fds: tuple[int, ...] = ()
    try:
        wall = ProgramWall(hook.roots, sandbox="required")
        argv, variables, fds = wall.confine(words, environ, home, folder)
        yield argv, variables, fds
    finally:
        for descriptor in fds:
            os.close(descriptor)
        remove_tree(folder, reopen=True)


def payload(event: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a command is told."""
    apart = ("tool_name", "args", "session_id")
    return {
        "hook_event_name": event,
        "tool_name": kwargs.get("tool_name"),
        "tool_input": kwargs.get("args"),
        "session_id": kwargs.get("session_id") or kwargs.get("parent_session_id") or "",
        "cwd": os.getcwd(),  # noqa: PTH109 - as the person sees it, links not followed
        "extra": {name: value for name, value in kwargs.items() if name not in apart},
    }


def asked_for(hook: ShellHook, output: str) -> dict[str, Any] | None:
    """What an answer asks for, in the hook's terms; None if it asks for nothing known."""
    if not output.strip():
        return None
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        log.warning("The shell hook %r did not answer with JSON: %.200s", hook.command, output)
        return None
    if not isinstance(answer, dict):
        return None
    if answer.get("decision") == "block" or answer.get("action") == "block":
        reason = answer.get("reason") or answer.get("message")
        text = reason if isinstance(reason, str) else f"Blocked by {hook.command}."
        if hook.event == "pre_verify":
            return {"action": "continue", "message": text}
        return {"action": "block", "message": text}
    if isinstance(answer.get("context"), str):
        return {"context": answer["context"]}
    return None


def _environment(hook: ShellHook, home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    kept = child_environment({**named(environ, hook.pass_env), **os.environ}, hook.pass_env)
    return {**kept, **session_environ(), "HERMES_HOME": str(home)}


def _kill_if_it_says_more(process: subprocess.Popen[bytes], output: bytes) -> None:
    if len(output) == MOST_OUTPUT:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command with everything it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it is gone already
        return
