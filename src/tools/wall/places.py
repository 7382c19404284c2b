"""Where keys, sockets and caches are on a machine.

One table says what a command never sees. It names places, not contents: a project's own `.env`
inside the workspace belongs to the work. Only settings that tools need are looked into: they are
hidden if there is a secret in them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from hermes_base.redaction import redact

HIDDEN_IN_HOME = (
    # keys and credentials
    ".ssh", ".gnupg", ".pki", ".password-store", ".netrc", "_netrc", ".authinfo", ".authinfo.gpg",
    ".pgpass", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".config/git/credentials", ".pypirc",
    ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".vault-token",
    ".m2/settings-security.xml", ".composer/auth.json", ".config/composer/auth.json",
    ".config/pypoetry/auth.toml", ".terraformrc", ".terraform.d", ".s3cfg", ".boto",
    ".databrickscfg", ".snowsql",
    ".config/gh", ".config/hub", ".config/glab-cli", ".config/op", ".config/rclone", ".config/age",
    ".config/sops", ".config/doctl", ".config/heroku", ".config/netlify", ".config/configstore",
    ".config/containers/auth.json", ".fly", ".vercel",
    ".local/share/uv/credentials", ".hex/hex.config",
    ".pub-cache/credentials.json", ".config/dart", ".sbt/.credentials", ".ivy2/.credentials",
    ".subversion/auth", ".jfrog", ".sentryclirc", ".clasprc.json", ".config/firebase",
    ".config/stripe", ".config/ngrok",
    ".ngrok2", ".cloudflared", ".wrangler", ".config/.wrangler", ".railway", ".supabase", ".pulumi",
    ".config/hcloud", ".config/linode-cli", ".config/scw", ".config/openstack", ".config/nats",
    ".config/lab", ".config/tea", ".gsutil", ".dbt", ".kaggle", ".modal.toml", ".chef",
    ".vault_pass", ".vault_pass.txt", ".huggingface", ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens", ".android/adbkey", ".local/share/gnupg", ".config/gopass",
    ".local/share/gopass", ".local/share/password-store", ".rclone.conf", ".config/filezilla",
    ".config/remmina", ".local/share/remmina", ".config/syncthing", ".local/state/syncthing",
    ".jupyter/jupyter_server_config.json", ".local/share/jupyter/runtime", ".streamlit",
    ".Xauthority", ".ICEauthority", ".smbcredentials", ".cifs", ".rhosts", ".google_authenticator",
    # clouds and containers
    ".aws", ".azure", ".config/gcloud", ".oci", ".aliyun", ".bluemix", ".ibmcloud", ".kube",
    ".minikube", ".docker", ".config/containers", ".local/share/containers", ".helm", ".colima",
    ".lima", ".rd", ".orbstack", ".local/share/docker", ".config/helm", ".config/argocd",
    # mail, wallets, chats, other agents
    ".thunderbird", ".mutt", ".muttrc", ".msmtprc", ".mbsyncrc", ".fetchmailrc", ".bitcoin",
    ".ethereum", ".electrum", ".config/Signal", ".config/Slack", ".config/discord", ".hermes",
    ".claude", ".claude.json", ".codex", ".gemini", ".openclaw", ".nanobot", ".qwen", ".continue",
    ".config/opencode", ".local/share/opencode", ".config/goose", ".config/github-copilot",
    ".config/io.datasette.llm", ".aider.conf.yml", ".ollama/id_ed25519", ".config/anthropic",
    ".config/neomutt", ".config/msmtp", ".config/aerc", ".config/himalaya", ".config/isyncrc",
    ".config/evolution", ".local/share/evolution", ".config/weechat", ".weechat", ".irssi",
    ".config/Element", ".local/share/TelegramDesktop", ".config/Code", ".config/Cursor",
    ".config/VSCodium", ".vscode-server", ".cursor-server", ".config/JetBrains",
    ".local/share/JetBrains", ".cursor",
    # browsers and keyrings
    ".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".cache/mozilla",
    ".cache/google-chrome", ".cache/chromium", ".local/share/keyrings", ".local/share/kwalletd",
    ".var/app", "snap", "Library/Keychains", "Library/Cookies", "Library/Application Support",
    ".1password", ".config/1Password", ".config/Bitwarden", ".config/keepassxc",
    # what was typed before
    ".bash_history", ".zsh_history", ".histfile", ".local/share/fish/fish_history",
    ".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history",
    ".rediscli_history", ".lesshst", ".viminfo", ".irb_history", ".zsh_sessions", ".dbshell",
    ".mongosh", ".local/state/bash", ".local/state/nvim/shada",
)  # fmt: skip
"""Files and folders below a person's home."""

