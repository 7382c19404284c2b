"""Models for search by meaning. See docs/finding.md."""
