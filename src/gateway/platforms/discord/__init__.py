"""Discord, by its gateway and its REST API."""
