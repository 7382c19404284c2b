"""Answering one line of JSON with another, in a process of its own; `processes.Child` asks.

Only the standard library is used: the interpreter may be that of hermes-agent.
"""

from __future__ import annotations

import contextlib
import json
import sys


def answer_lines(worker: object) -> None:
    """Call the method that each line of standard input names, until there are no more."""
    replies = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # nothing that is printed may mix with the replies
        for line in sys.stdin:
            request = json.loads(line)
            reply = getattr(worker, request.pop("do"))(**request)
            print(json.dumps(reply), file=replies, flush=True)
