"""What it means to read, write or delete a path.

Paths may hold marks. A path is judged as it is written and, where it exists, as what it leads to:
a link to a protected file is as protected as the file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .marks import (
    ONE,
    STAR,
    UNKNOWN,
    could_match,
    has_glob,
    has_marks,
    has_unknown,
    simplified,
)


class Danger(NamedTuple):
    """Why something needs approval, or is refused."""

    key: str
    description: str
    hard: bool = False


_SECRET = re.compile(
    r"""
      /\.ssh/(?!known_hosts|config$|authorized_keys|[^/]*\.pub$)[^/]+
    | /id_(?:rsa|dsa|ecdsa|ed25519|ecdsa_sk|ed25519_sk)$
    | /\.aws/(?:credentials|config|sso|cli)\b
    | /\.(?:azure|gnupg|password-store|config/gcloud|config/op|bitcoin|ethereum|electrum)(?:/|$)
    | /\.(?:kube/config|docker/config\.json|config/gh/hosts\.yml|config/hub|vault-token)$
    | /\.(?:pgpass|my\.cnf|npmrc|pypirc|git-credentials|config/git/credentials|s3cfg|boto)$
    | /\.(?:databrickscfg|config/rclone/rclone\.conf|cargo/credentials(?:\.toml)?)$
    | /\.(?:gem/credentials|m2/settings\.xml|terraform\.d/credentials\.tfrc\.json|condarc)$
    | /[._]netrc$
    | /[^/]*\.env$
    | /\.env\.(?!example$|sample$|template$|dist$|defaults?$|schema$)[^/]+$
    | /etc/(?:g?shadow-?|sudoers|master\.passwd|krb5\.keytab|security/opasswd)$
    | /etc/(?:sudoers\.d|ssl/private)(?:/|$)
    | /etc/ssh/ssh_host_[^/]*_key$
    | /(?:login\ data|cookies|cookies\.sqlite|logins\.json|key[34]\.db|wallet\.dat)$
    | /library/(?:keychains|cookies)(?:/|$)
    | /\.local/share/(?:keyrings|kwalletd)(?:/|$)
    | /\.(?:bash|zsh|sh|python|node_repl|psql|mysql|sqlite|rediscli|irb)_history$
    | /fish_history$
    | /proc/[^/]+/(?:environ|mem|auxv)$
    | /proc/kcore$
    | /dev/k?mem$
    | /run/secrets(?:/|$)
    | /serviceaccount/token$
    | \.(?:p12|pfx|kdbx|keystore|jks|ppk|key)$
    | /[^/]*(?:priv|secret|-key)[^/]*\.pem$
    | /secrets?\.(?:ya?ml|json|toml|txt)$
    | /credentials?(?:\.(?:json|ya?ml|csv|toml|txt|ini))?$
    | /service[-_]account[^/]*\.json$
    """,
    re.VERBOSE,
)
_STARTUP = re.compile(
    r"""
      /\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile)$
    | /\.(?:zlogin|zlogout|kshrc|cshrc|tcshrc|login|inputrc|xinitrc|xprofile|xsessionrc|envrc)$
    | /\.(?:pam_environment|tmux\.conf|screenrc|vimrc|exrc|gdbinit|irbrc|pryrc|gitconfig|hgrc)$
    | /\.config/(?:fish|autostart|systemd|environment\.d|git|nvim|pip)/
    | /library/launch(?:agents|daemons)/
    | /etc/(?:profile|bash\.bashrc|zshrc|zsh|environment|rc\.local|inittab|ld\.so\.preload)$
    | /etc/(?:profile\.d|rc[0-9s]?\.d|init\.d|init|systemd|pam\.d|xdg/autostart|zsh|ssh)/
    | /(?:site|user)customize\.py$
    | /site-packages/[^/]*\.pth$
    """,
    re.VERBOSE,
)
_KEYS_TO_THE_MACHINE = re.compile(
    r"/\.ssh/(?:authorized_keys2?|config|rc|environment)$|/etc/sudoers|/etc/ssh/"
)
_CRON = re.compile(r"/etc/(?:cron[^/]*(?:/|$)|anacrontab)|/var/spool/(?:cron|at)|/cron/jobs\.json$")
_GIT = re.compile(r"/\.git/(?:hooks/|config$|info/attributes$|modules/[^/]+/hooks/)|/\.husky/")
_DISK = re.compile(
    r"^/dev/(?:sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme|mmcblk|r?disk|dm-|md[0-9]|mapper/|loop|nbd"
    r"|zd[0-9]|zvol/|block/|k?mem$|port$|nvram|mtd)"
)
_HARMLESS_DEVICE = re.compile(
    r"^/dev/(?:null|zero|full|random|urandom|stdin|stdout|stderr|tty[^/]*|fd/[^/]*|ptmx|pts/[0-9]+"
    r"|shm/.*)$"
)
_SYSTEM = re.compile(
    r"^/(?:etc|usr|bin|sbin|lib[^/]*|boot|proc|sys|dev|var|opt|srv|root|run|system|library|private"
    r"|applications|snap|nix|cores)(?:/|$)"
)
_SCRATCH = re.compile(r"^/(?:tmp|var/tmp|dev/shm)(?:/|$)")
_OWN_SECRET = re.compile(r"/\.hermes/(?:profiles/[^/]+/)?(?:\.env|auth\.json)$")
_LONGEST = 4096
_OWN_NAMES = (".env", "auth.json")

_TOP_LEVEL = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "opt",
        "proc",
        "root",
        "run",
        "sbin",
        "srv",
        "sys",
        "usr",
        "var",
        "users",
        "system",
        "library",
        "applications",
        "volumes",
        "private",
        "windows",
    ]
)
_VITAL = frozenset({
    "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/share", "/usr/local", "/var/lib",
})  # fmt: skip
_PRODUCTS = frozenset({
    "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox",
    "build", "dist", "target", "out", "coverage", ".coverage", "htmlcov", ".next", ".nuxt",
    ".turbo", ".parcel-cache", ".cache", ".gradle", ".eggs", ".hypothesis", "tmp", "temp",
})  # fmt: skip
_SECRET_FOLDERS = (".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".config/gcloud")
_EXAMPLES = (
    ".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/authorized_keys", ".aws/credentials", ".netrc",
    ".git-credentials", ".gnupg/secring.gpg", ".kube/config", ".docker/config.json", ".pgpass",
    ".npmrc", ".bash_history", ".zsh_history", ".bashrc", ".profile", ".config/gh/hosts.yml",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are on this machine."""

    working: str
    """The working directory of the conversation."""
    user_home: str
    hermes_home: str


