"""The parser of the command line: says what was meant when something is misspelt."""

from __future__ import annotations

import argparse
import os
import sys

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of examples; as wide as the terminal."""

    def __init__(self, prog: str, **options: Any) -> None:
        # What argparse imports to find the width takes longer than drawing the help.
        options.setdefault("width", _columns() - 2)
        super().__init__(prog, **options)


def _columns() -> int:
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdigit() and int(chosen) > 20:
        return int(chosen)
    try:
        return max(20, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (AttributeError, ValueError, OSError):  # closed, or no terminal
        return 80


class Parser(argparse.ArgumentParser):
    """An argument parser with examples and suggestions; the parsers of commands are the same."""

    def __init__(self, *args: Any, examples: str = "", **options: Any) -> None:
        """`examples` are lines of `command  what it does`, shown at the end of the help."""
        if examples:
            lines = (f"  {line}" for line in examples.strip().splitlines())
            options["epilog"] = "\n".join(("examples:", *lines))
        options.setdefault("formatter_class", Help)
        # An abbreviation that works today would mean something else tomorrow.
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            what = action.metavar if isinstance(action.metavar, str) else action.dest
            raise argparse.ArgumentError(
                None, f"there is no {what} {value!r}.{meant(value, known)}"
            )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is left over is a mistake, and maybe a misspelt option."""
        parsed, left = self.parse_known_args(args, namespace)
        if left:
            options = {
                name for parser in self._all_parsers() for name in parser._option_string_actions
            }
            hints = "".join(meant(option, options) for option in left if option.startswith("-"))
            self.error(f"what is {' '.join(left)!r} for?{hints}")
        return parsed

    def _all_parsers(self) -> Iterable[argparse.ArgumentParser]:
        waiting: list[argparse.ArgumentParser] = [self]
        while waiting:
            parser = waiting.pop()
            yield parser
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    waiting += action.choices.values()

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read more; exits with 2."""
        self.exit(2, f"{self.prog.split()[0]}: {message} See: {self.prog} --help\n")


def meant(word: object, known: Iterable[str]) -> str:
    """A sentence that suggests what is nearest to a misspelt word, or names what there is."""
    import difflib

    known = sorted(known)
    near = difflib.get_close_matches(str(word), known, n=1, cutoff=0.6)
    if near:
        return f" Did you mean {near[0]}?"
    return f" There are: {', '.join(known)}." if 0 < len(known) <= 12 else ""
