"""From a program's name to what is known about it.

A program without a rule is let through: what it does is its own business. That its name or its
arguments are hidden is not.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from .builtins import BUILTINS
from .call import Call, Rule
from .filters import FILTERS
from .interpreters import INTERPRETERS, run_file
from .marks import OBSCURE, UNKNOWN, as_literal, has_glob, has_unknown, readable
from .own_files import check_program
from .rules_cloud import CLOUD
from .rules_files import FILES
from .rules_git import GIT
from .rules_network import NETWORK
from .rules_own import OWN
from .rules_system import SYSTEM
from .state import Values
from .wrappers import WRAPPERS

if TYPE_CHECKING:
    from .walk import Walker

RULES: dict[str, Rule] = {
    **FILTERS, **FILES, **SYSTEM, **NETWORK, **GIT, **CLOUD, **OWN, **INTERPRETERS, **WRAPPERS,
    **BUILTINS,
}  # fmt: skip
"""What a program's arguments mean; a rule gives what the program prints, if it is known."""

_VERSION = re.compile(
    r"(python|pypy|perl|ruby|php|lua|node|pip|gcc|clang|java)[0-9.]+(?:w|-config)?"
)
_PRINTERS = frozenset({"echo", "printf", ":", "true", "false", "logger", "test", "[", "expr"})
_NOT_READING = _PRINTERS | {
    "ls", "ll", "dir", "stat", "cd", "pushd", "pwd", "which", "type", "whereis", "dirname",
    "basename", "realpath", "readlink", "mkdir", "rmdir", "find", "fd", "locate", "tree", "du",
    "df", "export", "declare", "local", "readonly", "unset", "alias", "kill", "sleep", "exit",
    "return", "ssh-add", "ssh-keygen", "man", "apropos", "tldr", "help", "curl", "wget", "ssh",
    "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "mawk", "jq", "yq",
    "eval", "set", "trap", "for", "git",
}  # fmt: skip
_OUTPUT = frozenset({"-o", "--output", "--out", "--output-file", "--outfile", "--log-file"})
_LONGEST_PATH = 4096

_RUNS_A_COMMAND = frozenset({
    "PROMPT_COMMAND", "PAGER", "MANPAGER", "GIT_PAGER", "EDITOR", "VISUAL", "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS",
    "SSH_ASKPASS", "SUDO_ASKPASS", "LESSOPEN", "LESSCLOSE", "BROWSER", "PS0", "PS1", "PS2", "PS4",
    "GIT_PROXY_COMMAND", "RSYNC_RSH", "CVS_RSH", "SUDO_EDITOR", "FCEDIT", "TERMINAL",
})  # fmt: skip
_LOADS_CODE = frozenset({
    "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PYTHONSTARTUP",
    "PERL5OPT", "RUBYOPT", "PYTHONINSPECT", "JAVA_TOOL_OPTIONS", "GCONV_PATH", "PERL5DB",
})  # fmt: skip


def check_variable(shell: Walker, name: str, values: Values) -> None:
    """Variables that make other programs run something."""
    if name in _LOADS_CODE and values != {""}:
        shell.report("loads-code", f"{name} makes programs load other code")
    if name in _RUNS_A_COMMAND or name.startswith("GIT_CONFIG_"):
        for value in values:
            if has_unknown(value):
                shell.report("unclear-script", f"{name} holds a command that is not known")
            else:
                shell.child_script(value)


def program_name(name: str) -> str:
    """The name a program is known by: no folder, no version, no capital letters."""
    base = name.rsplit("/", 1)[-1].lower().removesuffix(".exe")
    if base.startswith("mkfs."):
        return "mkfs"
    if base.startswith(("ld-linux", "ld-musl", "ld.so", "ld64.so")):
        return "ld.so"
    match = _VERSION.fullmatch(base)
    return match[1] if match else base


def follow(shell: Walker, fields: list[str], stdin: str | None) -> str:
    """Follow a command; gives what it prints."""
    while fields and not fields[0]:
        fields = fields[1:]  # `"$@" cmd` without arguments is `cmd`
    if not fields:
        return ""
    shell.budget.spend(4 + len(fields) + sum(map(len, fields)) // 8)
    shell.commands.append(readable(" ".join(fields)))
    name, arguments = fields[0], fields[1:]
    base = name.rsplit("/", 1)[-1]
    if not base or has_unknown(_behind_folder(name)) or has_glob(base):
        what = "hidden" if OBSCURE in base else "not known beforehand"
        shell.report("unclear", f"The program that is run is {what}: {readable(name)[:60]}")
        return UNKNOWN
    printed = None
    if name in shell.state.aliases:
        printed = _aliased(shell, name, arguments, stdin)
    if name in shell.state.functions:
        printed = shell.call(name, arguments, stdin)
    if "/" in name:
        run_file(shell, name, arguments, is_direct=True)
    program = program_name(name)
    # A copy or a link by another name does the same; by the same name it is still suspected.
    for candidate in dict.fromkeys((program, program_name(shell.state.programs.get(base, name)))):
        call = Call(shell, candidate, arguments, stdin)
        check_arguments(call)
        check_program(call)
        rule = RULES.get(candidate)
        if rule is not None:
            result = rule(call)
            printed = result if printed is None else printed
    return UNKNOWN if printed is None else printed


def _behind_folder(name: str) -> str:
    """A program's name without a folder at its beginning that is not known: `$VENV/bin/python`."""
    folder, slash, rest = name.partition("/")
    return rest if slash and len(folder) == 1 else name


def _aliased(shell: Walker, name: str, arguments: list[str], stdin: str | None) -> str:
    text = shell.state.aliases.pop(name)  # an alias does not stand for itself within itself
    try:
        quoted = " ".join("'" + argument.replace("'", "'\\''") + "'" for argument in arguments)
        return shell.script(f"{text} {quoted}", stdin)
    finally:
        shell.state.aliases[name] = text


def check_arguments(call: Call) -> None:
    """What can be said of arguments whatever the program: hidden ones, and files with secrets."""
    for argument in call.arguments:
        if OBSCURE in argument and call.name not in _PRINTERS:
            call.report("obscured", "An argument is hidden by an encoding")
    for option, value in zip(call.arguments, call.arguments[1:], strict=False):
        if option in _OUTPUT and not has_unknown(value[:1]):
            call.shell.writes(value)
    if call.name in _NOT_READING:
        return
    for argument in call.arguments:
        reads_argument(call, argument)


def reads_argument(call: Call, argument: str) -> None:
    """Note it if an argument is, or holds, the name of a file with secrets."""
    if argument.startswith("-") and "=" not in argument and "@" not in argument:
        return
    texts = {argument}
    for sign in ("=", "@", ":"):
        if sign in argument:
            texts.add(argument.rsplit(sign, 1)[1])
    for text in texts:
        text = text.removeprefix("file://")
        call.shell.budget.spend(8)
        if 0 < len(text) <= _LONGEST_PATH and _could_be_path(call.shell, text):
            call.shell.budget.spend(8)
            call.shell.reads(text)


def _could_be_path(shell: Walker, text: str) -> bool:
    if "://" in text and not text.startswith("file://"):
        return False
    if "/" in text or has_glob(text):
        return True
    if text.startswith(".") and not any(sign in text for sign in " \n(){}|"):
        return True
    if "\0" in text:
        return False
    if shell.state.directories != {shell.places.working}:
        return True  # whoever goes somewhere means the files there
    # Any other bare word is a file only if there is one.
    return any(
        os.path.lexists(path) or path in shell.state.files
        for path in map(as_literal, shell.paths(text))
    )
