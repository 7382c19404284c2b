"""Programs that delete, overwrite or move files and disks, or widen access to them."""

from __future__ import annotations

import re

from .call import Call, Options, Rule
from .code import check_code
from .filters import hidden, transformed
from .marks import CONTENT, ONE, STAR, UNKNOWN, as_literal, has_glob, has_unknown, readable
from .paths import is_catastrophic, is_inside, is_product, is_scratch, read_danger, tree_danger

# Of a sed script whose blanks were made one each: no pattern reads the same blanks twice.
_SED_RUNS = re.compile(r"(?:^|[;\n{}0-9$!/])\s?e(?:\s|$)|/[gimpIM0-9]*e[gimpI0-9w]*\s?(?:$|[;}\n])")
_SED_WRITES = re.compile(r"(?:^|[;\n{}/0-9gp])\s?w\s?([^\s;}]+)")
_BLANKS = re.compile(r"\s++")
_AWK_RUNS = re.compile(r"system\s*\(|\|\s*getline|\|&|@load")
_AWK_PIPES = re.compile(r"(?P<print>print)|[;}\n]|(?P<pipe>\|)(?=\s*[\"a-z])")
_AWK_WRITES = re.compile(r">\s*\"([^\"]*)\"|>\s*([a-z]\w*)\s*[;}\n]")
_WIDE_OPEN = re.compile(
    r"0?[0-7]?[0-7]{2}[2367]|0?[2467][0-7]{3}|(?:.*,)?[ug]*[oa]+[ugoa]*[+=][^,]*w.*|.*[+=][^,]*s.*"
)
_LOOKING = frozenset({
    "-l", "--list", "--help", "-h", "-V", "--version", "list", "status", "get", "info", "show",
    "history", "iostat", "--detail", "--dry-run", "--no-act",
})  # fmt: skip

_LONGEST_MODE = 100
"""Characters of a mode for chmod; a longer one counts as one that opens everything."""
_MANY = "Deletes a whole tree of files"


def deletes_tree(call: Call, target: str, *, is_filtered: bool = False) -> None:
    """Note that everything under `target` would be deleted."""
    places = call.shell.places
    for path in call.shell.paths(target):
        if is_catastrophic(path, places) and not is_filtered:
            call.report(
                "delete-everything", f"Deletes everything in {readable(path)[:80]}", hard=True
            )
        elif not is_product(path, places):
            call.report("recursive-delete", _MANY)


def _rm(call: Call) -> str:
    options = call.options()
    if options.has("help", "version") and len(call.arguments) == 1:
        return UNKNOWN
    is_recursive = options.has("r", "R", "recursive") or options.is_unclear
    for target in options.operands:
        if is_recursive and call.name != "unlink":
            deletes_tree(call, target)
            call.shell.reads(target)
        else:
            _deletes(call, target)
    return ""


def _rimraf(call: Call) -> str:
    for target in call.options().operands:
        deletes_tree(call, target)
    return ""


def _deletes(call: Call, target: str) -> None:
    """One file, or those that match a pattern."""
    places = call.shell.places
    for path in call.shell.paths(target):
        last = path.rsplit("/", 1)[-1]
        if has_unknown(path):
            call.report("delete", "Deletes files that cannot be known beforehand")
        elif not last.strip("." + STAR + ONE):
            call.report("delete", "Deletes every file in a folder")
        elif not is_inside(path, places.working) and not is_scratch(target):
            call.report("delete", "Deletes files outside the working directory")
        call.shell.writes(target)


def _shred(call: Call) -> str:
    options = call.options("nsT", ("iterations", "size", "random-source"))
    call.report("shred", "Destroys files beyond recovery")
    for target in options.operands:
        call.shell.writes(target)
    return ""


def _dd(call: Call) -> str:
    printed = call.input
    is_to_file = False
    for argument in call.arguments:
        name, _, value = argument.partition("=")
        if has_unknown(name):
            call.report("unclear", "dd gets arguments that cannot be known beforehand")
        if name == "of":
            is_to_file = True
            call.shell.writes(value, call.input)
        elif name == "if":
            call.shell.reads(value)
            printed = call.shell.written(value, CONTENT)
    return "" if is_to_file else printed


def _writes_operands(call: Call) -> str:
    options = call.options("smotdrSpnc")
    for target in options.operands:
        call.shell.writes(target)
    return ""


def _mkdir(call: Call) -> str:
    options = call.options("mZ")
    for target in options.operands:
        call.shell.writes(target)
    return ""


