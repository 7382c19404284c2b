"""Fixtures of the page's tests: one browser and one server for all tests of a process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

# Tests are imported one by one (importmode=importlib), so helpers beside them need a path.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tui")]

import browser as browsers  # noqa: E402
from filled import fill  # noqa: E402
from pages import Site, site  # noqa: E402
from scripted_provider import ScriptedProvider  # noqa: E402
from serving import configure  # noqa: E402

if TYPE_CHECKING:
    from playwright.async_api import Browser


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests that need the browser run first, and so in one process, with one browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("long")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def provider() -> AsyncIterator[ScriptedProvider]:
    """The model of every test here."""
    async with ScriptedProvider() as scripted:
        yield scripted


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The machine's browser."""
    program = browsers.need()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(**browsers.options(program))
        yield started
        await started.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    """A page that several tests share; each has conversations of its own in it."""
    home = configure(tmp_path_factory.mktemp("web"), provider)
    past = fill(home)
    async with site(home) as started:
        started.past = past
        yield started
