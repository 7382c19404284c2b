"""Programs that stop, change or open up the machine: power, processes, services, users, packages."""

from __future__ import annotations

import re

from . import own_files
from .call import Call, Rule, reports, table
from .filters import transformed
from .marks import PARENT, UNKNOWN, has_unknown

_OFF = "Shuts the machine down or restarts it"


def _power(call: Call) -> str:
    if not {"--help", "-h"} >= set(call.arguments) or "-h" in call.arguments or not call.arguments:
        call.report("power", _OFF)
    return ""


def _init(call: Call) -> str:
    if any(
        argument in ("0", "1", "6", "s", "S") or has_unknown(argument)
        for argument in call.arguments
    ):
        call.report("power", _OFF)
    return ""


def _systemctl(call: Call) -> str:
    options = call.options("HMtpnos", ("host", "machine", "type", "property", "lines", "output"))
    verb = options.operands[0] if options.operands else ""
    if verb in (
        "poweroff",
        "reboot",
        "halt",
        "kexec",
        "rescue",
        "emergency",
        "suspend",
        "hibernate",
    ):
        call.report("power", _OFF)
    elif has_unknown(verb) or verb in (
        "stop", "disable", "mask", "kill", "isolate", "restart", "try-restart", "reload-or-restart",
        "revert", "edit", "set-default", "set-property", "enable", "link", "unmask", "delete", "clean",
    ):  # fmt: skip
        call.report("services", "Stops or changes services of the machine")
    return UNKNOWN


def _service(call: Call) -> str:
    if any(
        argument in ("stop", "restart", "disable", "remove", "del") for argument in call.arguments
    ):
        call.report("services", "Stops or changes services of the machine")
    return UNKNOWN


def _launchctl(call: Call) -> str:
    verb = call.arguments[0] if call.arguments else ""
    if verb in ("unload", "bootout", "remove", "stop", "disable", "kill", "load", "bootstrap"):
        call.report("services", "Stops or changes services of the machine")
    return UNKNOWN


def _kill(call: Call) -> str:
    targets = list(call.arguments)
    if targets and targets[0] in ("-s", "-n") and len(targets) > 1:
        targets = targets[2:]
    elif targets and re.fullmatch(r"-[A-Za-z0-9]+", targets[0]) and len(targets) > 1:
        targets = targets[1:]
    if call.arguments[:1] in (["-l"], ["-L"]):
        return UNKNOWN
    targets = [target for target in targets if target != "--"]
    if PARENT in targets:
        call.report("own-process", "Ends the agent itself")
    if any(re.fullmatch(r"-0*1", target) for target in targets):
        call.report("kill-everything", "Kills every process", hard=True)
    if any(re.fullmatch(r"0*1", target) for target in targets):
        call.report("kill-everything", "Kills the first process of the machine", hard=True)
    return ""


def _kill_by_name(call: Call) -> str:
    if call.name in ("killall5", "skill"):
        call.report("kill-everything", "Kills every process", hard=call.name == "killall5")
    call.report("kill-by-name", "Kills processes by their name, whoever started them")
    return ""


def _firewall(call: Call) -> str:
    words = set(call.arguments)
    looking = {"-L", "-S", "--list", "status", "list", "-n", "-v", "--list-all", "show", "--state"}
    if words and not words & looking:
        call.report("firewall", "Changes the firewall")
    return UNKNOWN


def _network_setup(call: Call) -> str:
    words = set(call.arguments)
    changing = {"down", "del", "delete", "flush", "set", "add", "replace", "change", "-down"}
    if words & changing and not words & {"help"}:
        call.report("network-setup", "Changes the machine's network")
    return UNKNOWN


def _users(call: Call) -> str:
    if call.name == "passwd" and {"-S", "--status"} & set(call.arguments):
        return UNKNOWN
    call.report("users", "Changes users, groups or passwords")
    return UNKNOWN


_REMOVING = frozenset({
    "remove", "purge", "autoremove", "uninstall", "erase", "del", "delete", "rm", "un", "unlink",
    "autoremove-packages", "prune", "clean-all", "full-upgrade", "dist-upgrade", "downgrade",
})  # fmt: skip


