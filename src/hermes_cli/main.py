"""The `hermes` command line."""

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    print("hermes: chat is not built yet; the session store is (see docs/architecture.md)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
