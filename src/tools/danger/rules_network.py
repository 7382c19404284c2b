"""Programs that fetch from or send to other machines."""

from __future__ import annotations

import re

from .call import Call, Rule, reports
from .marks import CONTENT, OBSCURE, UNKNOWN, as_literal, has_unknown
from .paths import tree_danger

_LOCAL = re.compile(r"(?:https?://)?(?:localhost|127\.[0-9.]+|\[::1\]|0\.0\.0\.0)(?::|/|$)")
_CURL_VALUED = "AbcCdDeEFhHKmoPQrTtuUwxXyYz"
_CURL_LONG = (
    "data", "data-raw", "data-binary", "data-ascii", "data-urlencode", "json", "form",
    "form-string", "upload-file", "output", "header", "request", "user", "user-agent", "config",
    "cookie", "cookie-jar", "referer", "url", "proxy", "max-time", "connect-timeout", "cert", "key",
    "cacert", "write-out", "retry", "range", "output-dir", "resolve", "interface", "dump-header",
    "netrc-file", "unix-socket", "oauth2-bearer", "retry-delay", "limit-rate", "trace",
)  # fmt: skip


def _curl(call: Call) -> str:
    options = call.options(_CURL_VALUED, _CURL_LONG)
    urls = [*options.operands, *options.get("url")]
    is_local = bool(urls) and all(_LOCAL.match(as_literal(url)) for url in urls)
    sent = [*options.get("d", "data", "data-binary", "data-ascii", "data-urlencode", "json")]
    forms = options.get("F", "form")
    files = [word.split("@", 1)[1] for word in sent if "@" in word[:1] or re.match(r"\w+@", word)]
    files += [re.split("[@<]", form, maxsplit=1)[1] for form in forms if re.search("=[@<]", form)]
    files += options.get("T", "upload-file")
    for file in files:
        call.shell.reads(file)
        if not is_local:
            call.report("upload", "Sends a file to another machine")
    texts = [*sent, *forms, *options.get("data-raw", "form-string", "H", "header"), *urls]
    _carries_content(call, texts, is_local)
    for path in options.get("K", "config"):
        call.shell.reads(path)
    for path in [*options.get("key", "cert", "E", "netrc-file", "b", "cookie")]:
        call.shell.reads(path)
    for url in urls:
        if url.startswith("file:"):
            call.shell.reads(re.sub(r"^file:/*", "/", url))
    return _fetched(call, options.get("o", "output"), urls, options.has("O", "remote-name", "J"))


def _carries_content(call: Call, texts: list[str], is_local: bool) -> None:
    if not is_local and any(CONTENT in text or OBSCURE in text for text in texts):
        call.report("upload", "Sends what is in a file to another machine")


def _fetched(call: Call, outputs: list[str], urls: list[str], by_name: bool) -> str:
    """Remember where a download goes: running it later is running what nobody has seen."""
    for path in outputs:
        if path not in ("-", "/dev/stdout"):
            call.shell.writes(path, UNKNOWN)
    if by_name and not outputs:
        for url in urls:
            name = url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
            call.shell.writes(name or "index.html", UNKNOWN)
    return UNKNOWN


def _wget(call: Call) -> str:
    valued = ("post-file", "body-file", "post-data", "body-data", "output-document", "header",
              "directory-prefix", "user-agent", "execute", "timeout", "tries", "input-file")  # fmt: skip
    options = call.options("oOaPUeTtiQwDRAl", valued)
    for path in options.get("i", "input-file"):
        call.shell.reads(path)
    for path in options.get("post-file", "body-file"):
        call.shell.reads(path)
        call.report("upload", "Sends a file to another machine")
    texts = [*options.get("post-data", "body-data", "header"), *options.operands]
    _carries_content(call, texts, is_local=False)
    for text in options.get("e", "execute"):
        if "use_askpass" in text or "post" in text:
            call.report("upload", "Sends something to another machine")
    outputs = options.get("O", "output-document")
    folders = options.get("P", "directory-prefix")
    for folder in folders:
        for url in options.operands:
            name = url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
            call.shell.writes(f"{folder.rstrip('/')}/{name}", UNKNOWN)
    return _fetched(call, outputs, options.operands, by_name=not folders)


def _netcat(call: Call) -> str:
    options = call.options("ceigImoOpPqsTVwXx", ("exec", "sh-exec", "lua-exec"))
    for text in [*options.get("e", "c", "exec", "sh-exec", "lua-exec")]:
        call.shell.child_script(text)
    if not options.has("z") or options.has("e", "c", "exec", "sh-exec", "lua-exec"):
        call.report("network-pipe", "Opens a raw connection to or from the network")
    return UNKNOWN


