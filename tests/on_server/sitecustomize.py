"""Read by every Python that a test starts with its stores on a server: see `tests/server_store.py`.

The store's package is not imported here, but when the program itself imports it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

_MODULE = "hermes_state.db"


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        project = str(Path(__file__).parents[2])
        sys.path.insert(0, project)
        try:
            from tests import server_store
        finally:
            sys.path.remove(project)
        server_store.install()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


if os.environ.get("HERMES_TEST_STORE") == "postgres":
    sys.meta_path.insert(0, _Finder())
