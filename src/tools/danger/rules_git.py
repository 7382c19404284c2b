"""git and similar programs: what loses work, rewrites shared history, or runs commands."""

from __future__ import annotations

import re
from collections.abc import Callable

from .call import Call, Options, Rule, sort_options
from .marks import UNKNOWN, has_unknown

_GLOBAL_VALUED = "cC"
_GLOBAL_LONG = ("git-dir", "work-tree", "namespace", "exec-path", "config-env")
_RUNS = re.compile(
    r"(?:alias\.|core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|pager\."
    r"|credential\.|diff\.[^=]*(?:command|textconv|external)|merge\.[^=]*driver|filter\.|sequence\."
    r"|gpg\.|difftool\.|mergetool\.|sendemail\.|uploadpack\.|receive\.|remote\.[^=]*(?:uploadpack"
    r"|receivepack|proxy)|ssh\.|url\.|include\.|includeif\.|init\.templatedir|protocol\.)",
    re.IGNORECASE,
)
_HARMLESS_CREDENTIAL = re.compile(r"credential\.[^=]*(?:username|usehttppath)", re.IGNORECASE)


def _git(call: Call) -> str:
    options = call.options(_GLOBAL_VALUED, _GLOBAL_LONG, until_operand=True)
    for setting in [*options.get("c"), *options.get("config-env")]:
        name, _, value = setting.partition("=")
        _setting(call, name, value)
    if not options.operands:
        return UNKNOWN
    verb, arguments = options.operands[0], options.operands[1:]
    if has_unknown(verb):
        call.report("unclear", "A git command that cannot be known beforehand")
    rule = _VERBS.get(verb)
    if rule:
        rule(call, arguments)
    if "--force" in arguments and verb in ("submodule", "worktree", "fetch", "mv", "rm", "tag"):
        call.report("git-destructive", "Loses work that is not committed")
    if any(
        re.match(r"(?:--upload-pack|--receive-pack|--exec)=?", argument) for argument in arguments
    ):
        call.report("unclear-script", "git is told to run a command")
    if any(argument.startswith("ext::") for argument in arguments):
        call.report("unclear-script", "git is told to run a command")
    for argument in arguments:
        if not re.search(r"\s", argument) and not argument.startswith("-"):
            call.shell.reads(argument) if "." in argument[:1] or "/" in argument else None
    return UNKNOWN


def _setting(call: Call, name: str, value: str) -> None:
    if _RUNS.match(name) and not _HARMLESS_CREDENTIAL.match(name):
        if value.startswith("!") or name.lower().startswith(("core.", "pager.", "alias.")):
            call.shell.child_script(value.removeprefix("!"))
        is_plain_alias = name.lower().startswith("alias.") and not value.startswith("!")
        if not is_plain_alias or has_unknown(value):
            call.report("git-runs", "Sets what git runs by itself")
    elif has_unknown(name[:1]):
        call.report("unclear", "A setting of git that cannot be known beforehand")


def _push(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "o", ("repo", "push-option"))
    forced = options.has(
        "f", "force", "force-with-lease", "force-if-includes", "mirror", "delete", "d", "prune"
    )
    if forced or any(
        operand[:1] in ("+", ":") and len(operand) > 1 for operand in options.operands
    ):
        call.report("git-force-push", "Rewrites or deletes what is on the server")


def _reset(call: Call, arguments: list[str]) -> None:
    if sort_options(arguments).has("hard", "merge", "keep"):
        call.report("git-destructive", "Loses work that is not committed")


def _clean(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "e", ("exclude",))
    if options.has("f", "force", "x", "X") and not options.has("n", "dry-run"):
        call.report("git-destructive", "Deletes files that git does not know")


def _checkout(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "bB")
    discards = "--" in arguments or "." in arguments or options.has("f", "force", "discard-changes")
    if discards:
        call.report("git-destructive", "Loses work that is not committed")


def _restore(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "s", ("source",))
    if not options.has("S", "staged") or options.has("W", "worktree"):
        call.report("git-destructive", "Loses work that is not committed")


def _branch(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "u")
    is_deletion = options.has("D") or (options.has("d", "delete") and options.has("f", "force"))
    if is_deletion or options.has("M", "C"):
        call.report("git-destructive", "Deletes or overwrites a branch that may not be merged")


def _tag(call: Call, arguments: list[str]) -> None:
    if sort_options(arguments, "mFu").has("d", "delete", "f", "force"):
        call.report("git-destructive", "Deletes or moves a tag")


def _always(description: str) -> Callable[[Call, list[str]], None]:
    def rule(call: Call, arguments: list[str]) -> None:
        call.report("git-destructive", description)

    return rule


def _first(*verbs: str) -> Callable[[Call, list[str]], None]:
    """A subcommand that is dangerous only with one of these words."""

    def rule(call: Call, arguments: list[str]) -> None:
        words = [argument for argument in arguments if not argument.startswith("-")]
        if words and (words[0] in verbs or has_unknown(words[0])):
            call.report("git-destructive", f"Deletes what git keeps ({words[0]})")

    return rule


def _gc(call: Call, arguments: list[str]) -> None:
    if any(argument.startswith("--prune=") or argument == "--aggressive" for argument in arguments):
        call.report("git-destructive", "Deletes commits that could still be recovered")


