"""What runs in the child of `execute_code`: two small programs, kept here as text.

`start.py` sets the limits, runs the program and shows its errors without the parts that are not
its own. `hermes_tools.py` is the module through which the program calls tools: one connection, one
request at a time, a line of JSON each way.
"""

from __future__ import annotations

from .socket import DESCRIPTOR_VARIABLE, TOKEN_VARIABLE

PARAMETERS = {
    "read_file": "path, offset=None, limit=None",
    "write_file": "path, content",
    "patch": "mode=None, path=None, old_string=None, new_string=None, replace_all=None, patch=None",
    "search_files": "pattern, target=None, path=None, file_glob=None, limit=None, offset=None, "
    "output_mode=None, context=None",
    "terminal": "command, timeout=None, workdir=None",
    "web_fetch": "url, max_chars=None",
    "session_search": "query=None, limit=None, sort=None, session_id=None, "
    "around_message_id=None, window=None, role_filter=None",
}
"""The tools that a program may call, with their parameters."""

_FUNCTION = '''

def {name}({parameters}):
    """The tool {name}."""
    return _call("{name}", locals())
'''

HERMES_TOOLS = f'''"""Hermes' tools, for a program that it runs: they return text."""

import json as _json
import os as _os
import socket as _socket
import threading as _threading


class ToolError(Exception):
    """A tool failed, or may not be used; the text says why."""


_lock = _threading.Lock()
_token = _os.environ.pop("{TOKEN_VARIABLE}", "")
_descriptor = _os.environ.pop("{DESCRIPTOR_VARIABLE}", "")
_stream = None


def _connect():
    global _stream
    if _descriptor:
        connection = _socket.socket(fileno=int(_descriptor))
    else:
        folder = _os.path.dirname(_os.path.abspath(__file__))
        connection = _socket.socket(_socket.AF_UNIX)
        connection.connect(_os.path.join(folder, "socket"))
    _stream = connection.makefile("rwb")
    _send({{"token": _token}})


def _send(message):
    _stream.write(_json.dumps(message).encode() + b"\\n")
    _stream.flush()


def _call(name, arguments):
    arguments = {{key: value for key, value in arguments.items() if value is not None}}
    with _lock:
        try:
            if _stream is None:
                _connect()
            _send({{"tool": name, "arguments": arguments}})
            line = _stream.readline()
        except OSError as error:
            raise ToolError(f"Hermes cannot be reached: {{error}}.") from None
    if not line:
        raise ToolError("Hermes has ended the connection.")
    answer = _json.loads(line)
    if "error" in answer:
        raise ToolError(answer["error"])
    return answer["result"]
''' + "".join(
    _FUNCTION.format(name=name, parameters=parameters) for name, parameters in PARAMETERS.items()
)

START = '''"""Run script.py within limits; an error shows the program's own lines only."""

import os
import resource
import sys
import traceback

MB = 1 << 20
LIMITS = {
    resource.RLIMIT_AS: 4096 * MB,
    resource.RLIMIT_FSIZE: 256 * MB,
    resource.RLIMIT_CPU: 300,
    resource.RLIMIT_NOFILE: 512,
    resource.RLIMIT_CORE: 0,
}


def set_limits():
    for kind, wanted in LIMITS.items():
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):
            pass  # a system that has not got this limit


def show(error, script):
    shown = traceback.TracebackException.from_exception(error, limit=-200)
    one = shown
    seen = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        own = [frame for frame in one.stack if frame.filename == script]
        last = [frame for frame in one.stack[-1:] if frame.filename not in (script, __file__)]
        one.stack = traceback.StackSummary.from_list((own + last)[-20:])
        one = one.__cause__ or one.__context__
    text = "".join(shown.format()).replace(script, "script.py")
    sys.stdout.flush()
    sys.stderr.write(text[-8000:])


def main():
    set_limits()
    folder = os.path.dirname(os.path.abspath(__file__))
    script = os.path.join(folder, "script.py")
    sys.path.insert(0, folder)
    sys.argv = [script]
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    import hermes_tools  # takes the token out of the environment

    with open(script, encoding="utf-8", errors="surrogatepass") as file:
        source = file.read()
    module = type(sys)("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    try:
        exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        show(error, script)
        sys.exit(1)


main()
'''
