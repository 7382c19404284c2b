"""Programs whose output follows from their input: what they print is known if their input is.

That is how text is hidden from the eye and fed to a shell. A decoder that is not modelled gives
"obscure" for known input, which always needs approval.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from itertools import cycle, islice

from .call import Call, Rule, sort_options
from .marks import CONTENT, OBSCURE, UNKNOWN, as_literal, has_marks, has_unknown
from .word_reader import decode_ansi

_LONGEST = 50_000
_FORMAT = re.compile(
    r"%%|%([-+ #0']*)(\*|[0-9]{1,4})?(?:\.(\*|[0-9]{1,4}))?([a-zA-Z]|\([^)]{0,200}\)T)"
)
_OCTAL = re.compile(r"\\0([0-7]{1,3})")
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)
_CLASSES = {
    "[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z",
    "[:alnum:]": "0-9A-Za-z", "[:space:]": " \t\n\r\v\f",
}  # fmt: skip


def _echo(call: Call) -> str:
    arguments = list(call.arguments)
    newline, escapes = "\n", False
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        letters = arguments.pop(0)[1:]
        newline = "" if "n" in letters else newline
        escapes = escapes or "e" in letters
    text = " ".join(arguments)
    decoded = _unescaped(text)
    if decoded != text and (not escapes or call.shell.is_plain_sh):
        return OBSCURE  # some shells decode without being told to, some do not even if told
    return decoded + newline


def _unescaped(text: str) -> str:
    """What `echo -e` and `%b` make of a text."""
    if "\\" not in text:
        return text
    return OBSCURE if "\\c" in text else decode_ansi(_OCTAL.sub(r"\\\1", text))


def _printf(call: Call) -> str:
    arguments = list(call.arguments)
    variable = None
    if arguments[:1] == ["-v"] and len(arguments) > 1:
        variable = arguments[1]
        arguments = arguments[2:]
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    form = as_literal(arguments[0]) if arguments else ""
    text = _formatted(form, arguments[1:])
    if call.shell.is_plain_sh and re.search(r"\\[xuU]|%[^sdcb%]", form):
        text = OBSCURE
    if variable is None:
        return text
    call.shell.expand_again(variable)
    call.shell.set_variable(variable, frozenset({text}))
    return ""


def _formatted(form: str, arguments: list[str]) -> str:
    wanted = sum(match[0] != "%%" for match in _FORMAT.finditer(form))
    left = list(arguments)
    printed = []
    for _ in range(1000):
        once = _once(form, left)
        printed.append(OBSCURE if "\\c" in once else decode_ansi(once))
        if not left or not wanted:
            break
    text = "".join(printed)
    return text if len(text) <= _LONGEST else UNKNOWN


def _once(form: str, left: list[str]) -> str:
    def one(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        if "*" in (match[2], match[3]):
            left[:1] = []
        argument = left.pop(0) if left else ""
        kind = match[4]
        if kind in ("s", "q", "Q"):
            cut = argument[: int(match[3])] if match[3] and match[3] != "*" else argument
            return cut.replace("\\", "\\\\")
        if kind == "b":
            return _unescaped(argument).replace("\\", "\\\\")
        if kind == "c":
            return argument[:1].replace("\\", "\\\\")
        if kind in "diu" and argument.isdigit() and not match[2]:
            return argument
        return _number(kind, argument, match)

    return _FORMAT.sub(one, form)


def _number(kind: str, argument: str, match: re.Match[str]) -> str:
    if has_unknown(argument):
        return UNKNOWN
    try:
        number = (
            int(argument or "0", 0) if not argument.startswith(("'", '"')) else ord(argument[1])
        )
        width = f"%{match[1].replace(chr(39), '')}{match[2] or ''}"
        return (width + {"i": "d", "u": "d"}.get(kind, kind)) % number
    except (ValueError, TypeError, IndexError):
        return OBSCURE


def _cat(call: Call) -> str:
    options = call.options()
    if not options.operands:
        return CONTENT if call.stdin is None else call.stdin
    text = call.contents(options.operands)
    return text if not options.flags - {"u"} else hidden(text)


def hidden(text: str) -> str:
    """What an unknown transformation makes of a text."""
    if not text or OBSCURE in text:
        return text and OBSCURE
    if CONTENT in text:
        return CONTENT
    return UNKNOWN if has_unknown(text) else OBSCURE


def _source_text(call: Call, operands: list[str]) -> str:
    return call.contents(operands) if operands else call.input


def _base64(call: Call) -> str:
    options = call.options("wio")
    if not options.has("d", "D", "decode"):
        return hidden(_source_text(call, options.operands + options.get("i")))
    text = _source_text(call, options.operands + options.get("i"))
    return _decoded(text, base64.b32decode if call.name == "base32" else base64.b64decode)


def _decoded(text: str, decode: Callable[[bytes], bytes]) -> str:
    if has_marks(text):
        return hidden(text)
    try:
        packed = re.sub(r"\s+", "", text).encode("ascii")
        return decode(packed + b"=" * (-len(packed) % 4)).decode("utf-8")
    except (ValueError, binascii.Error):
        return OBSCURE


def _xxd(call: Call) -> str:
    options = call.options("cglosn")
    text = _source_text(call, options.operands[:1])
    if not (options.has("r", "revert") and (options.has("p", "ps", "plain", "postscript"))):
        return hidden(text)
    return _decoded(text, lambda data: bytes.fromhex(data.rstrip(b"=").decode("ascii")))


def _rev(call: Call) -> str:
    text = _source_text(call, call.options().operands)
    return hidden(text) if has_marks(text) else "\n".join(x[::-1] for x in text.split("\n"))


def _tr(call: Call) -> str:
    options = call.options()
    text = call.input
    sets = [_characters(operand) for operand in options.operands]
    if has_marks(text) or any(words is None for words in sets) or not sets:
        return hidden(text)
    first = sets[0] or ""
    if options.has("c", "C", "complement", "s", "squeeze-repeats", "t", "truncate-set1"):
        return hidden(text)
    if options.has("d", "delete"):
        return text.translate(dict.fromkeys(map(ord, first)))
    second = (sets[1] if len(sets) > 1 else None) or ""
    if not second:
        return hidden(text)
    padded = second + second[-1] * max(0, len(first) - len(second))
    return text.translate({ord(old): new for old, new in zip(first, padded, strict=False)})


def _characters(text: str) -> str | None:
    """The characters of a set as `tr` reads it, or None if it is not known."""
    if has_marks(text):
        text = as_literal(text)
    if has_unknown(text) or len(text) > 500:
        return None
    for name, members in _CLASSES.items():
        text = text.replace(name, members)
    if "[" in text:
        return None
    text = decode_ansi(text)

    def span(match: re.Match[str]) -> str:
        low, high = ord(match[1]), ord(match[2])
        return "".join(map(chr, range(low, min(high, low + 1000) + 1)))

    return _RANGE.sub(span, text)


def _tee(call: Call) -> str:
    options = call.options()
    for path in options.operands:
        call.shell.writes(path, call.input, appends=options.has("a", "append"))
    return call.input


def _head(call: Call) -> str:
    options = call.options("nc")
    text = _source_text(
        call, [operand for operand in options.operands if not operand.startswith("+")]
    )
    is_whole = text.count("\n") <= 1 and not options.has("c", "bytes") and not has_marks(text)
    return text if is_whole else hidden(text)


def transformed(call: Call) -> str:
    """What a program prints that does something to its input."""
    return CONTENT if call.stdin is None else hidden(call.stdin)


def _yes(call: Call) -> str:
    word = " ".join(call.arguments) or "y"
    return "\n".join(islice(cycle([word]), 2)) + "\n"


def _mktemp(call: Call) -> str:
    options = call.options("p", ("suffix", "tmpdir"))
    folders = options.get("p", "tmpdir")
    if folders and folders[0]:
        return f"{folders[0]}/{UNKNOWN}\n"
    if options.operands and not options.has("t"):
        return options.operands[0] + "\n"
    return f"/tmp/tmp.{UNKNOWN}\n"


def _dirname(call: Call) -> str:
    operands = sort_options(call.arguments, "s").operands
    if len(operands) != 1 or has_unknown(operands[0]):
        return UNKNOWN
    folder, _, base = operands[0].rstrip("/").rpartition("/")
    return (base if call.name == "basename" else folder or ("/" if _ else ".")) + "\n"


def _realpath(call: Call) -> str:
    operands = [argument for argument in call.arguments if not argument.startswith("-")]
    if len(operands) != 1:
        return UNKNOWN
    paths = call.shell.paths(operands[0])
    return next(iter(paths)) + "\n" if len(paths) == 1 else UNKNOWN


FILTERS: dict[str, Rule] = {
    "echo": _echo, "printf": _printf, "cat": _cat, "base64": _base64, "base32": _base64,
    "gbase64": _base64, "xxd": _xxd, "rev": _rev, "tr": _tr, "tee": _tee, "head": _head,
    "tail": _head, "yes": _yes, "mktemp": _mktemp, "dirname": _dirname,
    "basename": _dirname, "realpath": _realpath, "readlink": _realpath,
    **dict.fromkeys(
        ["tac", "cut", "sort", "uniq", "paste", "fold", "fmt", "nl", "od", "hexdump", "uudecode", "uuencode", "gunzip", "zcat", "bzcat", "xzcat", "unxz", "bunzip2", "gzip", "openssl", "gpg", "iconv", "recode", "column", "expand", "unexpand", "dd", "m4", "cpp", "rot13", "caesar", "basenc", "uncompress", "zstdcat", "lz4cat", "brotli", "jq", "yq", "grep", "egrep", "fgrep", "sed", "awk", "gawk"],
        transformed,
    ),
}  # fmt: skip
"""Some of these have further rules elsewhere, which take precedence."""