def _copy(call: Call) -> str:
    """cp, mv, install, ln: the last operand is written."""
    options = call.options("tSgmo", ("target-directory", "suffix", "owner", "group", "mode"))
    targets = options.get("t", "target-directory")
    sources = options.operands
    if not targets and len(sources) > 1:
        targets, sources = sources[-1:], sources[:-1]
    elif not targets and call.name == "ln" and sources:
        targets = ["."]
    for source in sources:
        if call.name != "ln" or not _is_harmless_link(call, options, source, targets):
            _source(call, options, source)
        for target in targets:
            _target(call, source, target)
    return ""


def _is_harmless_link(call: Call, options: Options, source: str, targets: list[str]) -> bool:
    """Whether a link leads to something inside, or to an ordinary file beside the workspace.

    What is done through a link is judged by where it leads, once it is there. So one that leads
    beside the workspace may be made, but not used by the same command: see `Shell.links`.
    """
    is_hard = not options.has("s", "symbolic") or source.startswith("/") or has_unknown(source)
    if is_hard or has_glob(source):
        return False
    shell, working = call.shell, call.shell.places.working
    folders = {f"{target}/.." for target in targets} | {*targets}
    ends = {path for folder in folders for path in shell.paths(f"{folder}/{source}")}
    beside = working.rsplit("/", 1)[0]
    for end in ends:
        if has_unknown(end) or not is_inside(end, beside) or end == beside or len(beside) < 2:
            return False
        if read_danger(end, shell.places) or tree_danger(end, shell.places):
            return False
    shell.links |= not all(is_inside(end, working) for end in ends)
    return True


def _source(call: Call, options: Options, source: str) -> None:
    places = call.shell.places
    for path in call.shell.paths(source):
        if call.name == "mv":
            if is_catastrophic(path, places):
                call.report("delete-everything", "Moves away what must not be moved", hard=True)
            call.shell.writes(source)
        elif call.name == "ln":
            is_program = re.match(r"/(?:usr|opt|nix|bin|lib)", path)
            if not is_inside(path, places.working) and not is_program and not is_scratch(source):
                call.report("link-outside", "Makes a link to something outside")
        elif options.has("r", "R", "a", "recursive", "archive"):
            call.shell.judge(tree_danger(path, places))
        call.shell.reads(source)


def _target(call: Call, source: str, target: str) -> None:
    shell = call.shell
    if as_literal(target) == "/dev/null" and call.name == "mv":
        call.report("delete", "Moves files to /dev/null")
    base = as_literal(source).rstrip("/").rsplit("/", 1)[-1]
    name = target.rstrip("/").rsplit("/", 1)[-1]
    for alias in {name, base} - {"", ".", ".."}:
        shell.state.programs[alias] = shell.state.programs.get(base, base)
    shell.writes(target)
    if not has_unknown(source) and not source.startswith((STAR, ONE)):
        shell.writes(f"{target.rstrip('/')}/{base}" if target != "/" else f"/{base}")
    for path in shell.paths(source):
        text = shell.state.files.get(path)
        if text is not None:
            shell.writes(target, text)
            shell.writes(f"{target.rstrip('/')}/{base}", text)


def _chmod(call: Call) -> str:
    options = call.options("", ("reference", "from"))
    is_recursive = options.has("R", "recursive") or options.is_unclear
    operands = options.operands
    if call.name == "chmod" and not options.values.get("reference"):
        mode = operands[0] if operands else ""
        if any(re.fullmatch(r"-[rwxXst]+", argument) for argument in call.arguments):
            mode = ""  # `chmod -w file`
        else:
            operands = operands[1:]
        if has_unknown(mode) or len(mode) > _LONGEST_MODE or _WIDE_OPEN.fullmatch(mode):
            call.report("open-permissions", "Lets everybody write, or a program act as its owner")
    elif call.name in ("chown", "chgrp"):
        operands = operands[1:]
        call.report("ownership", "Gives files to another owner")
    for target in operands:
        for path in call.shell.paths(target):
            if is_recursive and is_catastrophic(path, call.shell.places):
                what = f"Changes everything in {readable(path)[:80]}"
                call.report("change-everything", what, hard=True)
        call.shell.writes(target)
    return ""


