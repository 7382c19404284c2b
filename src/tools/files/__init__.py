"""The file tools: read, write, patch and search."""

from __future__ import annotations

from ..base import Tool
from .patch import patch
from .read import read_file
from .search import search_files
from .write import write_file

TOOLS: list[Tool] = [read_file, write_file, patch, search_files]
