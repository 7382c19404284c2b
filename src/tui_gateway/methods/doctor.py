"""The doctor: what is wrong, and its cures. The command does the work, in a process of its own:
it looks at what is above the session server too, and a check that hangs holds up nobody."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

from .. import shapes_reading as wire
from ..clients import OPERATE
from ..rpc import Call, RpcError, method

LONGEST = 600.0
"""Seconds: a large store is read from beginning to end."""
NOT_EXAMINED = 5023
NO_SUCH_PART = 4017
_PART = re.compile(r"[a-z][a-z ]{0,40}")


@method("doctor.check", scope=OPERATE, slow=True)
def check(call: Call) -> wire.Examined:
    """Examine every part; nothing is changed."""
    return {"parts": _examine()}


@method("doctor.mend", scope=OPERATE, slow=True)
def mend(call: Call, part: str) -> wire.Examined:
    """Fix what can be fixed in one part, as `hermes doctor --fix PART` does."""
    if not _PART.fullmatch(part):
        raise RpcError(NO_SUCH_PART, "The doctor examines no such part. See: hermes doctor")
    return {"parts": _examine("--fix", part)}


def _examine(*arguments: str) -> list[wire.ExaminedPart]:
    from agent.home import hermes_home
    from hermes_base.redaction import redact

    command = [sys.executable, "-m", "hermes_cli.main", "doctor", "--json", *arguments]
    environ = {**os.environ, "HERMES_HOME": str(hermes_home())}
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, env=environ, timeout=LONGEST,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        text = "The doctor did not answer. Run it in a terminal: hermes doctor"
        raise RpcError(NOT_EXAMINED, text) from error
    try:
        found: dict[str, Any] = json.loads(done.stdout)["parts"]
    except (ValueError, KeyError) as error:
        lines = redact(done.stderr.decode("utf-8", "replace")).strip().splitlines()
        text = lines[-1].removeprefix("hermes: ") if lines else "The doctor did not answer."
        raise RpcError(NOT_EXAMINED, text) from error
    return [
        {
            "name": name,
            "fixed": [str(problem) for problem in part["fixed"]],
            "ailments": [
                {
                    "problem": str(one["problem"]),
                    "advice": str(one["advice"]),
                    "fixable": bool(one["fixable"]),
                    "hint": bool(one["hint"]),
                }
                for one in part["ailments"]
            ],
        }
        for name, part in found.items()
    ]
