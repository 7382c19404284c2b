"""A bucket of an S3-compatible store: put, get and delete, signed by version 4 of AWS's signature.

Requests name the bucket in their path, which every such store understands. What is put is signed
with its digest, so the store refuses bytes that are not those that were meant.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from hermes_state import BucketSettings, ObjectLostError, StoreUnavailableError

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

EMPTY_DIGEST = hashlib.sha256(b"").hexdigest()
SECONDS, CONNECT_SECONDS = 60.0, 5.0
"""How long a request may wait for an answer, or for the next bytes of it; and for a connection."""
ATTEMPTS = 3
_PAUSE = 0.5
_PASSING = (429, 500, 502, 503, 504)


def sign(
    settings: BucketSettings,
    method: str,
    url: str,
    headers: Mapping[str, str],
    digest: str,
    now: datetime,
) -> dict[str, str]:
    """The headers of a request with its signature among them; `digest` is that of its body."""
    place = urlsplit(url)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    signed = {
        **{name.lower(): value.strip() for name, value in headers.items()},
        "host": place.netloc,
        "x-amz-content-sha256": digest,
        "x-amz-date": stamp,
    }
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = "\n".join([method, place.path, place.query, lines, names, digest])
    scope = f"{day}/{settings.region}/s3/aws4_request"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{settings.secret_key}".encode()
    for part in (day, settings.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(
        key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashed}".encode(), "sha256"
    ).hex()
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={settings.access_key}/{scope},SignedHeaders={names},"
        f"Signature={signature}"
    )
    return signed


class Bucket:
    """The objects below a prefix of a bucket, by their keys."""

    def __init__(self, settings: BucketSettings) -> None:
        self._settings = settings

    def put(self, key: str, body: Iterable[bytes], digest: str, size: int) -> None:
        """Store bytes, of which `body` gives as many as `size` each time that it is walked."""
        headers = {"content-length": str(size), "content-type": "application/octet-stream"}
        with self._answer("PUT", key, headers, digest, body):
            pass

    def get(self, key: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece; ObjectLostError if there is none."""
        with self._answer("GET", key) as response:
            yield from response.iter_bytes(1024 * 1024)

    def probe(self, key: str) -> None:
        """Put, get and delete something; raises what keeps one of these from being done."""
        body = b"Hermes was here."
        self.put(key, [body], hashlib.sha256(body).hexdigest(), len(body))
        if b"".join(self.get(key)) != body:
            raise self._failed(key, "it does not give back what was put")
        self.delete(key)

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is deleted."""
        # Tried once: whoever deletes does not wait, and what is left is deleted another time.
        with contextlib.suppress(ObjectLostError), self._answer("DELETE", key, attempts=1):
            pass

    @contextlib.contextmanager
    def _answer(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        digest: str = EMPTY_DIGEST,
        body: Iterable[bytes] | None = None,
        attempts: int = ATTEMPTS,
    ) -> Iterator[httpx.Response]:
        """The answer to a request that was tried a few times; StoreUnavailableError if it failed,
        ObjectLostError if there is no such object."""
        import httpx

        from hermes_base.certificates import certificates

        url = self._url(key)
        timeout = httpx.Timeout(SECONDS, connect=CONNECT_SECONDS)
        try:
            with httpx.Client(verify=certificates(), timeout=timeout) as client:
                for attempt in range(1, attempts + 1):
                    # Signed anew each time: a signature is good for a quarter of an hour.
                    signed = sign(
                        self._settings, method, url, headers or {}, digest, datetime.now(UTC)
                    )
                    try:
                        request = client.build_request(method, url, headers=signed, content=body)
                        response = client.send(request, stream=True)
                    except httpx.TransportError as error:
                        if attempt == attempts:
                            raise self._failed(key, f"{type(error).__name__} {error}") from error
                    else:
                        with contextlib.closing(response):
                            if response.is_success:
                                yield response
                                return
                            if response.status_code not in _PASSING or attempt == attempts:
                                raise self._refused(key, response)
                    time.sleep(_PAUSE * attempt)
        except httpx.HTTPError as error:
            raise self._failed(key, f"{type(error).__name__} {error}") from error

    def _url(self, key: str) -> str:
        settings = self._settings
        path = quote(f"/{settings.bucket}/{settings.prefix}{key}", safe="/-_.~")
        return f"{settings.endpoint.rstrip('/')}{path}"

    def _refused(self, key: str, response: httpx.Response) -> Exception:
        text = response.read()[:2000].decode("utf-8", "replace")
        code = text.partition("<Code>")[2].partition("</Code>")[0]
        if response.status_code == 404 and code != "NoSuchBucket":
            return ObjectLostError(f"{self._where} does not have {key}.")
        return self._failed(key, f"it answers {response.status_code} {code}".rstrip())

    def _failed(self, key: str, reason: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._where} cannot be used for {key}: {reason}.")

    @property
    def _where(self) -> str:
        return f"The bucket {self._settings.bucket} at {self._settings.endpoint}"