def _rsync(call: Call) -> str:
    options = call.options("efBTM", ("rsh", "exclude", "include", "rsync-path", "files-from"))
    for text in [*options.get("e", "rsh"), *options.get("rsync-path")]:
        call.shell.child_script(text)
    operands = options.operands
    if options.has("del", "delete", "delete-before", "delete-after", "delete-excluded"):
        call.report("recursive-delete", "Deletes what is not in the source")
    for target in operands[-1:]:
        if re.match(r"[\w.@-]+:", target):
            call.report("upload", "Sends files to another machine")
            continue
        if options.has("del", "delete", "delete-before", "delete-after", "delete-excluded"):
            deletes_tree(call, target)
        call.shell.writes(target)
    for source in operands[:-1]:
        for path in call.shell.paths(source):
            call.shell.judge(tree_danger(path, call.shell.places))
        call.shell.reads(source)
    return ""


def _sed(call: Call) -> str:
    options = call.options("efl", ("expression", "file", "line-length"))
    scripts = [*options.get("e", "expression")]
    files = options.operands
    if not scripts and not options.has("f", "file"):
        scripts, files = files[:1], files[1:]
    for script in scripts:
        text = _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", as_literal(script))
        if _SED_RUNS.search(text):
            call.report("unclear-script", "A sed script that may run commands")
        for match in _SED_WRITES.finditer(text):
            call.shell.writes(match[1])
    is_in_place = any(re.match(r"-[nErsuz]*i|--in-place", argument) for argument in call.arguments)
    for file in files:
        (call.shell.writes if is_in_place else call.shell.reads)(file)
    if is_in_place:
        return ""
    return CONTENT if files else transformed(call)


def _awk(call: Call) -> str:
    options = call.options("Ffv", ("field-separator", "assign", "file"), until_operand=True)
    program = "" if options.has("f", "file") else "".join(options.operands[:1])
    files = options.operands if options.has("f", "file") else options.operands[1:]
    if has_unknown(program):
        call.report("unclear-script", "Runs an awk program that cannot be known beforehand")
    program += "".join(call.shell.written(file, "") for file in options.get("f", "file"))
    if _AWK_RUNS.search(as_literal(program)) or _prints_to_command(as_literal(program)):
        check_code(call.shell, "awk", f"system({as_literal(program)})")
    for match in _AWK_WRITES.finditer(as_literal(program)):
        call.shell.writes(match[1] or UNKNOWN)
    for file in [*files, *options.get("f", "file")]:
        if "=" not in file:
            call.shell.reads(file)
    if not files and call.stdin is None and "BEGIN" in program:
        return hidden(program)
    return CONTENT if files else transformed(call)


def _prints_to_command(program: str) -> bool:
    """Whether an awk statement prints to a program; every sign is looked at once."""
    prints = False
    for sign in _AWK_PIPES.finditer(program):
        if sign["pipe"] and prints:
            return True
        if not sign["pipe"]:
            prints = bool(sign["print"])
    return False


def _grep(call: Call) -> str:
    options = call.options(
        "efABCmdD", ("regexp", "file", "after-context", "before-context", "context", "max-count")
    )
    files = options.operands if options.has("e", "f", "regexp", "file") else options.operands[1:]
    for file in [*files, *options.get("f", "file")]:
        call.shell.reads(file)
    is_tree = call.name in ("rg", "ag", "ack") or options.has("r", "R", "recursive")
    if is_tree:
        for file in files or ["."]:
            for path in call.shell.paths(file):
                call.shell.judge(tree_danger(path, call.shell.places))
    if any(argument.startswith("--pre") for argument in call.arguments):
        call.report("unclear-script", "A search that runs another program")
    return CONTENT if files or is_tree else transformed(call)


def _jq(call: Call) -> str:
    options = call.options("Lf", ("from-file", "indent", "tab"))
    for file in options.operands[1:]:
        call.shell.reads(file)
    return transformed(call)


def _tar(call: Call) -> str:
    arguments = list(call.arguments)
    if arguments and re.fullmatch(r"[A-Za-z]+", arguments[0]):
        arguments[0] = "-" + arguments[0]  # `tar xf file`
    shell = call.shell
    options = Call(shell, call.name, arguments, call.stdin).options(
        "fCTXIbgHLNVK", ("file", "directory", "exclude", "files-from", "use-compress-program")
    )
    for argument in arguments:
        match = re.match(
            r"--(?:checkpoint-action=exec=|to-command=|info-script=|rsh-command=)(.*)", argument
        )
        if match:
            shell.child_script(match[1])
            call.report("unclear-script", "tar is told to run a command")
    for text in options.get("I", "use-compress-program"):
        shell.child_script(text)
    if options.has("x", "extract", "get"):
        for folder in options.get("C", "directory") or ["."]:
            shell.writes(f"{folder.rstrip('/')}/{'file'}")
        if options.has("P", "absolute-names"):
            call.report("write-unknown", "Unpacks files to wherever the archive says")
    if options.has("c", "r", "u", "create", "append", "update"):
        _packs(call, options.operands)
        for file in options.get("f", "file"):
            if file != "-":
                shell.writes(file)
    return CONTENT


