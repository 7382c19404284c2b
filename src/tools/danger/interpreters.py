"""Programs that run what they are given: shells, and interpreters of other languages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import own_files
from .budget import TooComplex
from .call import Call, Rule
from .code import check_code, prints_only
from .marks import (
    OBSCURE,
    UNKNOWN,
    as_literal,
    has_glob,
    has_marks,
    has_unknown,
)
from .rules_own import own_file, own_module

if TYPE_CHECKING:
    from .walk import Walker

_SHELLS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "yash",
    "oksh", "pdksh", "posh", "elvish", "nu", "xonsh", "osh",
})  # fmt: skip
_RICH = frozenset({"bash", "zsh", "ksh", "mksh", "rbash"})
_STANDARD = _RICH | {"sh", "dash", "ash", "yash", "posh"}
_ONLY_ZSH = re.compile(r"[\w*?\])/]\(|\$\{\(|(?:^|\s)=[\w(]|<->")
_LARGEST_SCRIPT = 200_000
_INPUT = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_SHEBANG = re.compile(
    r"#![ \t]*(?:\S*/)?([A-Za-z]+)[0-9.]*(?:[ \t]+(?:-\S+[ \t]+)*(?:\S*/)?([A-Za-z]+))?"
)

_FED = "Feeds an interpreter input that cannot be known beforehand"


def run_shell(call: Call) -> str:
    """`sh -c text`, `sh file`, `… | sh`."""
    is_plain = call.name not in _RICH
    if call.name not in _STANDARD:
        call.report("unclear-script", "Runs commands in the language of another shell")
    arguments = list(call.arguments)
    has_command = reads_input = False
    while arguments and arguments[0][:1] in ("-", "+") and arguments[0] != "-":
        argument = arguments.pop(0)
        if argument == "--":
            break
        if argument in ("--rcfile", "--init-file") and arguments:
            run_file(call.shell, arguments.pop(0), [])
        elif argument in ("--command", "--init-command") and arguments:
            call.shell.child_script(arguments.pop(0), call.stdin)
        elif argument.startswith("--"):
            continue
        else:
            has_command |= "c" in argument
            reads_input |= "s" in argument
            if (argument[-1] in "oOC" and arguments and "c" not in argument) or (
                argument[-1] in "oO" and arguments
            ):
                arguments.pop(0)
    if has_command:
        text = arguments[0] if arguments else ""
        name = arguments[1] if len(arguments) > 1 else "bash"
        if call.name == "zsh" and _ONLY_ZSH.search(text):
            call.report("unclear-script", "Runs commands in the language of another shell")
        return call.shell.child_script(text, call.stdin, arguments[2:], name, is_plain_sh=is_plain)
    arguments = [argument for argument in arguments if argument != "-"]
    if arguments and not reads_input:
        return run_file(call.shell, arguments[0], arguments[1:], stdin=call.stdin)
    if call.stdin is None:
        return UNKNOWN
    if has_unknown(call.stdin):
        call.report("pipe-to-shell", "Pipes something into a shell that nobody has seen")
        return call.shell.doubted(lambda: call.shell.child_script(call.input, None, arguments))
    return call.shell.child_script(call.stdin, None, arguments, is_plain_sh=is_plain)


def run_file(
    shell: Walker,
    path: str,
    arguments: list[str],
    *,
    stdin: str | None = None,
    in_place: bool = False,
    is_direct: bool = False,
) -> str:
    """Follow a script in a file, as far as it can be known; gives what it prints."""
    if path in _INPUT and stdin is not None:
        if has_unknown(stdin):
            shell.report("pipe-to-shell", "Pipes something into a shell that nobody has seen")
        return shell.child_script(stdin)
    if has_unknown(path) and not is_direct:
        shell.report("unclear-script", "Runs a script that cannot be known beforehand")
        return UNKNOWN
    for place in shell.paths(path):
        text = shell.state.files.get(place)
        if text is not None:
            return _run_written(shell, text, arguments, in_place)
        if not has_marks(place) and not is_direct:
            shell.reads(path)
        if own_files.is_own(shell, place):
            _run_own(shell, place, in_place=in_place, is_direct=is_direct)
        else:
            _look_into(shell, place)
    return UNKNOWN


def _run_own(shell: Walker, path: str, *, in_place: bool, is_direct: bool) -> None:
    """Run what the conversation wrote before; directly, its first line says what it is."""
    language = _language(_beginning(path))
    if is_direct and language not in _SHELLS:
        own_files.ask(shell, path)
    else:
        own_files.follow_script(shell, path, in_place=in_place)


def _beginning(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(200).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""  # then it cannot be run either


def _run_written(shell: Walker, text: str, arguments: list[str], in_place: bool) -> str:
    """Run what the same command has written, or fetched, before."""
    if has_unknown(text):
        shell.report("download-and-run", "Runs something that nobody has seen")
        return UNKNOWN
    language = _language(text)
    if language and language not in _SHELLS:
        check_code(shell, language, text)
        return UNKNOWN
    return shell.script(text) if in_place else shell.child_script(text, None, arguments)


def _language(text: str) -> str:
    match = _SHEBANG.match(text[:200])
    if not match:
        return ""
    return match[2] if match[1] == "env" and match[2] else match[1]


def _look_into(shell: Walker, path: str) -> None:
    """A shell script on disk must not do what must never be done."""
    if has_marks(path) or "\0" in path:
        return
    file = Path(path)
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST_SCRIPT:
            return
        text = file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return  # what cannot be read cannot be run either
    is_script = _language(text) in _SHELLS or (path.endswith(".sh") and "\0" not in text)
    if is_script:
        try:
            shell.existing_script(text)
        except TooComplex:
            return  # an ordinary large script; there were no findings in the part that was read


class Language(NamedTuple):
    """Which options of a language are followed by code, and which by something else."""

    code: str
    valued: str = ""
    attached: str = ""
    """Letters whose value, if there is one, is in the same argument."""
    only_first: bool = False
    """Whether everything behind the code belongs to the code."""


_PYTHON = Language("cm", "XW", "", only_first=True)
_LANGUAGES = {
    "python": _PYTHON, "pypy": _PYTHON, "ipython": _PYTHON,
    "perl": Language("eE", "I", "iMmCDxV0lF"), "ruby": Language("e", "IrCEF", "iTWKx0"),
    "node": Language("ep", "rC"), "nodejs": Language("ep", "rC"), "bun": Language("ep", "r"),
    "deno": Language(""), "php": Language("rRBE", "cdfzSt"), "lua": Language("e", "l"),
    "luajit": Language("e", "lj"), "r": Language("e", "f"), "rscript": Language("e"),
    "tclsh": Language(""), "expect": Language("c", "f"), "osascript": Language("e", "l"),
    "groovy": Language("e", "c"), "scala": Language("e"), "julia": Language("eE", "LpJ"),
    "elixir": Language("e", "r"), "erl": Language(""), "ghc": Language("e"),
    "powershell": Language(""), "pwsh": Language(""), "guile": Language("c", "l"),
    "swipl": Language("g", "s"), "ocaml": Language("e", "I"), "racket": Language("e", "rt"),
    "sbcl": Language(""), "clojure": Language("e"), "emacs": Language(""), "jshell": Language(""),
}  # fmt: skip
_LONG_CODE = frozenset({
    "--eval", "--print", "--run", "--exec", "--command", "--code", "--execute", "-eval",
    "--expression", "--function", "-command", "-encodedcommand", "-enc",
})  # fmt: skip


def _find_code(language: Language, arguments: list[str]) -> tuple[list[str], list[str], str]:
    """Code among the arguments, what is left behind the options, and the letters that were used."""
    code: list[str] = []
    letters = ""
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        if not argument.startswith("-") or argument == "-":
            break
        index += 1
        name, equals, value = argument.partition("=")
        if name.lower() in _LONG_CODE:
            code.append(value if equals else " ".join(arguments[index : index + 1]))
            index += not equals
            continue
        if argument.startswith("--"):
            if argument == "--":
                break
            continue
        for position, letter in enumerate(argument[1:], start=2):
            letters += letter
            if letter in language.attached:
                break
            if letter in language.code or letter in language.valued:
                rest = argument[position:]
                if letter in language.code:
                    code.append(rest or " ".join(arguments[index : index + 1]))
                index += not rest
                if letter in language.code and language.only_first:
                    return code, arguments[index:], letters
                break
    return code, arguments[index:], letters


def run_language(call: Call) -> str:
    """`python -c code`, `perl -e code`, `… | python`."""
    code, operands, letters = _find_code(_LANGUAGES[call.name], call.arguments)
    if call.name in ("powershell", "pwsh", "emacs", "erl", "sbcl") and call.arguments:
        code.append(" ".join(call.arguments))
    if call.name in ("deno", "bun") and operands[:1] == ["eval"]:
        code, operands = operands[1:2], operands[2:]
    if call.name in ("perl", "ruby") and "i" in letters:
        for operand in operands:
            call.shell.writes(operand)
    if letters.endswith("m") and _LANGUAGES[call.name] is _PYTHON and code:
        return _run_module(call, code[0], operands)
    if code:
        hides = call.stdin is None and not operands and not set(letters) & {"n", "p"}
        return _run_code(call, "\n".join(code), hides)
    if operands and operands[0] != "-":
        if own_file(operands[0]):
            return call.run(["hermes", *operands[1:]])
        return _run_source(call, operands[0])
    if call.stdin is not None and not {"version", "--version", "-V"} & set(call.arguments):
        if has_unknown(call.stdin):
            call.report("pipe-to-shell", _FED)
        else:
            check_code(call.shell, call.name, call.stdin)
    return UNKNOWN


def _run_code(call: Call, code: str, hides: bool) -> str:
    if has_unknown(code):
        call.report("unclear-script", _FED)
        return UNKNOWN
    if "hermes_cli" in code:
        call.report("own-rules", "Runs or changes the agent itself")
    check_code(call.shell, call.name, as_literal(code))
    return OBSCURE if hides and prints_only(code) else UNKNOWN


def _run_source(call: Call, path: str) -> str:
    """A program in a file: its own business, unless this very command made the file."""
    if has_unknown(path) and not has_glob(path):
        call.report("unclear-script", "Runs a program that cannot be known beforehand")
    if path in _INPUT and call.stdin is not None:
        check_code(call.shell, call.name, call.stdin)
    for place in call.shell.paths(path):
        text = call.shell.state.files.get(place)
        if text is not None:
            if has_unknown(text):
                call.report("download-and-run", "Runs something that nobody has seen")
            else:
                check_code(call.shell, call.name, text)
        for file in (place, f"{place}/__main__.py"):
            if own_files.is_own(call.shell, file):
                own_files.ask(call.shell, file)
    return UNKNOWN


def _run_module(call: Call, module: str, arguments: list[str]) -> str:
    """`python -m pip …` is `pip …`."""
    known = {"pip": "pip", "pip3": "pip", "awscli": "aws", "ansible": "ansible"}.get(module)
    if known:
        call.run([known, *arguments])
    if own_module(module):
        call.run(["hermes", *arguments])
    if module not in ("pytest", "unittest") and not has_marks(module):
        _run_source(call, module.replace(".", "/") + ".py")
        _run_source(call, module.replace(".", "/"))
    if module in ("code", "pdb", "timeit", "cProfile", "runpy") and call.stdin is not None:
        call.report("unclear-script", _FED)
    if module == "timeit":
        check_code(call.shell, "python", "\n".join(arguments))
    return UNKNOWN


INTERPRETERS: dict[str, Rule] = {
    **dict.fromkeys(_SHELLS, run_shell),
    **dict.fromkeys(_LANGUAGES, run_language),
}
