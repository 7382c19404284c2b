"""A process that has imported everything and opened nothing, and forks the children of the suite.

`python -m tests.conformance.children.zygote FD`: on the socket FD come orders in JSON. One with a
module, a home and three descriptors forks a child that runs its `main(home)` on them; one that says
`wait` is answered with a child's exit code. A forked child is a process like any other, with an id,
memory and descriptors of its own; what it is spared are the imports.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from ... import server_store

PACKAGES = ("hermes_state", "tools", "agent", "gateway", "tui_gateway")
"""What the children would import sooner or later."""


def import_all(packages: Sequence[str] = PACKAGES) -> None:
    """Import the packages as far as they can be imported here."""
    for name in packages:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}.", onerror=lambda _: None):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue  # an optional part whose library is not installed


def serve(orders: socket.socket) -> None:
    """Fork and wait as told, until nobody tells any more."""
    while True:
        line, descriptors, _, _ = socket.recv_fds(orders, 65536, 3)
        if not line:
            return
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            pid = os.fork()
            if pid == 0:
                orders.close()
                become(descriptors, **order)
            for descriptor in descriptors:
                os.close(descriptor)
            answer = {"pid": pid}
        orders.send(json.dumps(answer).encode())


def become(descriptors: list[int], program: str, home: str, environment: dict[str, str]) -> None:
    """Be the child; does not return."""
    code = 1
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.update(environment)
        os.chdir(home)
        importlib.import_module(program).main(Path(home))
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this copy of the zygote must end here
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import_all()
    server_store.install()
    assert threading.active_count() == 1, "a process with threads must not be forked"
    gc.collect()
    gc.freeze()  # what is here already is not looked at, and so not copied, in every child
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.send(b"{}")
        serve(channel)
