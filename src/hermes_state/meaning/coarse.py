"""The bits of all messages in memory, and the messages whose bits are most like a question's.

They are read from the file when a question comes, and again only where something changed. A process
that is asked nothing for a while lets go of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..dialect import tuples
from ..opening import FileConnection
from ..owners import NOBODY, stored_owner
from ..search.filters import Filters
from .vector_file import BLOCK_BITS, PART_BITS, facet_number, read_part, whole_seconds
from .vectors import Array, from_fine

_LEAST_SPREAD = 0.02
_ID_BITS = 48
_NOT_ALLOWED = (1 << 16) - 1
MOST_OF_SESSIONS = 200_000
"""Messages of a conversation that is asked for, the first."""


class Allowed(NamedTuple):
    """Which messages may be found, as far as bits tell; empty and None do not matter."""

    owner: int | None = None
    sources: Sequence[int] = ()
    without_sources: Sequence[int] = ()
    ids: Array | None = None
    since: int | None = None
    until: int | None = None


def allowed_by(conn: FileConnection, filters: Filters) -> Allowed:
    """The filters of a search as bits know them; `conn` reads the store.

    Not the role: what is asked of the user may stand beside what is asked for of the agent.
    """
    import numpy as np

    ids = None
    if filters.session_id is not None or filters.conversation_id is not None:
        condition, values = filters.session_conditions()
        rows = tuples(
            conn,
            "SELECT m.id FROM state.sessions AS s CROSS JOIN state.messages AS m"
            f" ON m.session_id = s.id WHERE {condition} LIMIT {MOST_OF_SESSIONS}",
            tuple(values),
        )
        ids = np.array([row[0] for row in rows], dtype=np.int64)
    owner = None
    if filters.user_id is not None and filters.user_id != NOBODY:
        owner = facet_number("u", stored_owner(filters.user_id))
    return Allowed(
        owner,
        [facet_number("o", source) for source in filters.sources],
        [facet_number("o", source) for source in filters.without_sources],
        ids,
        None if filters.since is None else whole_seconds(filters.since),
        None if filters.until is None else whole_seconds(filters.until),
    )


class Part(NamedTuple):
    """The messages of a stretch of ids, as arrays; one place is the same message in all."""

    ids: Array
    owners: Array
    sources: Array
    times: Array
    bits: Array
    """The first 64 bits of each, then the next."""

    def mask(self, allowed: Allowed) -> Array | None:
        """Which of them may be found; None for all."""
        import numpy as np

        masks = []
        if allowed.owner is not None:
            masks.append(self.owners == allowed.owner)
        if allowed.sources:
            masks.append(np.isin(self.sources, np.array(allowed.sources, dtype=np.uint32)))
        if allowed.without_sources:
            hidden = np.array(allowed.without_sources, dtype=np.uint32)
            masks.append(~np.isin(self.sources, hidden))
        if allowed.ids is not None:
            masks.append(np.isin(self.ids, allowed.ids))
        if allowed.since is not None:
            masks.append(self.times >= allowed.since)
        if allowed.until is not None:
            masks.append(self.times <= allowed.until)
        return np.logical_and.reduce(masks) if masks else None


class Bits(NamedTuple):
    """The bits of one file, as of one moment."""

    built: bytes
    """Which file it is: another one for each that is made."""
    width: int
    changed: int
    parts: dict[int, Part]
    sentences: Array
    """Vectors of sentences that are about anything."""

    @property
    def size(self) -> int:
        """How many messages there are."""
        return sum(len(part.ids) for part in self.parts.values())

    def usual(self, question: Array) -> tuple[float, float]:
        """How like the question sentences are on the average, and by how much that varies."""
        likeness = self.sentences @ question
        return float(likeness.mean()), max(float(likeness.std()), _LEAST_SPREAD)

    def nearest(self, bits: Array, allowed: Allowed, count: int) -> list[int]:
        """The messages that may be found and whose bits differ least; of equal ones the newest."""
        import numpy as np

        found: list[Array] = []
        for part in self.parts.values():
            differing = np.zeros(len(part.ids), dtype=np.uint16)
            for word, asked in zip(part.bits, bits, strict=True):
                differing += np.bitwise_count(word ^ asked)
            mask = part.mask(allowed)
            if mask is not None:
                differing[~mask] = _NOT_ALLOWED
            # Only those are looked at that differ as little as the last that is wanted.
            least = np.cumsum(np.bincount(differing)[:_NOT_ALLOWED])
            if not len(least) or not least[-1]:
                continue
            most = min(int(np.searchsorted(least, count)), len(least) - 1)
            places = np.flatnonzero(differing <= most)
            # One number to order by: few differing bits first, then high ids.
            found.append((differing[places].astype(np.int64) << _ID_BITS) - part.ids[places])
        if not found:
            return []
        nearest = np.sort(np.concatenate(found))[:count]
        return [-key & (1 << _ID_BITS) - 1 for key in nearest.tolist()]


def read_bits(conn: FileConnection, known: Bits | None) -> Bits | None:
    """The bits as they are now; only what changed since `known` is read. None without any."""
    feed = tuples(conn, "SELECT built, width, changed FROM feed")
    if not feed:
        return None
    built, width, changed = feed[0]
    if known is None or known.built != built:
        known = Bits(
            built, width, -1, {}, _vectors(tuples(conn, "SELECT vector FROM usual"), width)
        )
    if changed == known.changed:
        return known
    parts = dict(known.parts)
    for (number,) in tuples(
        conn,
        f"SELECT DISTINCT number >> {PART_BITS - BLOCK_BITS} FROM block WHERE changed > ?",
        (known.changed,),
    ):
        parts[number] = Part._make(read_part(conn, number, -(-width // 64)))
    return known._replace(changed=changed, parts=parts)


def fine_of(conn: FileConnection, ids: Iterable[int], of: Bits) -> tuple[list[int], Array]:
    """Those of the messages that have vectors in this file, and the vectors, of length 1."""
    rows = tuples(
        conn,
        "SELECT fine.id, fine.vector FROM json_each(?) AS wanted"
        " CROSS JOIN fine ON fine.id = wanted.value WHERE (SELECT built FROM feed) = ?",
        (json.dumps(list(ids)), of.built),
    )
    return [row[0] for row in rows], _vectors([row[1:] for row in rows], of.width)


def _vectors(rows: Sequence[tuple[bytes]], width: int) -> Array:
    import numpy as np

    packed = np.frombuffer(b"".join(vector for (vector,) in rows), dtype=np.uint8)
    return from_fine(packed.reshape(len(rows), -(-width // 2)), width)
