"""The file tools: read, write, patch and search."""

from __future__ import annotations

from .base import Tool
from .files_patch import patch
from .files_read import read_file
from .files_search import search_files
from .files_write import write_file

TOOLS: list[Tool] = [read_file, write_file, patch, search_files]
