"""IRC, by a client of its own on asyncio."""
