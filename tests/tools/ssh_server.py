"""`python ssh_server.py FOLDER PORT`: an ssh server on loopback, where no sshd is installed.

It has the key `host` of the folder and lets in whoever has the key `user`. A command runs in the
login shell with a clean environment, as with sshd, and outlives its connection.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import sys
import termios
from pathlib import Path
from typing import Any

import asyncssh

Process = asyncssh.SSHServerProcess[bytes]


async def run(process: Process) -> None:
    with_terminal = process.term_type is not None
    code = await (run_in_terminal(process) if with_terminal else run_with_pipes(process))
    process.exit(128 - code if code < 0 else code)


async def run_with_pipes(process: Process) -> int:
    pipe = asyncio.subprocess.PIPE
    child = await start(process, stdin=pipe, stdout=pipe, stderr=pipe)

    async def give() -> None:
        while data := await process.stdin.read(65536):
            child.stdin.write(data)
            await child.stdin.drain()
        child.stdin.close()

    async def show(output: asyncio.StreamReader, there: asyncssh.SSHWriter[bytes]) -> None:
        while data := await output.read(65536):
            there.write(data)
            await there.drain()

    giving = asyncio.create_task(give())
    # The end of the output is not told by itself: the client would go before the exit code comes.
    await asyncio.gather(show(child.stdout, process.stdout), show(child.stderr, process.stderr))
    giving.cancel()
    return await child.wait()


async def run_in_terminal(process: Process) -> int:
    ours, theirs = os.openpty()
    child = await start(
        process,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)

    async def give() -> None:
        while data := await process.stdin.read(4096):
            os.write(ours, data)

    giving = asyncio.create_task(give())
    while data := await asyncio.to_thread(_read, ours):
        process.stdout.write(data)
        await process.stdout.drain()
    giving.cancel()
    os.close(ours)
    return await child.wait()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody has it open any more
        return b""


async def start(process: Process, **streams: Any) -> Any:
    account = pwd.getpwuid(os.getuid())
    shell = account.pw_shell or "/bin/sh"
    return await asyncio.create_subprocess_exec(
        shell,
        "-c",
        process.command or "",
        cwd=account.pw_dir,
        env={
            "HOME": account.pw_dir,
            "USER": account.pw_name,
            "SHELL": shell,
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "SSH_CONNECTION": "127.0.0.1 0 127.0.0.1 0",
        },
        start_new_session=True,
        **streams,
    )


async def serve(folder: Path, port: int) -> None:
    await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[str(folder / "host")],
        authorized_client_keys=asyncssh.import_authorized_keys((folder / "user.pub").read_text()),
        process_factory=run,
        encoding=None,
        line_editor=False,
        reuse_address=True,
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