def _socat(call: Call) -> str:
    for argument in call.arguments:
        match = re.match(r"(?:EXEC|SYSTEM):(.*)", argument, re.IGNORECASE | re.DOTALL)
        if match:
            call.shell.child_script(match[1].strip("\"'"))
    call.report("network-pipe", "Opens a raw connection to or from the network")
    return UNKNOWN


def _ssh(call: Call) -> str:
    options = call.options("BbcDEeFIiJLlmOopQRSWw", until_operand=True)
    for text in options.get("o"):
        match = re.match(
            r"\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand)[\s=]+(.*)", text, re.IGNORECASE
        )
        if match:
            call.shell.child_script(match[1])
            call.report("unclear-script", "ssh is told to run a command here")
    if options.has("R", "L", "D", "w"):
        call.report("tunnel", "Opens a tunnel between this machine and another")
    command = options.operands[1:]
    while command and command[0].startswith("-"):
        command = command[1:]
    if command or call.stdin is not None:
        _remote(call, " ".join(command), call.stdin)
    return UNKNOWN


def _remote(call: Call, text: str, stdin: str | None) -> None:
    """Follow a command on another machine: nothing is known of where it starts."""
    shell = call.shell
    if stdin is not None and CONTENT in stdin:
        call.report("upload", "Sends what is in a file to another machine")

    def follow() -> str:
        shell.state.directories = frozenset({UNKNOWN})
        return shell.child_script(text or "sh", stdin)

    if text or stdin is not None:
        shell.apart(follow)


def _scp(call: Call) -> str:
    options = call.options("cFiJloPSXD")
    for text in options.get("o", "S"):
        if "roxycommand" in text.lower() or text in options.get("S"):
            call.shell.child_script(text.partition("=")[2] or text)
    operands = options.operands
    for target in operands[-1:]:
        if re.match(r"[\w.@\[\]:-]+:", target):
            call.report("upload", "Sends files to another machine")
        else:
            call.shell.writes(target, UNKNOWN)
    for source in operands[:-1]:
        call.shell.reads(source)
        for path in call.shell.paths(source):
            call.shell.judge(tree_danger(path, call.shell.places))
    return UNKNOWN


_transfer = reports("upload", "Exchanges files with another machine")
_mail = reports("message", "Sends a message in your name")


def _rclone(call: Call) -> str:
    verb = call.arguments[0] if call.arguments else ""
    if verb in ("delete", "purge", "deletefile", "rmdir", "rmdirs", "sync", "move", "cleanup"):
        call.report("cloud-delete", "Deletes in the cloud")
    elif verb in ("copy", "copyto", "serve", "rcat"):
        call.report("upload", "Sends files to another machine")
    return UNKNOWN


def _dns(call: Call) -> str:
    if any(CONTENT in argument or OBSCURE in argument for argument in call.arguments):
        call.report("upload", "Sends what is in a file to another machine")
    return UNKNOWN


def _tunnel(call: Call) -> str:
    words = [argument for argument in call.arguments if not argument.startswith("-")]
    if words and not has_unknown(words[0]) and words[0] in ("version", "help", "status"):
        return UNKNOWN
    call.report("tunnel", "Opens this machine to the network")
    return UNKNOWN


NETWORK: dict[str, Rule] = {
    "curl": _curl, "wget": _wget, "ssh": _ssh, "autossh": _ssh, "mosh": _ssh, "sshpass": _ssh,
    "scp": _scp, "sftp": _transfer, "ftp": _transfer, "lftp": _transfer, "ncftp": _transfer,
    "tftp": _transfer, "smbclient": _transfer, "croc": _transfer, "wormhole": _transfer,
    "magic-wormhole": _transfer, "http": _curl, "https": _curl, "xh": _curl, "aria2c": _wget,
    **dict.fromkeys(("nc", "ncat", "netcat", "telnet", "pwncat"), _netcat), "socat": _socat,
    **dict.fromkeys(("mail", "mailx", "sendmail", "mutt", "msmtp", "swaks", "ssmtp"), _mail),
    "rclone": _rclone, **dict.fromkeys(("dig", "nslookup", "host", "ping"), _dns),
    **dict.fromkeys(("ngrok", "cloudflared", "localtunnel", "lt", "bore", "frpc", "chisel"), _tunnel),
}  # fmt: skip