def _packages(call: Call) -> str:
    words = [argument for argument in call.arguments if not argument.startswith("-")]
    flags = "".join(
        argument for argument in call.arguments if re.fullmatch(r"-[A-Za-z]+", argument)
    )
    is_removal = bool(words) and words[0] in _REMOVING
    is_removal |= call.name in ("pacman", "yay", "paru") and "R" in flags
    is_removal |= call.name == "dpkg" and bool(set(flags) & set("rP"))
    is_removal |= call.name == "rpm" and "e" in flags
    is_removal |= bool({"--remove", "--purge", "--erase"} & set(call.arguments))
    if call.name in ("npm", "yarn", "pnpm", "bun", "cargo", "gem", "composer", "go", "rustup"):
        is_removal &= bool({"-g", "--global", "global"} & set(call.arguments)) or call.name in (
            "gem", "rustup",
        )  # fmt: skip
    if is_removal:
        call.report("package-removal", "Removes packages")
    _publishes(call, words)
    if call.name in ("npm", "yarn", "pnpm", "bun"):
        own_files.follow_package(call, words)
    return UNKNOWN


def _publishes(call: Call, words: list[str]) -> None:
    verb = words[0] if words else ""
    if (call.name, verb) in {
        ("npm", "publish"), ("yarn", "publish"), ("pnpm", "publish"), ("cargo", "publish"),
        ("gem", "push"), ("twine", "upload"), ("npm", "unpublish"), ("poetry", "publish"),
        ("uv", "publish"), ("gem", "yank"), ("cargo", "yank"), ("npm", "deprecate"),
    }:  # fmt: skip
        call.report("publish", "Publishes something for everybody")
    if call.name in ("npm", "yarn", "pnpm") and verb in ("exec", "x", "dlx"):
        options = call.options("c", ("call", "package"))
        for text in options.get("c", "call"):
            call.shell.child_script(text)
        rest = [word for word in words[1:] if word != "--"]
        if rest:
            call.run(rest)
    if call.name == "npm" and verb in ("config", "set") and "set" in words:
        call.report("startup-file", "Changes settings that make npm run something")


def _crontab(call: Call) -> str:
    options = call.options("u")
    if options.has("l") and not options.operands:
        return UNKNOWN
    call.report("cron", "Changes scheduled commands (cron)")
    if call.stdin is not None:
        for line in call.input.split("\n"):
            match = re.match(r"\s*(?:@\w+|(?:\S+\s+){5})(.*)", line[:2000])
            if match:
                call.shell.child_script(match[1])
    return ""


def _kernel(call: Call) -> str:
    words = set(call.arguments)
    if call.name == "sysctl" and not (
        words & {"-w", "-p", "--system"} or any("=" in w for w in words)
    ):
        return UNKNOWN
    if call.name in ("mount", "swapon") and not call.arguments:
        return UNKNOWN
    call.report("kernel", "Changes the running system")
    return UNKNOWN


def _clock(call: Call) -> str:
    options = call.options("dfrs", ("date", "file", "reference", "set"))
    if options.has("s", "set") or any(operand.startswith("set") for operand in options.operands):
        call.report("kernel", "Changes the clock or the name of the machine")
    return UNKNOWN


