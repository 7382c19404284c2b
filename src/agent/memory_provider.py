"""The name under which plugins look for the base of memory providers."""

from .learning.memory_provider import MemoryProvider

__all__ = ["MemoryProvider"]
