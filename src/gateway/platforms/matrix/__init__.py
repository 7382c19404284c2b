"""Matrix, by its client-server API."""