HIDDEN_WITH_SECRETS = (
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pnpm/rc", ".bundle/config", ".m2/settings.xml",
    ".gradle/gradle.properties", ".condarc", ".config/pip/pip.conf", ".pip/pip.conf",
    ".config/uv/uv.toml", ".cargo/config", ".cargo/config.toml", ".curlrc", ".wgetrc",
    ".config/NuGet/NuGet.Config", ".nuget/NuGet/NuGet.Config", ".sbt/repositories",
)  # fmt: skip
"""Settings of tools below a home, which need them: hidden only while there is a secret in them."""

HIDDEN_ANYWHERE = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers",
    "/etc/sudoers.d", "/etc/ssl/private", "/etc/krb5.keytab", "/etc/security/opasswd",
    "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_dsa_key", "/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager",
    "/etc/docker", "/etc/kubernetes", "/etc/rancher", "/var/lib/docker", "/var/lib/containerd",
    "/var/lib/kubelet", "/var/run/secrets", "/var/spool/cron", "/var/backups", "/var/mail",
    "/var/spool/mail", "/boot", "/lost+found", "/sys/firmware", "/sys/kernel/debug",
    "/sys/kernel/tracing", "/sys/fs/bpf", "/etc/letsencrypt", "/etc/pki/tls/private",
    "/etc/apt/auth.conf", "/etc/apt/auth.conf.d", "/etc/ppp", "/etc/ipsec.secrets", "/etc/swanctl",
    "/etc/wpa_supplicant", "/etc/netplan", "/etc/credstore", "/etc/credstore.encrypted",
    "/etc/mysql/debian.cnf", "/etc/postfix/sasl_passwd", "/etc/exim4/passwd.client", "/etc/iwd",
    "/var/lib/iwd", "/var/lib/NetworkManager", "/var/lib/tailscale", "/var/lib/bluetooth",
    "/var/lib/private", "/var/lib/samba/private", "/var/lib/cloud", "/var/lib/sss",
    "/var/lib/systemd/credential.secret", "/var/lib/lxd", "/var/lib/incus", "/var/snap",
    "/var/lib/containers", "/var/lib/rancher", "/var/lib/postgresql", "/var/lib/mysql",
)  # fmt: skip

_SOCKETS = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS",
            "XAUTHORITY", "KUBECONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "PGPASSFILE",
            "NETRC", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "DOCKER_CONFIG",
            "GNUPGHOME", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "VAULT_TOKEN_PATH",
            "XDG_RUNTIME_DIR")  # fmt: skip
"""Variables that say where a key or a socket is, if not in its usual place."""

