"""A command that the person runs from the input line."""

from __future__ import annotations

import shutil
from pathlib import Path

from .. import shapes_work as wire
from ..rpc import Call, RpcError, method

NO_COMMAND = 4004
DANGEROUS = 4005
TOO_LONG = 5002
NOT_STARTED = 5003
SECONDS = 30.0


@method("shell.exec", slow=True)
def execute(call: Call, command: str, session_id: str | None = None) -> wire.ShellResult:
    """Run a short command in the session's folder; what looks dangerous is refused.

    It gets no input, none of the agent's keys, and 30 seconds.
    """
    folder = Path(call.session(session_id)["cwd"]) if session_id else Path.cwd()
    if not command.strip():
        raise RpcError(NO_COMMAND, "The command is empty.")
    from tools.danger.analyse import analyse

    config = call.config
    findings = analyse(
        command,
        folder,
        home=config.home,
        deny=config.approvals.deny,
        is_plain_sh=shutil.which("bash") is None,
    )
    if findings:
        reasons = "; ".join(dict.fromkeys(finding.description for finding in findings))
        raise RpcError(DANGEROUS, f"Not run: {reasons}. Run it in a terminal of your own.")
    from ..run_command import TookTooLongError, run

    try:
        done = run(command, folder, SECONDS)
    except TookTooLongError as error:
        raise RpcError(TOO_LONG, str(error)) from error
    except (OSError, ValueError) as error:  # ValueError: a character that no command can have
        raise RpcError(NOT_STARTED, f"It cannot be started: {error}.") from error
    return {"stdout": done.stdout, "stderr": done.stderr, "code": done.code}
