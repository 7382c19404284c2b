"""Session values follow a turn into tasks, threads and child processes, and into nothing else."""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base import session_context as sc


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in sc.SESSION_NAMES:
        monkeypatch.delenv(name, raising=False)


def test_a_set_value_wins_over_the_environment_even_when_empty(monkeypatch):
    monkeypatch.setenv("HERMES_SESSION_USER_ID", "from-environment")

    def body() -> None:
        assert sc.get_session_env("HERMES_SESSION_USER_ID", "d") == "from-environment"
        tokens = sc.set_session_vars(user_id=None)
        assert sc.get_session_env("HERMES_SESSION_USER_ID", "d") == ""
        sc.reset_session_vars(tokens)
        assert sc.get_session_env("HERMES_SESSION_USER_ID", "d") == "from-environment"

    contextvars.Context().run(body)


def test_names_without_a_value_give_the_default(monkeypatch):
    def body() -> None:
        assert sc.get_session_env("HERMES_SESSION_ID") == ""
        assert sc.get_session_env("HERMES_SESSION_ID", "none") == "none"
        monkeypatch.setenv("SOME_OTHER_NAME", "x")
        assert sc.get_session_env("SOME_OTHER_NAME") == "x"
        assert sc.get_session_env("SOME_OTHER_NAME_2", "y") == "y"

    contextvars.Context().run(body)


def test_the_ecosystems_names_are_all_there():
    session = "PLATFORM|SOURCE|CHAT_ID|CHAT_NAME|THREAD_ID|USER_ID|USER_NAME|KEY|ID|MESSAGE_ID"
    session += "|PROFILE|ASYNC_DELIVERY"
    cron = "PLATFORM|CHAT_ID|THREAD_ID"
    pattern = f"HERMES_SESSION_({session})|HERMES_UI_SESSION_ID|HERMES_CRON_AUTO_DELIVER_({cron})"
    assert len(set(sc.SESSION_NAMES)) == 16
    assert all(re.fullmatch(pattern, name) for name in sc.SESSION_NAMES)


def test_an_unknown_keyword_is_refused_and_sets_nothing():
    def body() -> None:
        with pytest.raises(TypeError, match="chat_idd"):
            sc.set_session_vars(platform="telegram", chat_idd="1")
        assert sc.get_session_env("HERMES_SESSION_PLATFORM") == ""

    contextvars.Context().run(body)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(sc._FIELDS)), st.text(max_size=5), max_size=4),
        max_size=5,
    )
)
def test_nested_sets_come_apart_in_order(layers):
    def body() -> None:
        seen = [sc.session_environ()]
        stack = []
        for layer in layers:
            stack.append(sc.set_session_vars(**layer))
            for key, value in layer.items():
                assert sc.get_session_env(sc._FIELDS[key], "?") == value
            seen.append(sc.session_environ())
        while stack:
            assert sc.session_environ() == seen.pop()
            sc.reset_session_vars(stack.pop())
        assert sc.session_environ() == seen.pop()

    contextvars.Context().run(body)


async def test_concurrent_turns_do_not_see_each_other():
    everyone_set = asyncio.Barrier(20)

    async def turn(number: int) -> tuple[str, str]:
        with sc.session_vars(session_id=f"s{number}", platform="telegram"):
            await everyone_set.wait()
            inside = await asyncio.to_thread(sc.get_session_env, "HERMES_SESSION_ID")
            sc.set_current_session_id(f"s{number}-continued")
            await everyone_set.wait()
            return inside, sc.get_session_env("HERMES_SESSION_ID")

    results = await asyncio.gather(*(turn(n) for n in range(20)))
    assert results == [(f"s{n}", f"s{n}-continued") for n in range(20)]


def test_a_context_thread_carries_and_does_not_leak_back():
    def body() -> None:
        sc.set_session_vars(session_id="outer")
        seen: list[str] = []

        def work(suffix: str) -> None:
            seen.append(sc.get_session_env("HERMES_SESSION_ID") + suffix)
            sc.set_current_session_id("inner")

        thread = sc.ContextThread(target=work, args=("!",))
        # The context is taken when the thread starts, not when it is made.
        sc.set_current_session_id("at-start")
        thread.start()
        thread.join()
        assert seen == ["at-start!"]
        assert sc.get_session_env("HERMES_SESSION_ID") == "at-start"

    contextvars.Context().run(body)


def test_bound_functions_may_run_at_the_same_time():
    def body() -> None:
        sc.set_current_session_id("mine")
        together = threading.Barrier(4)

        def work() -> str:
            together.wait()
            return sc.get_session_env("HERMES_SESSION_ID")

        bound = sc.bind_context(work)
        sc.set_current_session_id("later")
        with ThreadPoolExecutor(4) as pool:
            assert [f.result() for f in [pool.submit(bound) for _ in range(4)]] == ["mine"] * 4

    contextvars.Context().run(body)


def test_a_child_process_reads_the_same_values(monkeypatch):
    monkeypatch.setenv("HERMES_SESSION_PROFILE", "work")

    def body() -> None:
        sc.set_session_vars(session_id="20260101_000000_abcdef", async_delivery=True, user_id=None)
        environ = sc.session_environ()
        assert environ == {
            "HERMES_SESSION_ID": "20260101_000000_abcdef",
            "HERMES_SESSION_ASYNC_DELIVERY": "1",
            "HERMES_SESSION_USER_ID": "",
            "HERMES_SESSION_PROFILE": "work",
        }
        code = (
            "from hermes_base.session_context import get_session_env as g;"
            "print(g('HERMES_SESSION_ID'), g('HERMES_SESSION_PROFILE'),"
            " g('HERMES_SESSION_KEY', '-'))"
        )
        child = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=True,
        )
        assert child.stdout.split() == ["20260101_000000_abcdef", "work", "-"]

    contextvars.Context().run(body)


def test_it_is_a_leaf():
    code = (
        "import sys; import hermes_base.session_context;"
        "own = {'agent','tools','hermes_state','hermes_cli','tui_gateway','gateway'};"
        "print(sorted(own & {m.split('.')[0] for m in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