def absolute(path: str, directory: str) -> str:
    """The path from the root, without `.`, `..` and doubled slashes.

    What begins with something unknown stays as it is: it could be anywhere.
    """
    path = simplified(path)
    if len(path) + len(directory) > _LONGEST:
        return UNKNOWN
    if not path.startswith("/"):
        if path and has_unknown(path[0]):
            return path
        path = f"{directory}/{path}"
    components: list[str] = []
    for component in path.split("/"):
        if component == "..":
            if components and has_unknown(components[-1]):
                return UNKNOWN
            del components[-1:]
        elif component not in ("", "."):
            components.append(component)
    if directory and has_unknown(directory[0]) and path.startswith(directory):
        return "/".join(components)
    return "/" + "/".join(components)


def real(path: str) -> str:
    """What a known path leads to on this machine."""
    if has_marks(path) or "\0" in path:
        return path
    try:
        return str(Path(os.path.realpath(path)))
    except (OSError, ValueError):
        return path  # too long, or a loop: no file either


def _both(path: str) -> tuple[str, ...]:
    followed = real(path)
    short = followed.removeprefix("/private") if followed.startswith("/private/") else followed
    return (path,) if short == path else (path, short)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder's own or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_scratch(text: str) -> bool:
    """Whether a path, as it was written, is in a folder for temporary files."""
    return bool(_SCRATCH.match(text)) and "/.." not in text


def _is_own_secret(path: str, places: Places) -> bool:
    if _OWN_SECRET.search(path.lower()):
        return True
    if not is_inside(path, places.hermes_home) or has_unknown(path):
        return False
    components = path[len(places.hermes_home) :].split("/")[1:]
    is_home = len(components) == 1 or (
        len(components) == 3 and could_match(components[0], "profiles")
    )
    return is_home and any(could_match(components[-1], name) for name in _OWN_NAMES)


def _is_own_data(path: str, places: Places) -> bool:
    """The agent's settings and memory: more than this conversation may see is in them."""
    if not is_inside(path, places.hermes_home):
        return False
    inside = path[len(places.hermes_home) :].strip("/")
    return has_unknown(inside) or bool(
        re.search(r"^config\.yaml|\.db(?:-\w+)?$|^sessions?\b|^(?:people|groups)(?:/|$)", inside)
    )


def _matches_example(path: str, places: Places) -> bool:
    """Whether a path with wildcards could be one of the well-known secrets."""
    components = path.split("/")
    examples = [f"{places.user_home}/{example}" for example in _EXAMPLES]
    examples += [f"{places.hermes_home}/{name}" for name in _OWN_NAMES]
    examples += [f"{places.working}/.env", "/etc/shadow", "/etc/sudoers", "/proc/1/environ"]
    for example in examples:
        wanted = example.split("/")
        if len(wanted) == len(components) and all(map(could_match, components, wanted)):
            return True
    return False