def _update_ref(call: Call, arguments: list[str]) -> None:
    call.report("git-destructive", "Moves or deletes references by hand")


def _remove(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments)
    if options.has("f", "force") or (options.has("r") and not options.has("cached")):
        call.report("git-destructive", "Deletes files from the working tree")


def _config(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "ft", ("file", "type", "blob", "default"))
    words = [operand for operand in options.operands if operand not in ("set", "--")]
    for path in options.get("f", "file"):
        call.shell.writes(path) if len(words) > 1 else call.shell.reads(path)
    if options.has("e", "edit"):
        call.report("git-runs", "Opens git's settings in an editor")
    if len(words) > 1 and words[0] not in ("get", "list", "get-all", "get-regexp"):
        _setting(call, words[0], words[1])


def _runs_rest(call: Call, arguments: list[str]) -> None:
    """`bisect run cmd`, `submodule foreach cmd`, `rebase --exec cmd`."""
    options = sort_options(arguments, "xs", ("exec", "extcmd", "tool"))
    for text in options.get("x", "exec", "extcmd"):
        call.shell.child_script(text)
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[1:]
    if arguments[:1] in (["run"], ["foreach"]):
        command = [
            argument for argument in arguments[1:] if argument not in ("--recursive", "--quiet")
        ]
        call.shell.child_script(" ".join(command))
        call.run(command)


def _credential(call: Call, arguments: list[str]) -> None:
    if "fill" in arguments or "get" in arguments:
        call.report("credentials", "Reads passwords that git keeps")


def _grep(call: Call, arguments: list[str]) -> None:
    if any(re.match(r"-O|--open-files-in-pager", argument) for argument in arguments):
        call.report("unclear-script", "git is told to run a command")


def _submodule(call: Call, arguments: list[str]) -> None:
    _runs_rest(call, arguments)
    _first("deinit")(call, arguments)


def _clone(call: Call, arguments: list[str]) -> None:
    options = sort_options(arguments, "bcojuC", ("branch", "config", "depth", "template", "origin"))
    for setting in options.get("c", "config"):
        name, _, value = setting.partition("=")
        _setting(call, name, value)
    for text in options.get("u"):
        call.shell.child_script(text)
    if len(options.operands) > 1:
        call.shell.writes(options.operands[1])


_VERBS: dict[str, Callable[[Call, list[str]], None]] = {
    "push": _push, "reset": _reset, "clean": _clean, "checkout": _checkout, "switch": _checkout,
    "restore": _restore, "branch": _branch, "tag": _tag,
    "filter-branch": _always("Rewrites the history"), "filter-repo": _always("Rewrites the history"),
    "stash": _first("drop", "clear"), "reflog": _first("expire", "delete"), "gc": _gc,
    "prune": _always("Deletes commits that could still be recovered"), "update-ref": _update_ref,
    "replace": _update_ref, "rm": _remove, "config": _config, "bisect": _runs_rest,
    "rebase": _runs_rest, "difftool": _runs_rest, "submodule": _submodule, "grep": _grep,
    "credential": _credential, "credential-store": _credential, "worktree": _first("remove", "prune"),
    "remote": _first("remove", "rm"), "clone": _clone, "send-email": _always("Sends mail"),
    "instaweb": _always("Opens the repository to the network"),
    "daemon": _always("Opens the repository to the network"),
}  # fmt: skip

_GH_DELETING = re.compile(
    r"\b(?:repo|release|secret|variable|issue|gist|run|workflow|ssh-key|gpg-key|codespace|label|pr"
    r"|cache|project|environment|key|token|deploy-key|ruleset)\s+(?:delete|remove|archive|rename|disable"
    r"|transfer|edit|set|merge|close|lock)\b"
)


def _gh(call: Call) -> str:
    options: Options = sort_options(
        call.arguments, "XHfFRqtb", ("method", "header", "field", "repo")
    )
    text = " ".join(options.operands[:3])
    if _GH_DELETING.search(text):
        call.report("cloud-delete", "Changes or deletes something on the server")
    if options.operands[:2] == ["auth", "token"] or "--show-token" in call.arguments:
        call.report("credentials", "Shows a token")
    methods = {method.upper() for method in options.get("X", "method")}
    if options.operands[:1] == ["api"] and (methods - {"GET"} or options.has("f", "F", "input")):
        call.report("cloud-delete", "Changes something on the server")
    if options.operands[:2] in (["gist", "create"], ["release", "upload"], ["alias", "set"]):
        call.report("upload", "Publishes files")
    return UNKNOWN


def _svn(call: Call) -> str:
    words = [argument for argument in call.arguments if not argument.startswith("-")]
    if words and words[0] in ("revert", "delete", "rm", "strip", "purge", "rollback", "update"):
        is_forced = {"-R", "--force", "-C", "--all", "-a"} & set(call.arguments)
        if is_forced or words[0] in ("strip", "purge", "rollback"):
            call.report("git-destructive", "Loses work that is not committed")
    return UNKNOWN


GIT: dict[str, Rule] = {
    "git": _git, "gh": _gh, "glab": _gh, "svn": _svn, "hg": _svn, "jj": _svn,
}  # fmt: skip
