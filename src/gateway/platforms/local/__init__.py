"""A platform in memory."""
