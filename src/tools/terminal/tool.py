"""The terminal tool: run a command and tell the model how it went."""

from __future__ import annotations

import re
import signal
import sys
import time
from contextlib import suppress

from hermes_base import plugins

from ..base import Tool, ToolContext, ToolError, Workspace, tool
from ..own_folders import output_folder
from ..processes.background import close_processes, start_background
from ..processes.identity import Seen, name_of
from ..wall.leaving import Needs, hint, parse_needs
from ..wall.telling import remark_of_none
from .output import OutputBuffer, Progress
from .place import close_place, place_of, sudo_password
from .run import How, Run, run_to_end

DEFAULT_TIMEOUT = 180
MAX_TIMEOUT = 3600
_LONG_SECONDS = 10

_HINTS = {
    124: "timeout(1) ended it",
    126: "found, but it cannot be executed: check its permissions",
    127: "command not found: check the spelling, or install it",
    130: "interrupted",
    137: "killed, perhaps out of memory",
    139: "it crashed",
    141: "it wrote to a pipe that was closed",
    143: "terminated",
}
_INTERRUPTED = "[interrupted by the user; the command and all it started were stopped]"
_KEPT_NOTHING = "[exported variables do not carry over this time: one of them is too large]"
_NO_MATCH = {"grep", "egrep", "fgrep", "rg", "ag", "pgrep"}


def unavailable() -> str | None:
    """Why there can be no terminal here, if so."""
    return "it needs a POSIX system" if sys.platform == "win32" else None


@tool(toolset="terminal", effect="effectful", check=unavailable)
def terminal(
    context: ToolContext,
    command: str,
    background: bool = False,
    timeout: float | None = None,
    workdir: str | None = None,
    pty: bool = False,
    notify_on_complete: bool = False,
    watch_patterns: list[str] | None = None,
    needs: list[str] | None = None,
) -> str:
    """Run a shell command (bash) and get its output, standard output and error together.

    The working directory and exported variables carry over to the next command. There is no
    standard input. A command that runs into its time limit is stopped with everything it started.
    For servers, watchers and long builds use background=true, then the process tool. To read,
    write or search files prefer read_file, write_file, patch and search_files.

    command: what to run; may be several lines
    background: start it and return at once with a session_id for the process tool
    timeout: seconds it may take in the foreground, up to 3600; 180 unless configured otherwise
    workdir: directory for this command alone
    pty: run it in a pseudo-terminal, for programs that insist on one
    notify_on_complete: with background, send a message when it ends
    watch_patterns: with background, send a message when a line contains one of these texts
    needs: what the command has to do beyond its wall, which the person is asked for: write:PATH,
        host:NAME, network (all of it), no wall
    """
    if not command.strip():
        raise ToolError("The command is empty. Say what to run.")
    seconds = _time_limit(context.workspace, timeout)
    wanted = parse_needs(context, needs or [])
    check_approval(context, command, workdir, wanted)
    place = place_of(context)
    password = sudo_password(context, place, command)
    if context.cancelled.is_set():
        return "[interrupted by the user before the command was started]"
    if password is not None and pty:
        raise ToolError("sudo cannot be given its password in a pseudo-terminal. Use pty=false.")
    launch, remark = place.launch(
        context,
        command,
        workdir,
        pty=pty,
        stdin=background,
        sudo=password is not None,
        grants=wanted.grants(),
    )
    if background:
        patterns = watch_patterns or []
        answer = start_background(context, place, launch, password, notify_on_complete, patterns)
        return _joined(answer, [remark_of_none(context)])
    run = Run(place.backend, launch, context.workspace.home, context.session_id, "foreground")
    buffer = OutputBuffer(output_folder(context), "terminal")
    progress = Progress(context.progress)
    started = time.monotonic()
    try:
        _write_first(run, password, is_local=place.backend.name == "local")
        how = run_to_end(
            run, seconds, lambda data: progress.add(buffer.feed(data)), context.cancelled.is_set
        )
    finally:
        ending, left = run.finish()
    progress.flush()
    if left:
        place.markers.add(launch.marker)
    moved_to = place.learn(context.workspace, launch, ending, moved=workdir is None)
    took = time.monotonic() - started
    remarks = [
        remark,
        _how_it_went(command, how, ending.code, seconds),
        f"[{ending.problem}]" if ending.problem and how == "ended" else "",
        _what_is_left(left),
        f"[{run.problem}]" if run.problem else "",
        f"[working directory: {moved_to}]" if moved_to else "",
        _KEPT_NOTHING if ending.state and ending.state.environ is None else "",
        remark_of_none(context),
        f"[took {took:.0f} s]" if took >= _LONG_SECONDS and how == "ended" else "",
    ]
    printed = buffer.finish()
    if launch.warden is not None and how == "ended":
        remarks.append(hint(context, printed, ending.code))
    output = _transformed(context, place.backend.name, command, printed, ending.code)
    return _joined(output, remarks)


