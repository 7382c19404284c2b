"""Commands of the shell itself: they change its state, or run what they are given."""

from __future__ import annotations

import re

from .call import Call, Rule
from .interpreters import run_file
from .marks import OBSCURE, UNKNOWN, has_unknown
from .paths import absolute
from .state import ANYTHING, as_array, elements_of, values_of

_NAMED_VALUE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_LINES = 8


def _eval(call: Call) -> str:
    arguments = call.arguments
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    return call.shell.script(" ".join(arguments), call.stdin)


def _source(call: Call) -> str:
    operands = [argument for argument in call.arguments if argument != "--"]
    if operands:
        run_file(call.shell, operands[0], operands[1:], in_place=True, stdin=call.stdin)
    return UNKNOWN


def _exec(call: Call) -> str:
    options = call.options("a", until_operand=True)
    return call.run(options.operands) if options.operands else ""


def _command(call: Call) -> str:
    options = call.options(until_operand=True)
    if options.has("v", "V"):
        return _which(call)
    return call.run(options.operands) if options.operands else ""


def _which(call: Call) -> str:
    programs = [argument for argument in call.arguments if not argument.startswith("-")]
    lines = [
        program if "/" in program or has_unknown(program) else f"/usr/bin/{program}"
        for program in programs
    ]
    return "".join(line + "\n" for line in lines)


def _cd(call: Call) -> str:
    operands = [
        argument
        for argument in call.arguments
        if argument not in ("-L", "-P", "-e", "-@", "--", "-n")
    ]
    target = operands[0] if operands else call.shell.user_home
    state = call.shell.state
    if target == "-" or target.startswith("+"):
        state.directories = ANYTHING
    else:
        state.directories = values_of(
            absolute(target, directory) for directory in state.directories
        )
    return ""


def _popd(call: Call) -> str:
    call.shell.state.directories = ANYTHING
    return ""


def _pwd(call: Call) -> str:
    directories = call.shell.state.directories
    return next(iter(directories)) + "\n" if len(directories) == 1 else UNKNOWN


def _trap(call: Call) -> str:
    options = call.options()
    if options.operands and not options.has("l", "p"):
        call.shell.script(options.operands[0])
    return ""


def _alias(call: Call) -> str:
    for argument in call.arguments:
        match = re.match(r"([^=\s]+)=(.*)", argument, re.DOTALL)
        if match:
            call.shell.state.aliases[match[1]] = match[2]
            call.shell.script(match[2])
    return ""


def _declare(call: Call) -> str:
    shell = call.shell
    options = call.options()
    exports = call.name == "export" or options.has("x")
    for argument in options.operands:
        match = _NAMED_VALUE.fullmatch(argument)
        shell.expand_again(argument)
        if match:
            values = frozenset({match[3]})
            if match[2]:
                values = values_of(old + match[3] for old in shell.state.lookup(match[1]))
            # A reference to another variable has that variable's value, whenever it is read.
            shell.set_variable(match[1], ANYTHING if options.has("n") else values)
        elif has_unknown(argument):
            shell.report("unclear", "Sets variables that cannot be known beforehand")
        if exports:
            shell.state.exported.add(match[1] if match else argument)
    return ""


def _unset(call: Call) -> str:
    for argument in call.arguments:
        call.shell.expand_again(argument)
        call.shell.state.variables[argument] = frozenset({""})
        call.shell.state.functions.pop(argument, None)
    return ""


def _set(call: Call) -> str:
    arguments = call.arguments
    if "--" in arguments:
        call.shell.state.assign("@", {as_array(arguments[arguments.index("--") + 1 :])})
    elif arguments and not arguments[0].startswith(("-", "+")):
        call.shell.state.assign("@", {as_array(arguments)})
    elif any("a" in argument for argument in arguments if argument.startswith("-")):
        call.shell.state.exported |= call.shell.state.variables.keys()
    return ""


def _shift(call: Call) -> str:
    count = int(call.arguments[0]) if call.arguments and call.arguments[0].isdigit() else 1
    state = call.shell.state
    state.assign("@", {as_array(elements_of(array)[count:]) for array in state.lookup("@")})
    return ""


def _read(call: Call) -> str:
    options = call.options("adeinNptu")
    names = options.operands or ["REPLY"]
    text = call.input
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    is_known = not has_unknown(text) and len(lines) <= _MOST_LINES
    for name in [*names, *options.get("a")]:
        call.shell.expand_again(name)
        values = set(lines) if is_known and len(names) == 1 and not options.has("a") else {UNKNOWN}
        if OBSCURE in text:
            values = {OBSCURE}
        if is_known and len(names) > 1:
            values = {word for line in lines for word in line.split()} | set(lines)
        call.shell.set_variable(name, values_of(values))
    return ""


def _mapfile(call: Call) -> str:
    options = call.options("dnOsuCc")
    for script in options.get("C"):
        call.shell.script(script)
    for name in options.operands or ["MAPFILE"]:
        call.shell.set_variable(name, ANYTHING)
    return ""


def _test(call: Call) -> str:
    for argument in call.arguments:
        call.shell.expand_again(argument)
    return ""


def _hash(call: Call) -> str:
    options = call.options("p")
    for path in options.get("p"):
        for name in options.operands:
            call.shell.state.programs[name] = path
    return ""


def _complete(call: Call) -> str:
    options = call.options("ACFGWPSXo")
    for script in options.get("C"):
        call.shell.script(script)
    return ""


def _bind(call: Call) -> str:
    for text in call.options("xfmqur").get("x"):
        call.shell.script(text.partition(":")[2].strip().strip("\"'"))
    return ""


def _enable(call: Call) -> str:
    if call.options("f").has("f"):
        call.report("loads-code", "Loads code into the shell")
    return ""


def _history(call: Call) -> str:
    if call.options("anrwd").has("c", "d", "w"):
        call.report("history", "Changes the history of commands")
    return UNKNOWN


def _fc(call: Call) -> str:
    if not call.options("e").has("l"):
        call.report("unclear-script", "Runs commands of the history again")
    return UNKNOWN


def _silent(call: Call) -> str:
    return ""


def _arguments_later(call: Call) -> str:
    call.shell.state.assign("OPTARG", {UNKNOWN})
    for name in call.arguments[1:2]:
        call.shell.state.assign(name, {UNKNOWN})
    return ""


BUILTINS: dict[str, Rule] = {
    "eval": _eval, ".": _source, "source": _source, "exec": _exec, "command": _command,
    "builtin": _command, "which": _which, "type": _which, "cd": _cd, "chdir": _cd, "pushd": _cd,
    "popd": _popd, "pwd": _pwd, "trap": _trap, "alias": _alias, "export": _declare,
    "declare": _declare, "typeset": _declare, "local": _declare, "readonly": _declare,
    "unset": _unset, "set": _set, "shift": _shift, "read": _read, "mapfile": _mapfile,
    "readarray": _mapfile, "test": _test, "[": _test, "let": _test, "hash": _hash,
    "complete": _complete, "compgen": _complete, "bind": _bind, "enable": _enable,
    "history": _history, "fc": _fc, "true": _silent, "false": _silent, ":": _silent,
    "exit": _silent, "return": _silent, "break": _silent, "continue": _silent, "wait": _silent,
    "getopts": _arguments_later,
}  # fmt: skip
