"""Fixtures of the release's tests."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported one by one (importmode=importlib), so helpers beside them need a path.
sys.path.insert(0, str(Path(__file__).parent))

from release_parts import installed as installed
from release_parts import release as release
