"""Run a command: every user error becomes a sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from hermes_cli.terminal_guard import guard_terminal

SIGPIPE_CODE = 141
"""What a shell reports for a program whose reader has left."""


class UserError(Exception):
    """Something a person can correct; the message says how."""


class NotDone(Exception):
    """The command failed, not by a mistake of the person; the message says why."""


def carry_out(module: str, args: argparse.Namespace) -> int:
    """Run the chosen action (`act`) of a command, or its module's `run`; returns the exit code."""
    from agent.home import ConfigError
    from hermes_state import StoreError

    guard_terminal()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that lacks a letter is no reason to fail
    try:
        act = getattr(args, "act", None) or importlib.import_module(module).run
        code = int(act(args))
        sys.stdout.flush()
        return code
    except (UserError, ConfigError) as error:
        print(f"hermes: {error}", file=sys.stderr)
        return 2
    except (NotDone, StoreError) as error:
        print(f"hermes: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SIGPIPE_CODE
    except KeyboardInterrupt:
        print("\n[interrupted]", file=sys.stderr)
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"hermes: {place}{error.strerror or error}", file=sys.stderr)
        return 1
