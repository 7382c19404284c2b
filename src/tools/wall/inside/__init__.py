"""What runs inside a wall: only the standard library, started with `python -I -S`."""
