"""Model servers that run on this machine already: Ollama, LM Studio, llama.cpp, vLLM.

Only loopback is looked at, at the ports these programs have by default, and only for their list of
models.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

PORTS = {11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp", 8000: "vLLM"}
_SECONDS = 1.0
_MOST_BYTES = 1_000_000
_NOT_FOR_TALKING = ("embed", "rerank", "whisper")


class LocalServer(NamedTuple):
    """A server that answered, and a model it has."""

    label: str
    base_url: str
    model: str


def find_local_servers() -> list[LocalServer]:
    """Those that answer, in the order of `PORTS`."""
    with ThreadPoolExecutor(len(PORTS)) as pool:
        answers = pool.map(_look, PORTS, PORTS.values())
    return [server for server in answers if server is not None]


def _look(port: int, label: str) -> LocalServer | None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        listed = json.loads(answer.read(_MOST_BYTES))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None  # nothing there, or something else
    finally:
        connection.close()
    model = _first_model(listed)
    return LocalServer(label, f"http://127.0.0.1:{port}/v1", model) if model else None


def _first_model(listed: object) -> str:
    models = listed.get("data") if isinstance(listed, dict) else None
    for model in models if isinstance(models, list) else ():
        name = model.get("id") if isinstance(model, dict) else None
        if (
            isinstance(name, str) and name.isprintable() and 0 < len(name) <= 200
            and not any(word in name.lower() for word in _NOT_FOR_TALKING)
        ):  # fmt: skip
            return name
    return ""
