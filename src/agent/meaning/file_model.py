"""A model in a GGUF file, run inside the process by the library of the model that is there already.

llama.cpp must not be inside when the interpreter ends, so texts are given to it one by one, and the
exit waits for the one that it has.
"""

from __future__ import annotations

import atexit
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.errors import ModelError
from hermes_state import EmbedderError

_TOKENS = 2048
_LEAST = 16
_HEADER = 1 << 24
"""Bytes of a file in which its description is."""
_TOO_LONG = ("too large", "exceed")


class FileModel:
    """The model is loaded when it is first asked."""

    is_quick = False

    def __init__(self, path: Path, home: Path, *, prefixes: tuple[str, str] = ("", "")) -> None:
        """`home` is where the library is kept if it is fetched; `prefixes` are as for `served`."""
        self._path, self._home = path, home
        self._prefixes = prefixes
        self._asking = threading.Lock()
        self._server: Any = None
        self._closed = False

    @property
    def name(self) -> str:
        """The file, as it is now: another file under its name is another model."""
        try:
            size = self._path.stat().st_size
        except OSError:
            size = 0
        return f"{self._path.name} {size} {'|'.join(self._prefixes)}".rstrip("| ")

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """A vector for each text."""
        return [self._ask(self._prefixes[is_question] + text) for text in texts]

    def _ask(self, text: str) -> list[float]:
        while True:
            with self._asking:
                reply = self._load().handle_embeddings({"input": [text or " "], "model": "here"})
            error = reply.get("error") if isinstance(reply, dict) else None
            if error is None:
                return [float(number) for number in reply["data"][0]["embedding"]]
            said = str(error.get("message") or error)
            if len(text) < _LEAST or not any(sign in said for sign in _TOO_LONG):
                raise EmbedderError(f"{self._path.name} cannot be asked: {said}")
            text = text[: len(text) // 2]

    def _load(self) -> Any:
        if self._closed:
            raise EmbedderError("Hermes is shutting down.")
        if self._server is None:
            from agent.providers.embedded_fetch import ensure_runtime

            if not self._path.is_file():
                raise EmbedderError(f"There is no file {self._path} (search.model).")
            try:
                runtime = ensure_runtime(self._home)
                parameters = runtime.CommonParams()
                parameters.model.path = str(self._path)
                parameters.embedding = True
                parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = _TOKENS
                parameters.n_parallel = 1
                if not _names_pooling(self._path):
                    # It was not made for this: the average over its words is of some use.
                    mean = runtime.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
                    parameters.pooling_type = mean
                # The background is left one core, however many there are.
                parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
                parameters.verbosity = -1
                parameters.warmup = False
                # It always listens on loopback as well; nobody else knows the key.
                parameters.api_keys = [secrets.token_hex(32)]
                parameters.ui = False
                self._server = runtime.Server(parameters)
            except (ModelError, RuntimeError) as error:
                raise EmbedderError(f"{self._path} could not be loaded: {error}") from error
            atexit.register(self.close)
        return self._server

    def close(self) -> None:
        """Wait for the text that is being looked at, and free the memory."""
        with self._asking:
            self._closed = True
            self._server = None


def _names_pooling(path: Path) -> bool:
    """Whether the file says how its model makes one vector of many: then it was made for that."""
    with path.open("rb") as file:
        return b".pooling_type" in file.read(_HEADER)
