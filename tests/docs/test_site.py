"""The site is built strictly, from what is here, and fetches nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        # Whoever tries the network is refused.
        env={**os.environ, "HTTPS_PROXY": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_has_every_page(site: Path) -> None:
    assert {page.stem for page in DOCS} <= {page.stem for page in site.glob("*.html")}


REMOTE = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc\s*=\s*["']?(?:https?:)?//"""
    r"""|<link\b[^>]*\bhref\s*=\s*["']?(?:https?:)?//"""
    r"""|url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//""",
    re.IGNORECASE,
)


def test_a_remote_address_would_be_noticed() -> None:
    assert REMOTE.search('<script async src="https://cdn.example/x.js">')
    assert REMOTE.search('<link rel="stylesheet" href="//fonts.example/css">')
    assert REMOTE.search("@font-face { src: url(https://fonts.example/a.woff) }")
    assert not REMOTE.search('<a href="https://example.org">')


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    files = [one for one in site.rglob("*") if one.suffix in (".html", ".css", ".svg")]
    assert files
    assert [
        one.name
        for one in files
        if REMOTE.search(one.read_text(encoding="utf-8", errors="replace"))
    ] == []
