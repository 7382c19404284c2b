"""Compression: a conversation that grew too long becomes one that fits, and nothing is lost.

The pure part turns messages into messages (`compress`, `shorten_to_fit`, `preview` in `compress`);
it never touches the store. The driver decides when, holds the lock and writes the result. Turns
that fit never load the pure part.
"""
