"""Jobs: work that begins by itself, when its schedule says so."""