def _transformed(
    context: ToolContext, backend: str, command: str, output: str, code: int | None
) -> str:
    """The output as a plugin wants it to be read."""
    if not plugins.has_hook("transform_terminal_output"):
        return output
    answers = plugins.invoke_hook(
        "transform_terminal_output",
        command=command,
        output=output,
        returncode=code,
        task_id=context.session_id,
        env_type=backend,
    )
    return next((answer for answer in answers if isinstance(answer, str)), output)


def check_approval(
    context: ToolContext, command: str, workdir: str | None = None, needs: Needs | None = None
) -> None:
    """Have a command approved, judged where it runs; ToolError if it is denied."""
    from tools import approval

    approval.check_command(context, command, workdir=workdir, needs=needs)


def close_terminal(workspace: Workspace) -> None:
    """End all that a conversation has running; call it when the conversation is closed."""
    close_processes(workspace)
    close_place(workspace)


def _write_first(run: Run, password: str | None, *, is_local: bool) -> None:
    """Give sudo its password; after that nobody types anything."""
    if password is not None:
        with suppress(BrokenPipeError):  # sudo did not want it after all
            run.child.write(password.encode() + b"\n", 5, lambda: False)
    # A client may not have taken over its terminal yet, and would send something else than an end.
    if is_local or not run.child.is_pty:
        run.child.close_input()


def _time_limit(workspace: Workspace, timeout: float | None) -> float:
    if timeout is None:
        configured = float(workspace.section("terminal").get("timeout") or DEFAULT_TIMEOUT)
        return min(configured, MAX_TIMEOUT)
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ToolError(
            f"timeout is in seconds, at most {MAX_TIMEOUT}. Use background=true for what takes"
            " longer."
        )
    return timeout


def _how_it_went(command: str, how: How, code: int | None, seconds: float) -> str:
    if how == "cancelled":
        return _INTERRUPTED
    if how == "timeout":
        return (
            f"[timed out after {seconds:g} s; the command and all it started were stopped. Allow a"
            f" longer timeout (up to {MAX_TIMEOUT}), or use background=true and the process tool.]"
        )
    if not code:
        return ""
    hint = _HINTS.get(code, "")
    last = re.split(r"[|;&\n]+", command.strip())[-1].split()
    if code == 1 and last and last[0] in _NO_MATCH:
        hint = "nothing matched"
    elif not hint and 128 < code <= 128 + 64:
        hint = _signal_name(code - 128)
    return f"[exit code {code}: {hint}]" if hint else f"[exit code {code}]"


def _signal_name(number: int) -> str:
    try:
        return f"ended by {signal.Signals(number).name}"
    except ValueError:
        return ""


def _what_is_left(left: list[Seen]) -> str:
    if not left:
        return ""
    names = ", ".join(f"{process.pid} ({name_of(process.pid)})" for process in left[:5])
    return (
        f"[still running in the background: {names}. It is stopped when Hermes ends; use"
        " background=true to watch such a process, setsid to let it outlive Hermes.]"
    )


def _joined(output: str, remarks: list[str]) -> str:
    # A path may hold bytes that are no text.
    text = "\n".join(filter(None, remarks)).encode("utf-8", "replace").decode()
    if not output.strip():
        return text or "[no output]"
    return f"{output.rstrip()}\n{text}" if text else output.rstrip("\n")


TOOLS: list[Tool] = [terminal]
