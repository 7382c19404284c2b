"""httpx without what is not used here: its command line (rich, click) and HTTP/2.

Where those packages happen to be installed, httpx loads them too, which doubles the time it takes
to import: `from agent.providers.light_httpx import httpx`.
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["httpcore", "httpx"]

_UNUSED = ("rich", "click", "h2")

_modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]
_hidden = [name for name in _UNUSED if name not in _modules and "httpx" not in _modules]
for _name in _hidden:
    _modules[_name] = None  # an import of it fails now, which httpx is prepared for
try:
    import httpcore
    import httpx
finally:
    for _name in _hidden:
        del _modules[_name]
