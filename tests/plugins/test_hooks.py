"""Firing hooks: order, arguments, and what a bad callback cannot do."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base import plugins
from hermes_base.plugins.calls import STRIKES, copied
from hermes_base.plugins.context import PluginContext
from hermes_base.plugins.host import Host
from hermes_base.plugins.manifest import Manifest
from hermes_base.session_context import get_session_env, session_vars

from .conftest import Load, WritePlugin

HOOK = "post_tool_call"


def test_order_arguments_and_answers() -> None:
    seen: list[Any] = []

    def first(**kwargs: Any) -> str:
        seen.append(("first", kwargs))
        return "one"

    def second(session_id: str, **kwargs: Any) -> None:
        seen.append(("second", session_id))

    def third(**kwargs: Any) -> int:
        seen.append(("third", None))
        return 0

    for function in (first, second, third):
        plugins.add_hook(HOOK, function)
    assert plugins.invoke_hook(HOOK, session_id="s", name="n") == ["one", 0]
    assert [name for name, _ in seen] == ["first", "second", "third"]
    assert seen[0][1] == {
        "session_id": "s",
        "name": "n",
        "telemetry_schema_version": "hermes.observer.v1",
    }


def test_nobody_listens() -> None:
    assert not plugins.has_hook(HOOK)
    assert plugins.invoke_hook(HOOK, session_id="s") == []
    assert plugins.invoke_hook("no such hook") == []


def test_an_unknown_hook_is_warned_of_and_kept(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    context = PluginContext(Manifest("mine"), Host(tmp_path))
    context.register_hook("on_full_moon", print)
    assert "on_full_moon" in caplog.text
    assert context.registrations.hooks == [("mine", "on_full_moon", print)]


def raising(**kwargs: Any) -> None:
    raise RuntimeError("no")


def exiting(**kwargs: Any) -> None:
    sys.exit(3)


def interrupting(**kwargs: Any) -> None:
    raise KeyboardInterrupt


async def coroutine(**kwargs: Any) -> str:
    return "never awaited"


def wrong_arguments() -> None:
    raise AssertionError("it takes no arguments, so it is never entered")


@pytest.mark.parametrize("bad", [raising, exiting, interrupting, coroutine, wrong_arguments])
def test_one_that_fails_leaves_the_others_alone(
    bad: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    plugins.add_hook(HOOK, lambda **kwargs: "before")
    plugins.add_hook(HOOK, bad, plugin="culprit")
    plugins.add_hook(HOOK, lambda **kwargs: "after")
    for _ in range(STRIKES + 1):
        assert plugins.invoke_hook(HOOK) == ["before", "after"]
    assert "culprit" in caplog.text and HOOK in caplog.text


def test_one_that_hangs_is_left_behind_and_then_switched_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on, entered = threading.Event(), []

    def hang(**kwargs: Any) -> str:
        entered.append(1)
        go_on.wait(30)
        return "too late"

    plugins.add_hook(HOOK, hang, plugin="culprit", limit=0.1)
    plugins.add_hook(HOOK, lambda **kwargs: "fine")
    for _ in range(STRIKES + 2):
        assert plugins.invoke_hook(HOOK) == ["fine"]
    # It is not entered again while it hangs, so that no threads pile up.
    assert len(entered) == 1
    assert "culprit" in caplog.text and "switched off" in caplog.text
    go_on.set()
    assert plugins.invoke_hook(HOOK) == ["fine"]


def test_a_plugin_that_hangs_everywhere_is_switched_off_as_a_whole(
    write_plugin: WritePlugin, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    write_plugin(
        "culprit",
        """
        import threading
        go_on, entered = threading.Event(), []
        def hang(**kwargs):
            entered.append(1)
            go_on.wait(30)
        def register(ctx):
            for name in ("pre_llm_call", "post_llm_call", "pre_tool_call", "post_tool_call"):
                ctx.register_hook(name, hang)
        """,
    )
    load("culprit", plugins={"hook_timeout": 0.05})
    for name in ("pre_llm_call", "post_llm_call", "pre_tool_call", "post_tool_call"):
        assert plugins.invoke_hook(name) == []
    culprit = sys.modules["hermes_plugins.culprit"]
    assert len(culprit.entered) == STRIKES
    assert "all of the plugin is switched off" in caplog.text
    culprit.go_on.set()


def test_one_bad_hook_among_good_ones_is_switched_off_alone(
    write_plugin: WritePlugin, load: Load
) -> None:
    write_plugin(
        "mixed",
        """
        import threading
        go_on = threading.Event()
        def register(ctx):
            ctx.register_hook("pre_llm_call", lambda **kwargs: go_on.wait(30) and None)
            ctx.register_hook("post_llm_call", lambda **kwargs: "fine")
        """,
    )
    load("mixed", plugins={"hook_timeout": 0.3})
    for _ in range(STRIKES):
        plugins.invoke_hook("pre_llm_call")
        assert plugins.invoke_hook("post_llm_call") == ["fine"]
    assert not plugins.has_hook("pre_llm_call")
    assert plugins.invoke_hook("post_llm_call") == ["fine"]
    sys.modules["hermes_plugins.mixed"].go_on.set()


def test_with_everybody_switched_off_nobody_listens() -> None:
    go_on = threading.Event()
    plugins.add_hook(HOOK, lambda **kwargs: go_on.wait(30), limit=0.05)
    for _ in range(STRIKES):
        plugins.invoke_hook(HOOK)
    assert not plugins.has_hook(HOOK)
    go_on.set()


def test_returning_in_time_makes_up_for_an_earlier_time_out() -> None:
    go_on, returned = threading.Event(), threading.Event()

    def sometimes(slowly: bool, **kwargs: Any) -> str:
        if slowly:
            go_on.wait(30)
            returned.set()
        return "well"

    plugins.add_hook(HOOK, sometimes, limit=0.3)
    for _ in range(STRIKES + 1):
        assert plugins.invoke_hook(HOOK, slowly=True) == []
        go_on.set()
        assert returned.wait(60)
        while plugins.invoke_hook(HOOK, slowly=False) != ["well"]:
            assert plugins.has_hook(HOOK)
        go_on.clear()
        returned.clear()


def test_it_may_not_call_itself() -> None:
    depth = []

    def inner(**kwargs: Any) -> str:
        depth.append(1)
        plugins.invoke_hook(HOOK)
        return "done"

    plugins.add_hook(HOOK, inner)
    assert plugins.invoke_hook(HOOK) == ["done"]
    assert len(depth) == 1


def test_it_gets_copies() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]

    def spoil(messages: Any, **kwargs: Any) -> None:
        messages[0]["content"][0]["text"] = "spoilt"
        messages.clear()

    plugins.add_hook(HOOK, spoil)
    plugins.add_hook(HOOK, lambda messages, **kwargs: messages)
    assert plugins.invoke_hook(HOOK, messages=messages) == [
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    ]
    assert messages[0]["content"] == [{"type": "text", "text": "hello"}]


plain = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(plain)
def test_copies_are_equal_and_apart(value: Any) -> None:
    assert copied(value) == value

    def containers(one: Any) -> set[int]:
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        own = {id(one)} if isinstance(one, dict | list) else set()
        return own.union(*map(containers, inner)) if inner else own

    assert not containers(value) & containers(copied(value))


def test_a_circle_does_not_end_in_a_crash() -> None:
    circle: list[Any] = []
    circle.append(circle)
    plugins.add_hook(HOOK, lambda circle, **kwargs: "seen")
    assert plugins.invoke_hook(HOOK, circle=circle) == ["seen"]


def test_what_it_prints_goes_to_the_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def chatter(**kwargs: Any) -> None:
        print("hello from the hook")
        sys.stdout.write("and more")
        sys.stdout.writelines(["and ", "more"])
        sys.stdout.flush()

    plugins.add_hook(HOOK, chatter, plugin="culprit")
    print("before")
    with caplog.at_level(logging.INFO):
        plugins.invoke_hook(HOOK)
    print("after")
    assert capsys.readouterr().out == "before\nafter\n"
    assert "culprit printed: hello from the hook" in caplog.text


def test_the_context_is_carried() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")
    plugins.add_hook(HOOK, lambda **kwargs: (variable.get(), get_session_env("HERMES_SESSION_ID")))
    with session_vars(session_id="s1"):
        assert plugins.invoke_hook(HOOK) == [("mine", "s1")]


def test_hooks_fired_at_once_do_not_wait_for_each_other() -> None:
    meeting = threading.Barrier(4, timeout=60)

    def meet(**kwargs: Any) -> int:
        meeting.wait()
        return 1

    plugins.add_hook(HOOK, meet, limit=60)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.extend(plugins.invoke_hook(HOOK))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1, 1, 1, 1]
