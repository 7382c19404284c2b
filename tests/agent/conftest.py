"""Fixtures of the model providers' tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

# Tests are imported one by one (importmode=importlib), so helpers beside them need a path.
sys.path.insert(0, str(Path(__file__).parent))


class LlamaServer(NamedTuple):
    """A real model server on loopback."""

    url: str
    api_key: str
    model: str
    context_length: int


@pytest.fixture(scope="session")
def llama_server(model_cache: Path) -> Iterator[LlamaServer]:
    """llama.cpp inside this process, serving all three protocols on loopback."""
    from agent.providers.embedded_fetch import ensure_weights

    xllamacpp = pytest.importorskip("xllamacpp")
    weights = ensure_weights(model_cache)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx = 2048
    parameters.n_parallel = 1
    parameters.verbosity = -1
    parameters.warmup = False
    # One: several would spin in wait for each other on a busy machine.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.model_alias = {"smol"}
    parameters.api_keys = ["llama-test-key"]
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    yield LlamaServer(server.listening_address, "llama-test-key", "smol", 2048)
    # Freed while the interpreter is still whole: ending during a generation would crash it.
    del server
