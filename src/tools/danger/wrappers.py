"""Programs that start another program: the other one is what counts.

Where it is not certain which argument is the other program, each that could be is followed.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from .call import Call, Rule, sort_options
from .marks import ONE, STAR, UNKNOWN, has_unknown
from .paths import is_inside, real

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_MOST_ITEMS = 200
_PRODUCT = re.compile(
    r"\*\.(?:py[cod]|o|obj|lo|class|gc(?:da|no|ov)|sw[op]|orig|rej|bak|tmp|log|tsbuildinfo|profraw)"
    r"|\*~|\.DS_Store|Thumbs\.db|__pycache__|\.(?:pytest|mypy|ruff)_cache|\.coverage|\*\.egg-info"
)
"""Names of what tools make: losing it loses nothing."""
_FILTERS = frozenset({
    "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-mtime", "-mmin",
    "-atime", "-ctime", "-newer", "-size", "-empty", "-user", "-group", "-uid", "-inum", "-samefile",
})  # fmt: skip


class Wrapper(NamedTuple):
    """How the arguments of a wrapper are laid out."""

    valued: str = ""
    """Letters of options that take a value."""
    long_valued: tuple[str, ...] = ()
    operands: int = 0
    """Arguments of its own before the other program."""
    scripts: str = ""
    """Letters of options whose value is a script."""


_SIMPLE: dict[str, Wrapper] = {
    "nohup": Wrapper(), "coproc": Wrapper(), "!": Wrapper(), "setsid": Wrapper(), "time": Wrapper("fo"), "nice": Wrapper("n"),
    "ionice": Wrapper("cnpPu"), "timeout": Wrapper("ks", ("kill-after", "signal"), 1),
    "gtimeout": Wrapper("ks", (), 1), "stdbuf": Wrapper("ioe"), "unbuffer": Wrapper(),
    "chroot": Wrapper("", ("userspec", "groups"), 1), "taskset": Wrapper("", (), 1),
    "chrt": Wrapper("TPD", (), 1), "flock": Wrapper("wE", ("timeout", "wait"), 1, "c"),
    "strace": Wrapper("abeEIoOpPsSuUX"), "ltrace": Wrapper("aeElnopsuxX"), "valgrind": Wrapper(),
    "script": Wrapper("IOBTmoE", (), 0, "c"), "watch": Wrapper("nq", ("interval",)),
    "fakeroot": Wrapper("lsib"), "numactl": Wrapper("NCmipP"), "prlimit": Wrapper("p"),
    "busybox": Wrapper(), "toybox": Wrapper(), "ts": Wrapper(), "chronic": Wrapper(),
    "ld.so": Wrapper("", ("library-path", "preload", "argv0")), "xvfb-run": Wrapper("efnpsw"),
    "dbus-run-session": Wrapper(), "dbus-launch": Wrapper(), "systemd-inhibit": Wrapper(),
    "torify": Wrapper(), "torsocks": Wrapper(), "catchsegv": Wrapper(), "proxychains": Wrapper("f"),
    "proxychains4": Wrapper("f"), "caffeinate": Wrapper("tw"), "arch": Wrapper("de"),
    "setarch": Wrapper("", (), 1), "linux32": Wrapper(), "linux64": Wrapper(),
    "cgexec": Wrapper("g"), "choom": Wrapper("np"), "softlimit": Wrapper("admcrlfost"),
    "envdir": Wrapper("", (), 1), "rlwrap": Wrapper("abBcfHlOpPSstz"), "winpty": Wrapper(),
    "entr": Wrapper(), "npx": Wrapper("p", ("package",), 0, "c"), "pnpx": Wrapper(),
    "bunx": Wrapper(), "uvx": Wrapper("", ("from", "with")), "setuidgid": Wrapper("", (), 1),
    "gosu": Wrapper("", (), 1), "su-exec": Wrapper("", (), 1), "tini": Wrapper("p"),
    "dumb-init": Wrapper(), "ifne": Wrapper(), "pkexec": Wrapper("", ("user",)),
    "runuser": Wrapper("ugG", ("user", "group"), 0, "c"),
}  # fmt: skip
_RUNNERS = frozenset({
    "perf", "unshare", "nsenter", "proot", "firejail", "bwrap", "systemd-run", "capsh", "setpriv",
    "direnv", "mise", "asdf", "doppler", "aws-vault", "op", "poetry", "pipenv", "uv", "rye", "hatch",
    "pdm", "bundle", "pipx", "conda", "mamba", "micromamba", "nix-shell", "nix", "gdb", "lldb",
    "dotenv", "chpst", "start-stop-daemon", "daemonize", "supervise", "expect", "nodemon", "pm2",
    "forever", "concurrently", "just", "tox", "nox", "rtk", "mpirun", "srun", "sbatch", "time-machine",
})  # fmt: skip
"""Their options are too many to know: the first argument that is a known program is followed."""
_ASKS = {
    "pkexec": "sudo", "runuser": "sudo", "gosu": "sudo", "su-exec": "sudo", "setuidgid": "sudo",
    "nsenter": "container", "chroot": "container",
}  # fmt: skip
_REMOVES = frozenset({"remove", "uninstall", "purge", "rm"})


def inner(arguments: list[str], wrapper: Wrapper) -> list[list[str]]:
    """The commands that a wrapper could start."""
    index = 0
    is_doubtful = False
    while index < len(arguments):
        argument = arguments[index]
        if argument == "--":
            index += 1
            is_doubtful = False
            break
        if not argument.startswith("-") or argument == "-":
            break
        index += 1
        is_doubtful = False
        if argument.startswith("--"):
            name, equals, _ = argument[2:].partition("=")
            takes_value = not equals and name in wrapper.long_valued
            is_doubtful = not equals and not takes_value
        else:
            letter = next((letter for letter in argument[1:] if letter in wrapper.valued), "")
            takes_value = bool(letter) and argument.endswith(letter)
            is_doubtful = not letter
        index += takes_value
    start = index + wrapper.operands
    while start < len(arguments) and arguments[start] == "--":
        start += 1
    commands = [arguments[start:]]
    if is_doubtful:
        commands.append(arguments[start + 1 :])
    return [word for word in commands if word]


def _wrap(call: Call) -> str:
    wrapper = _SIMPLE[call.name]
    _ask(call)
    options = sort_options(call.arguments, wrapper.valued + wrapper.scripts, wrapper.long_valued)
    scripts = [text for letter in wrapper.scripts for text in options.get(letter)]
    scripts += [
        text for text in options.get("command", "run", "call", "ex", "eval-command") if text
    ]
    for text in scripts:
        call.shell.child_script(text, call.stdin)
    printed = UNKNOWN
    for number, command in enumerate(inner(call.arguments, wrapper)):
        if number and not _is_plausible(command[0]):
            continue
        result = call.run(command)
        printed = result if number == 0 else printed
    if call.name in ("watch", "entr"):
        for command in inner(call.arguments, wrapper)[:1]:  # none with --version
            call.shell.child_script(" ".join(command))
    return printed


def _ask(call: Call) -> None:
    if call.name in _ASKS:
        call.report(_ASKS[call.name], f"Runs a command with other rights ({call.name})")


def _runner(call: Call) -> str:
    _ask(call)
    if call.arguments and call.arguments[0] in _REMOVES:
        call.report("package-removal", "Removes packages")
    options = call.options("c", ("run", "command", "ex", "eval-command"))
    for text in options.get("c", "run", "command", "ex", "eval-command"):
        if " " in text:
            call.shell.child_script(text.removeprefix("shell ").removeprefix("!"), call.stdin)
    for number, argument in enumerate(call.arguments):
        if argument.startswith(("shell ", "!", "platform shell ")):  # of a debugger
            call.shell.child_script(argument.removeprefix("platform ").removeprefix("shell "))
        if _is_plausible(argument):
            return call.run(call.arguments[number:])
    return UNKNOWN


def _is_plausible(name: str) -> bool:
    from .dispatch import RULES, program_name

    return program_name(name) in RULES or has_unknown(name) or name.startswith("./")


def _env(call: Call) -> str:
    return call.shell.apart(lambda: _in_environment(call))


def _in_environment(call: Call) -> str:
    shell = call.shell
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        split = re.fullmatch(r"(?:-[vi0]*S|--split-string(?:=|\Z))(.*)", argument, re.DOTALL)
        folder = re.fullmatch(r"(?:-[vi0]*C|--chdir(?:=|\Z))(.*)", argument, re.DOTALL)
        if split:
            return shell.script(" ".join([split[1], *arguments]), call.stdin)
        if folder:
            target = folder[1] or (arguments.pop(0) if arguments else "")
            shell.state.directories = shell.paths(target)
        elif argument in ("-u", "--unset"):
            shell.state.variables[arguments.pop(0) if arguments else ""] = frozenset({""})
        elif match := _ASSIGNMENT.fullmatch(argument):
            shell.set_variable(match[1], frozenset({match[2]}))
            shell.state.exported.add(match[1])
        elif not argument.startswith("-"):
            return call.run([argument, *arguments])
    return UNKNOWN


def _sudo(call: Call) -> str:
    call.report("sudo", "Runs something as another user")
    if call.name == "su":
        options = call.options("cCgGsw", ("command", "shell", "session-command"))
        for text in options.get("c", "command", "session-command"):
            call.shell.child_script(text, call.stdin)
        return UNKNOWN
    return call.shell.apart(lambda: _as_other_user(call))


def _as_other_user(call: Call) -> str:
    valued = "ughpCTRDUrtc" if call.name == "sudo" else "uC"
    long_valued = ("user", "group", "host", "prompt", "chdir", "chroot", "close-from", "other-user")
    for folder in call.options(valued, long_valued, until_operand=True).get("D", "chdir"):
        call.shell.state.directories = call.shell.paths(folder)
    for number, command in enumerate(inner(call.arguments, Wrapper(valued, long_valued))):
        if number == 0 or _is_plausible(command[0]):
            call.run(["env", *command])
    return UNKNOWN


def _items(text: str, *, lines: bool, raw: bool) -> list[str]:
    """What xargs makes of its input."""
    if raw:
        return [part for part in re.split(r"[\0\n]" if lines else r"\0", text) if part]
    pattern = (
        r"(?:[^\n\\\"']|\\.|\"[^\"\n]*\"|'[^'\n]*'|[\"'])+"
        if lines
        else (r"(?:[^\s\\\"']|\\.|\"[^\"\n]*\"|'[^'\n]*'|[\"'])+")
    )
    return [
        re.sub(r"\"([^\"\n]*)\"|'([^'\n]*)'|\\(.)", r"\1\2\3", word.strip(" \t"), flags=re.DOTALL)
        for word in re.findall(pattern, text, re.DOTALL)
    ]


def _xargs(call: Call) -> str:
    valued, long_valued = (
        "adEILnPs",
        ("arg-file", "delimiter", "max-args", "max-procs", "max-lines"),
    )
    options = call.options(valued, long_valued, until_operand=True)
    command = options.operands or ["echo"]
    files = options.get("a", "arg-file")
    text = call.contents(files) if files else call.input
    marks = options.get("I", "replace", "J") or (["{}"] if options.has("i", "replace") else [])
    is_raw = options.has("0", "null", "d", "delimiter")
    if has_unknown(text):
        items = [text.strip()]
    else:
        items = _items(text, lines=bool(marks), raw=is_raw)
        items = items if len(items) <= _MOST_ITEMS else [UNKNOWN]
    if not marks:
        return call.shell.run([*command, *items])
    for item in items or [""]:
        replaced = [argument.replace(marks[0] or "{}", item) for argument in command]
        call.shell.run(replaced)
    return UNKNOWN


def _parallel(call: Call) -> str:
    options = call.options("jaNnLIP", ("jobs", "arg-file", "joblog", "timeout"), until_operand=True)
    words = options.operands
    ends = [index for index, word in enumerate(words) if word.startswith(":::")]
    command = words[: ends[0]] if ends else words
    items = [word for word in words[ends[0] :] if not word.startswith(":::")] if ends else []
    text = " ".join(command)
    for item in items or [call.input]:
        line = text.replace("{}", item) if "{}" in text else f"{text} {item}"
        call.shell.child_script(line if text else item)
    return UNKNOWN


def _find(call: Call) -> str:
    from .rules_files import deletes_tree

    starts: list[str] = []
    arguments = call.arguments
    index = 0
    while index < len(arguments) and not re.match(r"[-(!]", arguments[index]):
        starts.append(arguments[index])
        index += 1
    starts = starts or ["."]
    matches = _matching_paths(starts, arguments)
    _check_unclear(call, ["-path", *starts[:1], *starts[1:], *arguments[index:]])
    if call.name == "fd":
        return _fd(call, arguments)
    while index < len(arguments):
        argument = arguments[index]
        index += 1
        if argument == "-delete":
            if not _finds_products(call, starts, arguments[: index - 1]):
                for start in starts:
                    deletes_tree(call, start, is_filtered=_is_filtered(arguments))
        elif argument in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next(
                (i for i in range(index, len(arguments)) if arguments[i] in (";", "+")),
                len(arguments),
            )
            if not _removes(arguments[index:end]) or not _finds_products(
                call, starts, arguments[: index - 1]
            ):
                _find_exec(call, arguments[index:end], starts, matches, _is_filtered(arguments))
            index = end + 1
        elif argument in ("-fprint", "-fprintf", "-fls", "-fprint0") and index < len(arguments):
            call.shell.writes(arguments[index])
    return "".join(path + "\n" for path in matches)


def _removes(command: list[str]) -> bool:
    """Whether find only removes what it finds: `-exec rm -f {} +`."""
    return (
        command[:1] == ["rm"]
        and command[-1] == "{}"
        and all(re.fullmatch(r"-[frv]+|--", option) for option in command[1:-1])
    )


def _finds_products(call: Call, starts: list[str], tests: list[str]) -> bool:
    """Whether find comes only to what is made anew when it is needed, within the workspace.

    Only a test that stands before what is done counts, and only if nothing makes another of it.
    """
    if {"-o", "-or", ",", "!", "-not", "-L", "-follow", "-H"} & {*tests}:
        return False
    names = [value for option, value in itertools.pairwise(tests) if option in ("-name", "-iname")]
    if not names or not all(_PRODUCT.fullmatch(name) for name in names):
        return False
    working = call.shell.places.working
    return all(
        is_inside(path, working) and is_inside(real(path), real(working)) and not has_unknown(path)
        for start in starts
        for path in call.shell.paths(start)
    )


def _matching_paths(starts: list[str], arguments: list[str]) -> list[str]:
    """What find comes to, as far as it is known."""
    names = [
        value.replace("*", STAR).replace("?", ONE)
        for option, value in itertools.pairwise(arguments)
        if option in ("-name", "-iname")
    ]
    folders = ["" if start == "/" else start.rstrip("/") for start in starts]
    return [f"{folder}/{UNKNOWN}{'/' + name if name else ''}" for folder in folders
            for name in (names or [""])]  # fmt: skip


def _check_unclear(call: Call, arguments: list[str]) -> None:
    """An argument that could be -delete, where no option waits for a value."""
    previous = ""
    for argument in arguments:
        if has_unknown(argument[:1]) and not previous.startswith("-"):
            call.report("unclear", "find gets arguments that cannot be known beforehand")
        previous = argument


def _is_filtered(arguments: list[str]) -> bool:
    """Whether find looks for something in particular."""
    return any(
        argument in _FILTERS and value.strip("*" + STAR)
        for argument, value in zip(arguments, [*arguments[1:], ""], strict=True)
    )


def _find_exec(
    call: Call, command: list[str], starts: list[str], matches: list[str], is_filtered: bool
) -> None:
    if not command:
        return
    from .dispatch import program_name
    from .rules_files import deletes_tree

    if program_name(command[0]) in ("rm", "unlink", "shred", "rmdir"):
        for start in starts:
            deletes_tree(call, start, is_filtered=is_filtered)
    for path in matches:
        call.shell.run([argument.replace("{}", path) for argument in command])


def _fd(call: Call, arguments: list[str]) -> str:
    for option in ("-x", "-X", "--exec", "--exec-batch"):
        if option in arguments:
            command = arguments[arguments.index(option) + 1 :]
            call.shell.run([argument.replace("{}", UNKNOWN) for argument in command])
    return UNKNOWN


def _terminal_multiplexer(call: Call) -> str:
    """screen and tmux: whatever follows a subcommand may be a command."""
    for argument in call.arguments:
        if " " in argument:
            call.shell.child_script(argument)
    if "send-keys" in call.arguments or "send" in call.arguments or "-X" in call.arguments:
        call.report("unclear-script", "Types into another terminal")
    for number in range(len(call.arguments)):
        if _is_plausible(call.arguments[number]):
            call.run(call.arguments[number:])
    return UNKNOWN


def _at(call: Call) -> str:
    options = call.options("fqtdc")
    if not options.has("l", "c"):
        call.report("cron", "Schedules a command for later")
        for path in options.get("f"):
            call.shell.script(call.shell.written(path, UNKNOWN))
        if call.stdin is not None:
            call.shell.child_script(call.stdin)
    return UNKNOWN


WRAPPERS: dict[str, Rule] = {
    **dict.fromkeys(_SIMPLE, _wrap), **dict.fromkeys(_RUNNERS - {"expect"}, _runner),
    "env": _env, "sudo": _sudo, "doas": _sudo, "su": _sudo, "xargs": _xargs, "gxargs": _xargs,
    "parallel": _parallel, "find": _find, "gfind": _find, "fd": _find, "fdfind": _find,
    "screen": _terminal_multiplexer, "tmux": _terminal_multiplexer, "zellij": _terminal_multiplexer,
    "at": _at, "batch": _at,
}  # fmt: skip