def _packs(call: Call, sources: list[str]) -> None:
    for source in sources:
        call.shell.reads(source)
        for path in call.shell.paths(source):
            call.shell.judge(tree_danger(path, call.shell.places))


def _zip(call: Call) -> str:
    options = call.options("bnPtxi")
    if any(re.match(r"-T*TT|--unzip-command", argument) for argument in call.arguments):
        call.report("unclear-script", "zip is told to run a command")
    for target in options.operands[:1]:
        call.shell.writes(target)
    _packs(call, options.operands[1:])
    return CONTENT


def _unzip(call: Call) -> str:
    for folder in call.options("dPx").get("d"):
        call.shell.writes(f"{folder.rstrip('/')}/file")
    return CONTENT


def _format(call: Call) -> str:
    """mkfs and its kin."""
    operands = [argument for argument in call.arguments if not argument.startswith("-")]
    if _LOOKING & set(call.arguments):
        return UNKNOWN
    on_disk = any(re.match(r"/dev/", as_literal(operand)) for operand in operands)
    call.report("format-disk", "Formats, partitions or erases a disk", hard=on_disk)
    return UNKNOWN


def _editor(call: Call) -> str:
    """Editors that take commands: `vim -c '!rm …'`, `ed` reading from a pipe."""
    texts = [*call.arguments, call.stdin or ""]
    for text in texts:
        for match in re.finditer(r"!(.+)|\bsystem\(\s{0,99}['\"](.{1,999}?)['\"]\s{0,99}\)", text):
            call.report("unclear-script", "An editor that is told to run a command")
            call.shell.child_script(match[1] or match[2])
    for argument in call.arguments:
        if not argument.startswith(("-", "+")) and call.stdin is not None:
            call.shell.writes(argument)
    return UNKNOWN


FILES: dict[str, Rule] = {
    "rm": _rm, "unlink": _rm, "srm": _rm, "grm": _rm, "del": _rm, "rimraf": _rimraf,
    "shred": _shred, "wipe": _shred, "scrub": _shred, "dd": _dd, "dcfldd": _dd,
    "truncate": _writes_operands, "touch": _writes_operands, "fallocate": _writes_operands,
    "mkdir": _mkdir, "sponge": _writes_operands, "split": _writes_operands, "patch": _writes_operands,
    "rmdir": _writes_operands, "mkfifo": _writes_operands, "mknod": _writes_operands,
    "cp": _copy, "mv": _copy, "install": _copy, "ln": _copy, "gcp": _copy, "gmv": _copy,
    "chmod": _chmod, "chown": _chmod, "chgrp": _chmod, "chattr": _chmod, "setfacl": _chmod,
    "rsync": _rsync, "sed": _sed, "gsed": _sed, "awk": _awk, "gawk": _awk, "mawk": _awk,
    "nawk": _awk, "grep": _grep, "egrep": _grep, "fgrep": _grep, "zgrep": _grep, "rg": _grep,
    "ag": _grep, "ack": _grep, "jq": _jq, "yq": _jq, "tar": _tar, "gtar": _tar, "bsdtar": _tar,
    "zip": _zip, "7z": _zip, "7za": _zip, "unzip": _unzip,
    **dict.fromkeys(
        ["mkfs", "mke2fs", "mkswap", "wipefs", "blkdiscard", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "mkdosfs", "mkntfs", "newfs", "cryptsetup", "hdparm", "nvme", "lvremove", "vgremove", "pvremove", "zpool", "zfs", "mdadm", "diskutil", "format", "badblocks", "sg_format", "partprobe", "tune2fs", "debugfs", "xfs_repair", "resize2fs"],
        _format,
    ),
    **dict.fromkeys(["vim", "vi", "nvim", "view", "ex", "ed", "emacsclient", "nano", "pico"], _editor),
}  # fmt: skip
