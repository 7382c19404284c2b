"""Compression: a conversation that grew too long becomes one that fits, and nothing is lost.

The pure part turns messages into messages (`compress`, `shorten_to_fit`, `preview`); it never
touches the store. The driver decides when, holds the lock and writes the result.
"""

from .compress import Ask, Compressed, Preview, compress, preview, shorten_to_fit
from .summary import Entry, Summary
from .tokens import estimate_tokens

__all__ = [
    "Ask",
    "Compressed",
    "Entry",
    "Preview",
    "Summary",
    "compress",
    "estimate_tokens",
    "preview",
    "shorten_to_fit",
]