_SETTINGS = ("NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "UV_CONFIG_FILE", "CONDARC")
"""Variables that say where such settings are."""
_LONGEST_SETTINGS = 262_144
"""Bytes; longer settings of a tool are hidden unread."""

CACHES = (
    ".cache", ".npm", ".node-gyp", ".yarn/berry", ".pnpm-store", ".local/share/pnpm/store",
    ".cargo/registry", ".cargo/git", ".cargo/.package-cache", "go/pkg", ".m2/repository",
    ".gradle/caches", ".ivy2/cache", ".sbt/boot", ".nuget/packages", ".gem/cache", ".bundle/cache",
    ".composer/cache", ".pub-cache/hosted", ".pub-cache/hosted-hashes", ".pub-cache/git", ".hex",
    ".stack/pantry", ".stack/snapshots", ".cabal/packages", ".cabal/store", ".cabal/logs",
    ".opam/download-cache", ".ccache", ".rustup/tmp", ".rustup/downloads", ".bun/install/cache",
    ".conda/pkgs", ".matplotlib", ".jupyter/lab", ".texlive",
)  # fmt: skip
"""Folders of the usual tools below a home that hold nothing but what can be fetched again: neither
settings nor what is run at each start."""

_MADE_FOR = {
    ".cache": "", ".npm": "npm", ".cargo/registry": "cargo", ".cargo/git": "cargo", "go/pkg": "go",
    ".m2/repository": "mvn", ".nuget/packages": "dotnet", ".bun/install/cache": "bun",
}  # fmt: skip
"""Caches without which a program that is here does not work, and that it cannot make inside."""


def real_places(paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """Those that exist, followed through links, each once."""
    places: dict[Path, None] = {}
    for path in paths:
        # Not to be reached, or a loop: nothing to hide. Most are not there, which `stat` finds out
        # in a tenth of the time, and every command looks them up.
        with suppress(OSError, RuntimeError):
            os.stat(path)  # noqa: PTH116
            places[Path(path).resolve(strict=True)] = None
    return tuple(places)


OWN_PROGRAMS = real_places([Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]])
"""What this program itself is run by; looked up once, since it may be inside a root."""


def hidden_places(hermes_home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Every place on this machine that no command sees, as real paths that exist."""
    named = [_plain(environ[name]) for name in _SOCKETS if environ.get(name)]
    settings = _perhaps_there(HIDDEN_WITH_SECRETS)
    settings += [environ[name] for name in _SETTINGS if environ.get(name)]
    secrets = [path for path in real_places(settings) if _holds_secret(path)]
    in_home = [path for path in _perhaps_there(HIDDEN_IN_HOME) if not _is_link_in_cache(path)]
    anywhere = (*HIDDEN_ANYWHERE, *in_home)
    return real_places([hermes_home, *anywhere, *named, *secrets])


def _perhaps_there(places: tuple[str, ...]) -> list[str]:
    """These places below every home, without those whose first folder is not in it.

    Of hundreds of places few are there, and every command would ask for each of them.
    """
    paths: list[str] = []
    for home in homes():
        try:
            # Some systems find a name in whatever case it is written.
            names = {name.casefold() for name in os.listdir(home)}  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # it cannot be listed, but perhaps entered
            paths += [f"{home}/{place}" for place in places]
        else:
            paths += [f"{home}/{place}" for first, place in _first_parts(places) if first in names]
    return paths


@cache
def _first_parts(places: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((place.partition("/")[0].casefold(), place) for place in places)


def writable_caches(home: Path) -> tuple[Path, ...]:
    """The caches of the usual tools that are there; those of installed ones are made."""
    for name, program in _MADE_FOR.items():
        if not (home / name).is_dir() and (not program or _is_installed(program)):
            with suppress(OSError):  # a home that cannot be written has no caches
                (home / name).mkdir(mode=0o700, parents=True)
    names = (f"{home}/{name}" for name in CACHES)
    return tuple(place for place in real_places(names) if place.is_dir())


@cache
def _is_installed(program: str) -> bool:
    """Looked up once in the life of this process: every command would have to search the PATH."""
    return shutil.which(program) is not None


def git_folder(root: Path) -> Path | None:
    """Where the history of a work tree is kept, if outside of it.

    `.git` in a work tree is a file that anybody who writes there can change, so it is believed only
    if the folder that it names points back to this very work tree.
    """
    try:
        pointer = (root / ".git").read_text(encoding="utf-8")
        own = (root / pointer.removeprefix("gitdir:").strip()).resolve()
        back = Path((own / "gitdir").read_text(encoding="utf-8").strip())
        common = (own / (own / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, UnicodeDecodeError):
        return None
    is_git = (common / "objects").is_dir() and (common / "HEAD").is_file()
    return common if is_git and back == root / ".git" and own.parent.parent == common else None


def run_by_git(roots: Iterable[Path], *, within: bool) -> tuple[Path, ...]:
    """What git runs by itself in these folders: it stays as it is, since it is run outside too.

    The settings of a work tree's own repository are not among them: ordinary commands change them.
    `within`: also in repositories that are within their work tree.
    """
    guarded: list[Path] = []
    for root in roots:
        if (root / "HEAD").is_file() and (root / "objects").is_dir():  # a repository itself
            guarded += [root / "hooks", root / "config"]
        if within:
            guarded.append(root / ".git/hooks")
    # A link was put there from inside, or leads to where its own rules hold.
    return tuple(place for place in guarded if real_places([place]) == (place,))


def kept_in_place(roots: Iterable[Path]) -> tuple[Path, ...]:
    """Folders that would take what git runs by itself along, if they were moved aside."""
    hooks = [root / ".git/hooks" for root in roots]
    return tuple(place.parent for place in hooks if real_places([place]) == (place,))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Those that are not inside another one, by their names.

    What is inside another one can be replaced from inside, by a link to anywhere: it must not be
    followed, and need not be, since its rule is the other one's.
    """
    named = list(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))  # noqa: PTH100
    real = {path: path.resolve() for path in named}
    return [
        path
        for path in named
        if not any(
            outer != path and (path.is_relative_to(outer) or path.is_relative_to(real[outer]))
            for outer in named
        )
    ]


def _is_link_in_cache(path: str) -> bool:
    """Whether it was perhaps made from inside a wall, to have something else hidden."""
    home, is_cache, name = path.partition("/.cache/")
    if not is_cache or not os.path.lexists(path):
        return False
    return os.path.realpath(path) != f"{os.path.realpath(f'{home}/.cache')}/{name}"


_looked_into: dict[Path, tuple[tuple[int, int, int], bool]] = {}


def _holds_secret(path: Path) -> bool:
    """Whether there is a secret in a settings file; it is read again only when it was changed."""
    try:
        info = path.stat()
        version = (info.st_mtime_ns, info.st_size, info.st_ino)
        known = _looked_into.get(path)
        if known is not None and known[0] == version:
            return known[1]
        is_long = info.st_size > _LONGEST_SETTINGS or not stat.S_ISREG(info.st_mode)
        text = "" if is_long else path.read_text(encoding="utf-8")
    except OSError:
        return True  # closed to this account; a wall may be built by another one
    except UnicodeDecodeError:
        return True  # nothing that these tools would read
    is_secret = is_long or redact(text) != text
    _looked_into[path] = version, is_secret
    return is_secret


@cache
def homes() -> tuple[Path, ...]:
    """The homes of people on this machine, this account's first."""
    own = os.geteuid()
    entries = [entry.pw_dir for entry in pwd.getpwall() if entry.pw_uid >= 1000 or not entry.pw_uid]
    # Somebody else's is closed anyway, unless this is root. HOME may name another than its own.
    mine = [entry.pw_dir for entry in pwd.getpwall() if entry.pw_uid == own]
    folders = [str(Path.home()), *mine, *(entries if own == 0 else [])]
    return tuple(Path(folder) for folder in dict.fromkeys(folders) if folder not in ("/", ""))


def _plain(value: str) -> str:
    """The path in a variable such as unix:///run/docker.sock or unix:path=/run/bus,guid=…"""
    return value.split(",")[0].removeprefix("unix://").removeprefix("unix:path=")
