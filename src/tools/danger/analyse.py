"""Which shell commands are dangerous, however they are written.

`analyse` follows a command the way a shell would (parse, expand, walk), through
quoting, variables, substitutions, pipes, encodings and programs that start other programs, and asks
rules (rules_*) about each program it comes to. Nothing is run. What cannot be followed is a
finding of its own: a command passes only if it was understood.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from .budget import Budget, TooComplex
from .disguises import plain
from .finding import Finding
from .marks import PARENT, without_marks
from .paths import Places
from .walk import Walker

LONGEST = 131_072
"""Characters; a longer command needs approval, and is only searched for the patterns in `deny`."""

_EVERYWHERE = {"SHELL": "/bin/bash", "BASH": "/bin/bash", "IFS": " \t\n", "PPID": PARENT}


_LOOKING = frozenset({"ls", "readlink", "stat", "test", "[", "pwd", "true"})


def analyse(
    command: str,
    cwd: Path,
    *,
    home: Path | None = None,
    user_home: Path | None = None,
    environ: Mapping[str, str] | None = None,
    start: Path | None = None,
    stdin: str | None = None,
    deny: Iterable[str] = (),
    is_plain_sh: bool = False,
    budget: Budget | None = None,
    own_files: frozenset[str] = frozenset(),
    wrote: set[str] | None = None,
) -> list[Finding]:
    """What is dangerous about a command; empty if it may run without asking.

    `cwd` is where the conversation works, `start` where the command begins, if elsewhere; `home` is
    the Hermes home; `environ` is what is known of the environment the command gets (any other
    variable could hold anything); `stdin` is what it is given to read. Patterns in `deny` must
    never be run: they are searched for in the command as it is written and in each command it leads
    to. The command is read as by bash, or with `is_plain_sh` as by a shell that knows less.
    `own_files` are the real paths of what the conversation wrote before; what this command writes
    is added to `wrote`, as far as it is known.
    """
    budget = budget or Budget()
    user = str(user_home or Path.home())
    places = Places(
        working=os.path.normpath(str(cwd)),
        user_home=user,
        hermes_home=os.path.normpath(str(home)) if home else f"{user}/.hermes",
    )
    text = without_marks(command)
    seen = [text, plain(text)]
    if len(command) > LONGEST:
        too_long = Finding("complex", "A command too long to be looked through")
        return _worst_first([too_long, *_denied(seen, deny)])
    known = {**_EVERYWHERE, "HOME": user, **(environ or {})}
    begin = os.path.normpath(str(cwd / start)) if start is not None else places.working
    walker = Walker(places, known, budget, begin)
    walker.is_plain_sh = is_plain_sh
    walker.own_files = own_files
    findings = [Finding("disguise", "Characters no text may hold")] if text != command else []
    try:
        walker.script(text, None if stdin is None else without_marks(stdin))
    except (TooComplex, RecursionError):
        findings.append(Finding("complex", "A command too complex to be followed to its end"))
    if wrote is not None:
        wrote |= walker.wrote
    if walker.links and (">" in text or not _ends_with_link(walker.commands)):
        walker.report("link-outside", "Makes a link to something outside")
    findings += [Finding(*danger) for danger in walker.dangers.values()]
    findings += _denied([*seen, *walker.commands], deny)
    return _worst_first(findings)


def _ends_with_link(commands: list[str]) -> bool:
    """Whether the command ends with making a link, so that nothing goes through it."""
    programs = [command.split(" ", 1)[0] for command in commands]
    return "ln" in programs and _LOOKING.issuperset(programs[programs.index("ln") + 1 :])


def _denied(seen: list[str], deny: Iterable[str]) -> list[Finding]:
    findings = []
    for pattern in deny:
        expression = as_pattern(pattern)
        if any(expression.search(text) for text in dict.fromkeys(seen)):
            findings.append(Finding(f"denied:{pattern}", f"Forbidden here: {pattern}", hard=True))
    return findings


def as_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of the configuration; one that is not valid is taken as the text it is."""
    try:
        return re.compile(pattern)
    except re.error:
        return re.compile(re.escape(pattern))


def _worst_first(findings: list[Finding]) -> list[Finding]:
    by_key: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda danger: not danger.hard):
        by_key.setdefault(finding.pattern_key, finding)
    return list(by_key.values())
