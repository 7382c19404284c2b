"""The platforms: a package each, with a `manifest.py` that says what it is."""
