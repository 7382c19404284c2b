"""What every process that shares the tests does before its first one, made cheap.

Each of them collects all tests, so what can be done once is done by one of them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
from pathlib import Path

import pytest

from .state.memory import MEMORY

_TESTS = Path(__file__).parent
_WHOLE = "HERMES_TEST_WHOLE_RUN"
"""Set for the processes that share the tests, which cannot tell from their arguments."""


def note_whole_run(config: pytest.Config) -> None:
    """Note whether everything is run, or what the command line names."""
    if not hasattr(config, "workerinput"):
        is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
        os.environ[_WHOLE] = "1" if is_whole else ""


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked `by_name` out of a run of everything; `.ci/run` names them."""
    if not os.environ.get(_WHOLE):
        return
    left_out = [item for item in items if item.get_closest_marker("by_name")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("by_name")]


def share_rewriting(config: pytest.Config) -> None:
    """Rewrite the asserts of every n-th file of tests, for the next of n processes to find.

    Only in a clone that was just made or changed is there anything to do. Without it each process
    would rewrite all files, which takes longer than to collect them.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return
    with contextlib.suppress(ImportError, AttributeError):  # pytest's own, and may be elsewhere
        from _pytest.assertion import rewrite

        state = config.stash[rewrite.assertstate_key]
        number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        for path in sorted(_TESTS.rglob("*.py"))[number::count]:
            if not (path.name.startswith("test_") or path.name == "conftest.py"):
                continue
            folder = rewrite.get_cache_dir(path)
            cached = folder / (path.stem + rewrite.PYC_TAIL)
            if not _is_current(path, cached) and rewrite.try_makedirs(folder):
                digest, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(state, code, digest, cached)


def _is_current(source: Path, cached: Path) -> bool:
    try:
        with cached.open("rb") as file:
            header = file.read(16)
    except OSError:
        return False
    return header[8:16] == importlib.util.source_hash(source.read_bytes())[:8]


def before_collection() -> None:
    """Nothing that collecting makes is garbage: looking for it takes a fifth of the time."""
    gc.disable()


def after_collection() -> None:
    """Nor is it ever garbage later, and no test has to wait while it is looked through."""
    gc.freeze()
    gc.enable()


def keep_folders_in_memory(config: pytest.Config) -> None:
    """Have the tests' folders where no disk is behind them, if there is such a place with room.

    They write small files by the ten thousand, and wait for the disk with each message that they
    store; what they are about is the same on both. A folder that was asked for is used.
    """
    is_elsewhere = config.option.basetemp or "PYTEST_DEBUG_TEMPROOT" in os.environ
    if MEMORY is None or is_elsewhere or hasattr(config, "workerinput"):
        return
    with contextlib.suppress(AttributeError), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
        config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # it is made only once


def begin_with_longest(items: list[pytest.Item]) -> None:
    """Run what is marked `long` first: at the end, all other processes would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