def _ps(call: Call) -> str:
    if any(re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", argument) for argument in call.arguments[:1]):
        call.report("credentials", "Shows the environment of processes")
    return UNKNOWN


_debugger = reports("credentials", "Looks into the memory of a running process")
_keychain = reports("credentials", "Reads from a store of passwords or keys")


def _gpg(call: Call) -> str:
    text = " ".join(call.arguments)
    if re.search(r"--export-secret|--delete|--edit-key|--import\b", text):
        call.report("credentials", "Exports, changes or deletes keys")
    return UNKNOWN


def _ssh_keygen(call: Call) -> str:
    options = call.options("fCNtbPYIns")
    if options.has("p", "R", "N") or not (set(options.flags) & {"l", "F", "y", "B"}):
        for path in options.get("f"):
            call.shell.writes(path)
    return UNKNOWN


def _make(call: Call) -> str:
    options = call.options("fCIojlW", ("file", "makefile", "eval", "directory"))
    for text in options.get("eval"):
        call.shell.child_script(text.strip().removeprefix("\t"))
        call.report("unclear-script", "make is told to run something")
    files = options.get("f", "file", "makefile") or ["Makefile", "makefile", "GNUmakefile"]
    for path in files:
        for folder in options.get("C", "directory") or ["."]:
            for place in call.shell.paths(f"{folder}/{path}" if path[:1] != "/" else path):
                if own_files.is_own(call.shell, place):
                    own_files.follow_makefile(call.shell, place)
        is_input = path in ("-", "/dev/stdin")
        text = call.input if is_input else call.shell.written(path, "")
        for line in text.split("\n"):
            if line.startswith("\t") or ";" in line:
                call.shell.child_script(line.rpartition(":")[2].strip(" \t;@-"))
        if is_input and has_unknown(text):
            call.report("pipe-to-shell", "Feeds make input that nobody has seen")
    for argument in options.operands:
        if re.match(r"SHELL=|\.SHELLFLAGS=", argument):
            call.report("unclear-script", "make is given another shell")
    return UNKNOWN


def _pager(call: Call) -> str:
    """man and less: other programs they are told to use, commands they are told to run."""
    options = call.options("PHCLMSrRkoOpTtbhjxyz", ("pager", "html"))
    commands = options.get("P", "H", "pager", "html") if call.name == "man" else []
    commands += [
        argument.split("!", 1)[1]
        for argument in call.arguments
        if argument.startswith("+") and "!" in argument
    ]
    for text in commands:
        call.report("unclear-script", f"{call.name} is told to run a command")
        call.shell.child_script(text)
    return UNKNOWN


def _sort(call: Call) -> str:
    options = call.options("kotSTC", ("output", "compress-program", "key"))
    for path in options.get("o", "output"):
        call.shell.writes(path)
    for text in options.get("compress-program"):
        call.shell.child_script(text)
    return transformed(call)


_invitation = reports("remote-access", "Changes who may log in, or how")
SYSTEM: dict[str, Rule] = {
    **table("shutdown reboot halt poweroff pm-suspend pm-hibernate kexec", _power),
    **table("init telinit", _init),
    "systemctl": _systemctl, "launchctl": _launchctl, "kill": _kill,
    **table("service rc-service rc-update update-rc.d chkconfig sv supervisorctl initctl", _service),
    **table("pkill killall killall5 skill snice", _kill_by_name),
    **table("iptables ip6tables nft ufw firewall-cmd pfctl ebtables ipset iptables-restore", _firewall),
    **table("ip ifconfig route nmcli networksetup ifdown resolvectl iw", _network_setup),
    **table(
        "useradd userdel usermod adduser deluser groupadd groupdel groupmod passwd chpasswd visudo"
        " gpasswd vipw vigr chsh chfn dscl sysadminctl newusers pwconv faillock", _users),
    **table(
        "apt apt-get aptitude dpkg yum dnf zypper pacman yay paru apk brew port snap flatpak pip"
        " pip3 npm yarn pnpm gem cargo composer rpm emerge nix-env opkg pkg choco winget scoop twine"
        " rustup go xbps-remove eopkg swupd", _packages),
    "crontab": _crontab,
    **table(
        "mount umount swapoff swapon sysctl modprobe insmod rmmod setenforce auditctl setcap"
        " grub-install update-grub efibootmgr bootctl pivot_root losetup kpatch apparmor_parser"
        " aa-disable dmsetup wall loginctl tc ethtool rfkill", _kernel),
    **table("date timedatectl hostnamectl hwclock", _clock),
    "ps": _ps, **table("gcore jmap jstack coredumpctl", _debugger),
    **table("security secret-tool pass gopass keyring kwallet-query keyctl lpass bw vault", _keychain),
    "gpg": _gpg, "gpg2": _gpg, "ssh-keygen": _ssh_keygen,
    **table("make gmake bmake", _make), "sort": _sort, "gsort": _sort,
    **table("man less more most", _pager), "ssh-copy-id": _invitation,
}  # fmt: skip
