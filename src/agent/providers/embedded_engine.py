"""The model inside the process: one llama.cpp server per weights file, and threads that ask it.

llama.cpp calls back from native code, which sets two rules. A callback never raises (the exception
would be printed and the generation go on): a stop flag ends a generation. And the interpreter never
exits while a thread is inside (that would crash it): at exit every worker is told to stop and is
waited for, which takes as long as one step of the computation.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.errors import RequestRefusedError

CONTEXT_LENGTH = 8192
"""The window the model was trained with."""
_PARALLEL = 4
_BATCH = 128
"""Prompt tokens per step: small enough that a stop during a long prompt takes about half a second,
large enough to cost little speed."""
_MOST_THREADS = 8
"""More are of no use to a model this small."""
_PROMPT_CACHE_MB = 128

# Progress reports call back during a long prompt, where a stop must be noticed as well.
_STREAMING: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_progress": True,
}

Chunk = dict[str, Any]

_engines: dict[Path, Engine] = {}
_loading = threading.Lock()
"""Guards `_engines`, and is held while weights are loaded."""
_workers: set[Worker] = set()
_exiting = False
_counting = threading.Lock()
"""Guards `_workers` and `_exiting`; never held for long, since event loops take it."""


class Worker(threading.Thread):
    """A thread that may be inside the model; `stop` tells it to come back."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        # A daemon, so that the exit handler below is reached while it is still running.
        super().__init__(name="hermes-embedded-model", daemon=True)
        self.stop = threading.Event()
        self._work = work

    def start(self) -> None:
        """Start the thread, unless the program is ending."""
        with _counting:
            if _exiting:
                raise RequestRefusedError("Hermes is shutting down.", provider="local")
            _workers.add(self)
        super().start()

    def run(self) -> None:
        """Do the work, then be forgotten."""
        try:
            self._work(self.stop)
        finally:
            with _counting:
                _workers.discard(self)


class Engine:
    """Loaded weights, shared by all conversations of this process. Use `acquire` and `release`."""

    def __init__(self, runtime: ModuleType, weights: Path) -> None:
        self.weights = weights
        self.users = 0
        parameters = runtime.CommonParams()
        parameters.model.path = str(weights)
        parameters.n_ctx = CONTEXT_LENGTH
        parameters.n_parallel = _PARALLEL
        # Otherwise the window would be divided among the parallel conversations.
        parameters.kv_unified = True
        parameters.n_batch = parameters.n_ubatch = _BATCH
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _threads()
        parameters.cache_ram_mib = _PROMPT_CACHE_MB
        parameters.verbosity = -1
        parameters.warmup = False
        # It always listens on loopback as well; nobody else knows the key.
        parameters.api_keys = [secrets.token_hex(32)]
        parameters.ui = False
        try:
            self._server = runtime.Server(parameters)
        except RuntimeError as error:
            raise RequestRefusedError(
                f"The offline model could not be loaded from {weights} ({error}). Delete that file"
                " to have it fetched again, or free some memory (it needs 400 MB).",
                provider="local",
            ) from error

    def generate(
        self, body: dict[str, Any], deliver: Callable[[Chunk], None], stop: threading.Event
    ) -> None:
        """Answer `body` (a chat-completions request), passing each chunk to `deliver`; returns at
        the end of the answer or soon after `stop` is set. Errors arrive as chunks too."""

        def callback(chunk: Chunk) -> bool:
            if not stop.is_set():
                try:
                    deliver(chunk)
                except RuntimeError:
                    # The event loop that listened is closed.
                    stop.set()
            return stop.is_set()

        if stop.is_set():
            return
        returned = self._server.handle_chat_completions({**body, **_STREAMING}, callback)
        if isinstance(returned, dict):
            callback(returned)

    def close(self) -> None:
        """Free the weights and end the native threads, whoever still holds this; nobody may be
        generating, or ever again."""
        del self._server


def acquire(runtime: ModuleType, weights: Path) -> Engine:
    """The engine for `weights`, loaded (half a second) if it is not yet; pair with `release`."""
    weights = weights.resolve()
    with _loading:
        engine = _engines.get(weights)
        if engine is None:
            engine = _engines[weights] = Engine(runtime, weights)
        engine.users += 1
        return engine


def release(engine: Engine) -> None:
    """Give an engine back; the memory is freed with the last user. No generation of the caller's
    may be running."""
    with _loading:
        engine.users -= 1
        if engine.users == 0:
            _engines.pop(engine.weights, None)


def _threads() -> int:
    """Half the cores. Threads wait for each other after every step, so one that shares its core
    with another program holds up all: this is a third slower on an idle machine and several times
    faster on a busy one."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    return max(1, min(cores // 2, _MOST_THREADS))


@atexit.register
def _stop_all() -> None:
    """End every generation before the interpreter does."""
    while True:
        # An impatient second Ctrl-C must not let the interpreter go on without the threads.
        try:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            _stop_workers()
            return
        except KeyboardInterrupt:
            continue


def _stop_workers() -> None:
    global _exiting
    with _counting:
        _exiting = True
        workers = list(_workers)
    for worker in workers:
        worker.stop.set()
    for worker in workers:
        if worker.is_alive():  # one that was not started yet never will be
            worker.join()
    with _loading:
        engines = list(_engines.values())
        _engines.clear()
    # Freed here and now: a daemon thread that let go of one last would be inside native code, with
    # threads of its own, while the interpreter ends.
    for engine in engines:
        engine.close()
