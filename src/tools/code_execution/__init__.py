"""`execute_code`: a Python child process that may call tools while it runs.

The child gets an empty directory, an environment without credentials and limits on memory, files
and processor time. However it ends, everything it started ends with it. Through the module
`hermes_tools` it calls an allowed list of tools; each call goes the way that a call of the model
goes, approvals included.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from .. import approval
from ..base import Tool, ToolContext, ToolError, tool
from ..own_folders import output_folder
from ..processes.identity import MARKER, Target, marker_value, new_marker, start_time, stop
from ..processes.ledger import Ledger, Record
from ..terminal.environ import child_environment, names
from ..terminal.output import OutputBuffer, Progress
from ..terminal.place import passed_environment
from ..terminal.spawn import FIRST_FURTHER, spawn
from ..trees import remove_tree
from ..wall.guardhouse import guardhouse_of
from ..wall.policy import own_places
from ..wall.seatbelt import Seatbelt
from ..wall.warden import Warden
from .child import HERMES_TOOLS, START
from .socket import DESCRIPTOR_VARIABLE, TOKEN_VARIABLE, ToolSocket

MAX_SECONDS = 300.0
_TICK = 0.05
_GRACE_SECONDS = 0.1


def _check() -> str | None:
    return None if os.name == "posix" else "it needs a POSIX system (Linux or macOS)"


@tool(toolset="code_execution", effect="effectful", check=_check)
def execute_code(context: ToolContext, code: str) -> str:
    """Run a Python program and return what it prints.

    Use it for calculations, for working through data, and when several tool calls depend on each
    other or their results need filtering before you read them. Print what you want to see. The
    program runs in an empty temporary directory that is deleted afterwards, for at most 5 minutes.

    `from hermes_tools import read_file, write_file, patch, search_files, terminal, web_fetch,
    session_search` gives it these tools; they take the same parameters as yours, work in your
    working directory, return text, and raise hermes_tools.ToolError when they fail.

    code: the program
    """
    if not code.strip():
        raise ToolError("There is no code to run.")
    guardhouse = guardhouse_of(context.workspace)
    if guardhouse is None:
        approval.check_action(context, "execute-code", "Run a Python program", code)
        warden = None
        # The path of a socket may have some 100 characters only.
        place = "/tmp" if len(tempfile.gettempdir()) > 75 else None
    else:
        warden = guardhouse.warden(context)
        place = str(guardhouse.folder)
    folder = Path(tempfile.mkdtemp(prefix="hermes-code-", dir=place))
    # What is inside a wall can write only where the agent itself writes nothing.
    scratch = folder if guardhouse is None else own_places(guardhouse.folder)[0]
    work = Path(tempfile.mkdtemp(prefix="work-", dir=scratch))
    try:
        _write(folder / "script.py", code)
        _write(folder / "hermes_tools.py", HERMES_TOOLS)
        _write(folder / "start.py", START)
        return _run(context, folder, work, warden)
    finally:
        remove_tree(folder)
        remove_tree(work)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    path.chmod(0o600)


def _run(context: ToolContext, folder: Path, work: Path, warden: Warden | Seatbelt | None) -> str:
    # Only here: the parts that know processes are not needed to offer the tool.
    home = context.workspace.home
    output = OutputBuffer(output_folder(context), "execute_code")
    progress = Progress(context.progress)
    ledger, marker = Ledger(home), new_marker()
    place = None if warden is not None else folder / "socket"
    with ToolSocket(place, context.services.call_tool) as tools:
        environ = {
            **_environment(context, warden),
            MARKER: marker_value(marker),
            TOKEN_VARIABLE: tools.token,
        }
        argv = [sys.executable, "-I", "-B", "-X", "utf8", str(folder / "start.py")]
        ledger.add(Record(marker, context.session_id, "foreground"))
        try:
            further = []
            if tools.theirs is not None:
                environ[DESCRIPTOR_VARIABLE] = str(FIRST_FURTHER)
                further = [tools.theirs.fileno()]
            child = spawn(
                argv,
                environ,
                work,
                pty=False,
                stdin=False,
                warden=warden,
                further=further,
            )
            if tools.theirs is not None:
                tools.theirs.close()  # the child's now
        except OSError as error:
            ledger.remove(marker)
            raise ToolError(f"Python could not be started: {error}.") from error
        target = Target(marker, child.pid, start_time(child.pid))
        how: Literal["ended", "timeout", "cancelled"] = "ended"
        try:
            ledger.update(marker, pid=target.pid, start=target.start)
            seconds = _seconds(context.workspace.settings)
            deadline = time.monotonic() + seconds
            while not child.ended():
                if context.cancelled.is_set():
                    how = "cancelled"
                    break
                if time.monotonic() > deadline:
                    how = "timeout"
                    break
                progress.add(output.feed(child.read(_TICK)))
        finally:
            code = child.process.poll()
            stop([target], _GRACE_SECONDS, between=child.ended)
            if tools.is_busy:
                # A tool that the program called is still at it, for nobody.
                context.cancelled.set()
            if not child.ended():  # a system without /proc
                child.process.kill()
                child.process.wait()
            child.rest(lambda data: progress.add(output.feed(data)))
            child.close()
            ledger.remove(marker)
    progress.flush()
    text = output.finish().rstrip()
    if how == "timeout":
        shown = f" It had printed:\n{text}" if text else ""
        raise ToolError(
            f"The code was stopped after {seconds:g} seconds, with all it had started. "
            f"Do less at once, or use terminal with background.{shown}"
        )
    if how == "cancelled":
        raise ToolError(f"The code was interrupted. {text}".rstrip())
    return _result(text, code)


def _result(text: str, code: int | None) -> str:
    if code:
        return f"{text}\n[exit code {code}{_cause(code)}]".lstrip()
    return text or "[no output: print what you want to see]"


def _cause(code: int) -> str:
    """What a signal probably means here."""
    causes = {
        signal.SIGXCPU: "too much processor time",
        signal.SIGXFSZ: "a file grew too large",
        signal.SIGSEGV: "crashed",
        signal.SIGKILL: "killed, probably out of memory or processor time",
    }
    return f": {causes[-code]}" if -code in causes else ""  # type: ignore[index]


def _environment(context: ToolContext, warden: Warden | Seatbelt | None) -> dict[str, str]:
    settings = context.workspace.section("terminal")
    environ = {**passed_environment(settings), **context.workspace.environ}
    environ = child_environment(environ, names(settings.get("pass_env")))
    guardhouse = guardhouse_of(context.workspace) if warden is not None else None
    return environ if guardhouse is None or warden is None else guardhouse.environ(environ, warden)


def _seconds(settings: Mapping[str, Any]) -> float:
    section = settings.get("code_execution")
    wanted = section.get("timeout") if isinstance(section, Mapping) else None
    return min(float(wanted), MAX_SECONDS) if wanted else MAX_SECONDS


TOOLS: list[Tool] = [execute_code]
