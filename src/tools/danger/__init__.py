"""Which shell commands are dangerous, however they are written: `analyse` says."""
