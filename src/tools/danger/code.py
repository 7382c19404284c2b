"""Code in other languages, given on the command line: what it could do beyond computing.

Python is parsed. For other languages the words in the code decide; what could run, delete, write,
send or hide something needs approval.
"""

from __future__ import annotations

import ast
import re
import warnings
from itertools import islice
from typing import TYPE_CHECKING

from .marks import UNKNOWN

if TYPE_CHECKING:
    from .walk import Walker

_LONGEST = 100_000
_DESCRIPTION = "Code on the command line that can do more than compute"

_PYTHON_MODULES = frozenset({
    "subprocess", "shutil", "pty", "socket", "ctypes", "multiprocessing", "importlib", "requests",
    "httpx", "aiohttp", "urllib.request", "urllib3", "http.client", "ftplib", "smtplib", "telnetlib",
    "paramiko", "fabric", "pickle", "marshal", "code", "codeop", "runpy", "builtins", "posix", "nt",
    "signal", "webbrowser", "xmlrpc", "asyncio.subprocess", "pexpect", "sh", "plumbum", "commands",
    "boto3", "dbm", "shelve", "mmap", "fcntl", "resource", "cffi", "imp", "zipimport", "ensurepip",
    "pip", "antigravity", "keyring", "getpass", "sqlite3", "psycopg2", "pymysql", "tempfile",
})  # fmt: skip
_PYTHON_CALLS = frozenset({
    "system", "popen", "remove", "unlink", "rmdir", "removedirs", "rmtree", "rename", "renames",
    "kill", "killpg", "fork", "forkpty", "chmod", "chown", "lchown", "truncate", "symlink", "link",
    "write_text", "write_bytes", "execv", "execve", "execl", "execle", "execlp", "execvp",
    "execvpe", "execlpe", "spawnl", "spawnv", "spawnlp", "spawnvp", "spawnle", "spawnve",
    "posix_spawn", "posix_spawnp", "putenv", "startfile", "mkfifo", "mknod", "setuid", "setgid",
    "popen2", "popen3", "urlopen", "urlretrieve", "import_module", "load_module", "exec_module",
    "create_subprocess_exec", "create_subprocess_shell", "touch", "makedirs", "copyfile", "move",
    "copytree", "hardlink_to", "symlink_to", "unpack_archive", "extractall", "loads_pickle",
})  # fmt: skip
_PYTHON_NAMES = frozenset({
    "eval", "exec", "compile", "__import__", "globals", "locals", "vars", "getattr", "setattr",
    "delattr", "breakpoint", "__builtins__", "__loader__", "__subclasses__", "__globals__",
    "__dict__", "__getattribute__", "__mro__", "__bases__", "__code__", "__class__", "modules",
    "_getframe", "input",
})  # fmt: skip
_DECODERS = frozenset({"base64", "codecs", "binascii", "zlib", "string", "sys", "bz2", "lzma"})

_WORDS = re.compile(
    r"""
      \b(?:system|exec[a-z]*|spawn[a-z]*|popen[0-9e]?|fork|syscall|eval[a-z]*|unlink[a-z]*|rmdir
        |rmtree|rm_rf?|rm_f|remove_?[a-z]*|delete|deleteSync|rmSync|rename[a-z]*|chmod[a-z]*
        |chown[a-z]*|truncate[a-z]*|symlink[a-z]*|kill|child_process|fileutils|file_put_contents
        |fopen|fwrite|passthru|shell_exec|proc_open|pcntl_[a-z]+|assert|include|require_once
        |createconnection|socket[a-z]*|fetch|xmlhttprequest|open3|pty|ffi|dlopen|loadstring
        |load|dofile|os\.execute|io\.popen|instance_eval|class_eval|public_send|send|__send__
        |constantize|writefile[a-z]*|appendfile[a-z]*|createwritestream|function\s*\(\s*['"]
        |process\.binding|mainmodule|constructor|vm\.run[a-z]*|pack|unpack|do\s+shell|run
        |remove-item|invoke-[a-z]+|start-process|iex|stop-[a-z]+|set-content|out-file|clear-[a-z]+
        |format-volume|restart-computer|downloadstring|frombase64string|encodedcommand|enc
        |atob|fromcharcode|buffer|http[a-z]*|net|tls|dgram|request|lwp|https?::?[a-z]+|import
        |shell|chr|hex|oct|reverse|tr|y|qx|sprintf)\b
    | ` | \|\s*["'] | ["']\s*\| | <\( | %x[\W_] | \bIO\b | \bFile\b | \bDir\b
    | \bPathname\b | \\x[0-9a-f]{2} | \\u\{?[0-9a-f]{2} | >\s*["'/] | \bsys\.process\b | \$\$|@ARGV
    """,
    re.VERBOSE | re.IGNORECASE,
)
_OPENS = re.compile(r"\bopen", re.IGNORECASE)
_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.){1,2000})\"|'((?:[^'\\\n]|\\.){1,2000})'")
_MOST_STRINGS = 50
_MOST_PATHS = 500
_PATH = re.compile(r"[^\s()<>|;&*]*[./][^\s()<>|;&]{1,200}")
_WRITING = re.compile(r"[rbtU]*[wax+][rwaxbtU+]*")
_FORKS_FOREVER = re.compile(
    r"\bfork\s+while\b|while[\s(]*(?:1|true|True|fork\b|\(\))[\s):{]*[^;\n]{0,40}\bfork\b"
    r"|\bloop\s*+\{?\s*+(?:do)?\s*+fork\b|for\s*\(\s*;\s*;\s*\)\s*+\{?\s*+fork"
)
_REQUIRES = re.compile(
    r"\brequire\b|\bimport\b|\buse\b|\bprocess\b|\bENV\b|\bSTDIN\b|\$_|<>|\bgets\b"
)