def read_danger(path: str, places: Places) -> Danger | None:
    """Why reading a file needs approval: it holds secrets."""
    for spelling in _both(path):
        if _is_own_secret(spelling, places):
            return Danger("own-credentials", "Touches the agent's own credentials", hard=True)
        if _SECRET.search(spelling.lower()) or (
            has_glob(spelling) and _matches_example(spelling, places)
        ):
            return Danger("credentials", "Touches a file that holds secrets")
        if _is_own_data(spelling, places):
            return Danger("hermes-home", "Reads the agent's own settings or memory")
    return None


def tree_danger(path: str, places: Places) -> Danger | None:
    """Why reading a whole tree needs approval: there are secrets in it."""
    folder = path.rstrip("/" + STAR) or "/"
    for spelling in _both(folder):
        secrets = [
            places.hermes_home,
            *(f"{places.user_home}/{folder}" for folder in _SECRET_FOLDERS),
        ]
        for secret in secrets:
            if is_inside(secret, spelling) or is_inside(spelling, secret):
                return Danger("credentials", "Reads a folder with files that hold secrets")
    return None


def write_danger(path: str, places: Places, *, scratch: bool = False) -> Danger | None:
    """Why writing a file needs approval, or is refused; `scratch`: temporary files are fine."""
    for spelling in _both(path):
        danger = _write_danger(spelling, places, scratch)
        if danger:
            return danger
    return None


def _write_danger(path: str, places: Places, scratch: bool) -> Danger | None:
    if _HARMLESS_DEVICE.match(path):
        return None
    lower = path.lower()
    if _DISK.match(lower.replace(STAR, "a").replace(ONE, "a")):
        return Danger("disk", "Writes to a disk or to memory directly", hard=True)
    if lower == "/proc/sysrq-trigger":
        return Danger("disk", "Triggers an emergency action of the kernel (SysRq)", hard=True)
    if _is_own_secret(path, places):
        return Danger("own-credentials", "Touches the agent's own credentials", hard=True)
    if _KEYS_TO_THE_MACHINE.search(lower):
        return Danger("remote-access", "Changes who may log in, or how")
    if _CRON.search(lower):
        return Danger("cron", "Changes scheduled commands (cron)")
    if _STARTUP.search(lower):
        return Danger("startup-file", "Changes a file that is run at every start or login")
    if _GIT.search(lower):
        return Danger("git-hooks", "Changes what git runs by itself")
    if _SECRET.search(lower) or (has_glob(path) and _matches_example(path, places)):
        return Danger("credentials", "Touches a file that holds secrets")
    if has_unknown(path[:1]) or path == "/" + UNKNOWN:
        return Danger("write-unknown", "Writes to a place that cannot be known beforehand")
    is_at_work = is_inside(path, places.working)
    if is_inside(path, places.hermes_home) and not (
        is_at_work and is_inside(places.working, places.hermes_home)
    ):
        return Danger("hermes-home", "Changes the agent's own files")
    if is_at_work and places.working != "/":
        return None
    if scratch and _SCRATCH.match(path):
        return None
    if _SYSTEM.match(lower) and not is_inside(path, places.user_home):
        return Danger("system-write", "Changes files of the system")
    return Danger("write-outside", "Writes outside the working directory")


def is_catastrophic(path: str, places: Places) -> bool:
    """Whether deleting or changing all of this would ruin the machine or lose everything."""
    components = path.split("/")[1:]
    while components and components[-1].lstrip(".") and not components[-1].strip("." + STAR):
        components.pop()
    folder = "/" + "/".join(components)
    if not path.startswith("/"):
        return False
    if len(components) == 1 and has_glob(folder) and not has_unknown(folder):
        return any(could_match(components[0], name) for name in _TOP_LEVEL)
    for spelling in _both(folder):
        lower = spelling.lower()
        if spelling in ("/", places.user_home, places.hermes_home) or lower in _VITAL:
            return True
        if lower.count("/") == 1 and lower[1:] in _TOP_LEVEL:
            return True
        if is_inside(places.user_home, spelling):
            return True
    return False


def is_product(path: str, places: Places) -> bool:
    """Whether a path is within something that is built anew when it is needed."""
    for spelling in _both(path):
        if not is_inside(spelling, places.working) or has_unknown(spelling):
            return False
        inside = spelling[len(places.working) :].strip("/").split("/")
        if not any(name in _PRODUCTS or name.endswith(".egg-info") for name in inside):
            return False
    return True
