"""Full-text search, in a file of its own that is derived from the store."""
