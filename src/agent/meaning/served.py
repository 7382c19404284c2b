"""A model behind any `/v1/embeddings` server, by its name."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from hermes_state import EmbedderError

SECONDS = 30.0
MOST_TEXTS = 64
"""Texts of one request."""
LARGEST_REPLY = 1 << 26
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServedModel:
    """Asks a server. A text takes as long as it takes, so no search waits for new messages."""

    is_quick = False

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str = "",
        *,
        prefixes: tuple[str, str] = ("", ""),
        timeout: float = SECONDS,
    ) -> None:
        """`base_url` is what stands before `/embeddings`; `prefixes` are put before texts that are
        stored and before questions."""
        self._model = model
        self._url = f"{base_url.strip().rstrip('/')}/embeddings"
        self._key = api_key
        self._prefixes = prefixes
        self._timeout = timeout
        self._client: Any = None
        self._opening = threading.Lock()

    @property
    def name(self) -> str:
        """The model and what is put before texts; not where it is asked, which may change."""
        return f"{self._model} {'|'.join(self._prefixes)}".rstrip("| ")

    def embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        """A vector for each text."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), MOST_TEXTS):
            some = [
                self._prefixes[is_question] + text for text in texts[start : start + MOST_TEXTS]
            ]
            vectors += self._ask(some)
        return vectors

    def _ask(self, texts: list[str]) -> list[list[float]]:
        from agent.providers.light_httpx import httpx

        # A text that is only white space is refused by some servers.
        body = {"model": self._model, "input": [text.strip() or "." for text in texts]}
        try:
            response = self._open().post(
                self._url, content=json.dumps(body).encode(), headers=self._headers()
            )
            if response.status_code != 200:
                raise EmbedderError(
                    f"{self._where} answered {response.status_code}: {response.text[:200]}"
                )
            if len(response.content) > LARGEST_REPLY:
                raise EmbedderError(f"{self._where} answered with too much.")
            return _vectors(response.json(), len(texts))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EmbedderError(f"{self._where} cannot be asked: {error}") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise EmbedderError(f"{self._where} gave no embeddings: {error}") from error

    @property
    def _where(self) -> str:
        host = urlsplit(self._url).hostname
        return f"The server of embeddings {host or self._url!r}"

    def _headers(self) -> Mapping[str, str]:
        return {
            "content-type": "application/json",
            **({"authorization": f"Bearer {self._key}"} if self._key else {}),
        }

    def _open(self) -> Any:
        from agent.providers.light_httpx import httpx
        from hermes_base.certificates import certificates

        with self._opening:
            if self._client is None:
                is_here = urlsplit(self._url).hostname in _LOOPBACK
                self._client = httpx.Client(
                    timeout=self._timeout,
                    trust_env=not is_here,
                    verify=certificates(),
                )
            return self._client


def _vectors(reply: Any, count: int) -> list[list[float]]:
    """The vectors of a reply, in the order of the texts."""
    rows = sorted(reply["data"], key=lambda row: int(row["index"]))
    vectors = [[float(number) for number in row["embedding"]] for row in rows]
    if len(vectors) != count:
        raise ValueError(f"{len(vectors)} for {count} texts")
    return vectors