def check_code(shell: Walker, language: str, code: str) -> None:
    """Note what code in another language could do."""
    shell.budget.spend(len(code))
    if UNKNOWN in code:
        shell.report("unclear-script", "Runs code that cannot be known beforehand")
    if _FORKS_FOREVER.search(code[:_LONGEST]):
        shell.report("fork-bomb", "Starts itself again and again: a fork bomb", hard=True)
    if len(code) > _LONGEST or code.count('"') + code.count("'") > 2 * _MOST_PATHS:
        shell.report("code", "Code on the command line, too long to be looked through")
        return
    strings = list(islice(_STRING.finditer(code), _MOST_PATHS))
    for match in strings:
        text = match[1] or match[2]
        if _PATH.fullmatch(text):
            shell.reads(text)
    is_python = language in ("python", "pypy", "ipython")
    if _python_is_dangerous(code) if is_python else _words_are_dangerous(code):
        shell.report("code", _DESCRIPTION)
        _look_at_strings(shell, code)


def _look_at_strings(shell: Walker, code: str) -> None:
    """Strings in the code, read as commands and paths: only what must never be done counts."""
    for match in list(_STRING.finditer(code))[:_MOST_STRINGS]:
        text = match[1] or match[2]
        shell.existing_script(text)
        if text.startswith(("/", "~")) and re.search(r"rmtree|rm_r|rmSync|removeSync|rmdir", code):
            shell.existing_script(f"rm -rf {text}")


def _words_are_dangerous(code: str) -> bool:
    return _WORDS.search(code) is not None or any(
        (opens := _OPENS.search(part))
        and ("|" in part[opens.end() :] or ">" in part[opens.end() :])
        for part in code.split(";")
    )


def _python_is_dangerous(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return any(_node_is_dangerous(node) for node in ast.walk(tree))


def _node_is_dangerous(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(_is_dangerous_module(alias.name) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        names = {alias.name for alias in node.names}
        module = node.module or ""
        is_module = any(_is_dangerous_module(f"{module}.{name}") for name in names)
        unsafe = names & (_PYTHON_CALLS | {"*", "open", "replace", "environ"})
        return _is_dangerous_module(module) or is_module or (bool(unsafe) and module != "math")
    if isinstance(node, ast.Name):
        return node.id in _PYTHON_NAMES
    if isinstance(node, ast.Attribute):
        is_os = isinstance(node.value, ast.Name) and node.value.id == "os"
        return (
            node.attr in _PYTHON_NAMES - {"compile", "input", "eval"}
            or node.attr in _PYTHON_CALLS
            or (is_os and node.attr in ("replace", "open", "abort", "_exit", "environb"))
            or f"os.{node.attr}" == "os.posix"
        )
    if isinstance(node, ast.Call):
        return _opens_for_writing(node)
    return False


def _is_dangerous_module(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in _PYTHON_MODULES for count in range(1, len(parts) + 1))


def _opens_for_writing(node: ast.Call) -> bool:
    function = node.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name != "open":
        return False
    values = [*node.args, *(word.value for word in node.keywords)]
    if any(
        isinstance(value, ast.Constant) and _WRITING.fullmatch(str(value.value)) for value in values
    ):
        return True
    path = values[0] if values else None
    if isinstance(path, ast.Constant):
        return _is_secret(path) or not all(isinstance(value, ast.Constant) for value in values)
    # Arguments of the command are looked at elsewhere; any other computed name may be a secret's.
    return not (isinstance(path, ast.Subscript) or isinstance(function, ast.Attribute))


def _is_secret(path: ast.expr | None) -> bool:
    if not isinstance(path, ast.Constant) or not isinstance(path.value, str):
        return False
    return bool(
        re.search(r"\.env|\.ssh|shadow|secret|credential|\.aws|_history|auth\.json", path.value)
    )


def prints_only(code: str) -> bool:
    """Whether code only prints what is written in it: then what it prints was hidden."""
    if _REQUIRES.search(code):
        modules = set(re.findall(r"\bimport\s+([a-z0-9_, ]+)", code))
        names = {name.strip() for group in modules for name in group.split(",")}
        return bool(names) and names <= _DECODERS
    return "print" in code or "puts" in code or "echo" in code or "console.log" in code
