"""Search by meaning: vectors of messages beside the search index. See docs/finding.md."""
