"""Trying again and elsewhere: what is tried, how long is waited, and what a reader sees."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing

import pytest
from fake_provider import CHAT, FakeProvider, Reply, error_reply, model_for, whole_reply
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import (
    AuthenticationError,
    BrokenReplyError,
    ConnectionFailedError,
    ContextTooLongError,
    ModelError,
    RateLimitedError,
    RequestRefusedError,
    ServerFailedError,
)
from agent.model import Finished, ModelRequest, Restarted, TextDelta, Usage
from agent.retry import RetryingModel
from agent.scripted import ScriptedModel, cut, fail, say

REQUEST = ModelRequest([{"role": "user", "content": "Hi"}])
TRANSIENT = [RateLimitedError, ServerFailedError, ConnectionFailedError, BrokenReplyError]


class Clock:
    """Sleeps at once, and remembers for how long."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def retrying(*models, clock: Clock | None = None, **options) -> RetryingModel:
    clock = clock or Clock()
    defaults = {"jitter": lambda: 1.0, "sleep": clock.sleep, "clock": lambda: clock.now}
    return RetryingModel(models, **{**defaults, **options})


async def chunks(model) -> list:
    return [chunk async for chunk in model.stream(REQUEST)]


@pytest.mark.parametrize("error", TRANSIENT)
async def test_what_may_pass_is_tried_again(error):
    clock = Clock()
    first = ScriptedModel([fail(error, after=["half "]), fail(error), say("whole")])
    found = await chunks(retrying(first, clock=clock))
    assert [type(chunk) for chunk in found] == [
        TextDelta,
        Restarted,
        Restarted,
        TextDelta,
        Finished,
    ]
    assert [chunk[1:] for chunk in found[1:3]] == [(1.0, 2), (2.0, 3)]
    assert found[1].reason == f"scripted {error.__name__}"
    assert clock.waits == [1.0, 2.0]
    first.assert_done()


async def test_a_cut_stream_is_taken_back():
    found = await chunks(retrying(ScriptedModel([cut("half"), say("whole")])))
    assert [type(chunk) for chunk in found] == [TextDelta, Restarted, TextDelta, Finished]


async def test_a_stream_without_an_end_is_taken_back():
    class Endless(ScriptedModel):
        async def stream(self, request):
            async for chunk in super().stream(request):
                if not (self.calls == 1 and isinstance(chunk, Finished)):
                    yield chunk

    found = await chunks(retrying(Endless([say("half"), say("whole")])))
    assert [type(chunk) for chunk in found] == [TextDelta, Restarted, TextDelta, Finished]


async def test_the_last_error_is_raised_when_all_tries_failed():
    model = ScriptedModel([fail(ServerFailedError(str(number))) for number in range(4)])
    with pytest.raises(ServerFailedError, match="3"):
        await chunks(retrying(model))
    model.assert_done()


async def test_waits_double_up_to_the_longest_and_are_jittered():
    clock = Clock()
    model = ScriptedModel([*[fail(ServerFailedError)] * 5, say("ok")])
    await chunks(retrying(model, clock=clock, attempts=6, longest_wait=5.0))
    assert clock.waits == [1.0, 2.0, 4.0, 5.0, 5.0]
    clock = Clock()
    model = ScriptedModel([*[fail(ServerFailedError)] * 2, say("ok")])
    await chunks(retrying(model, clock=clock, jitter=lambda: 0.0))
    assert clock.waits == [0.5, 1.0]


async def test_the_wish_of_the_provider_is_honoured():
    clock = Clock()
    model = ScriptedModel([fail(RateLimitedError("slow", retry_after=20)), say("ok")])
    found = await chunks(retrying(model, clock=clock))
    assert clock.waits == [20]
    assert found[0] == Restarted("slow", 20, 2)


async def test_a_wish_that_is_too_long_is_not_waited_for():
    clock = Clock()
    hour = RateLimitedError("come back in an hour", retry_after=3600)
    with pytest.raises(RateLimitedError):
        await chunks(retrying(ScriptedModel([fail(hour)]), clock=clock))
    other = ScriptedModel([say("here")], name="other")
    found = await chunks(retrying(ScriptedModel([fail(hour)]), other, clock=clock))
    assert clock.waits == []
    assert found[-1] == Finished("stop", Usage(), "other")


@pytest.mark.parametrize("error", [AuthenticationError, RequestRefusedError, ModelError])
async def test_what_will_not_pass_goes_to_the_next_model_at_once(error):
    clock = Clock()
    first, second = ScriptedModel([fail(error)]), ScriptedModel([say("here")], name="second")
    found = await chunks(retrying(first, second, clock=clock))
    assert [type(chunk) for chunk in found] == [Restarted, TextDelta, Finished]
    assert found[0].delay == 0
    assert "Asking second instead" in found[0].reason
    assert clock.waits == []


@pytest.mark.parametrize("error", [AuthenticationError, RequestRefusedError, ModelError])
async def test_what_will_not_pass_is_raised_if_there_is_no_other(error):
    model = ScriptedModel([fail(error)])
    with pytest.raises(error):
        await chunks(retrying(model))
    model.assert_done()


async def test_too_long_is_always_raised():
    second = ScriptedModel([])
    with pytest.raises(ContextTooLongError):
        await chunks(retrying(ScriptedModel([fail(ContextTooLongError)]), second))
    assert second.calls == 0
    with pytest.raises(ContextTooLongError):
        await chunks(
            retrying(
                ScriptedModel([fail(AuthenticationError)]),
                ScriptedModel([fail(ContextTooLongError)]),
                ScriptedModel([]),
            )
        )


async def test_the_next_model_is_asked_when_tries_are_used_up():
    first = ScriptedModel([fail(ServerFailedError)] * 4)
    second = ScriptedModel([fail(ServerFailedError), say("here")], name="second")
    found = await chunks(retrying(first, second))
    assert [chunk.attempt for chunk in found if isinstance(chunk, Restarted)] == [2, 3, 4, 5, 6]
    assert found[-1].model == "second"
    first.assert_done()
    second.assert_done()


async def test_a_model_that_was_given_up_rests():
    clock = Clock()
    first = ScriptedModel([*[fail(ServerFailedError)] * 2, say("back")], name="first")
    second = ScriptedModel(itertools.repeat(say("here")), name="second")
    model = retrying(first, second, clock=clock, attempts=2, rest=60)
    assert (await chunks(model))[-1].model == "second"
    found = await chunks(model)
    assert [type(chunk) for chunk in found] == [TextDelta, Finished]
    assert found[-1].model == "second"
    clock.now += 61
    assert (await chunks(model))[-1].model == "first"
    assert (model.name, model.context_length) == ("first", 128_000)


async def test_a_resting_model_is_still_the_last_resort():
    first = ScriptedModel([*[fail(ServerFailedError)], say("back")], name="first")
    second = ScriptedModel([say("here"), fail(AuthenticationError)], name="second")
    model = retrying(first, second, attempts=1)
    assert (await chunks(model))[-1].model == "second"
    assert (await chunks(model))[-1].model == "first"


async def test_the_wait_can_be_cancelled():
    model = RetryingModel([ScriptedModel([fail(RateLimitedError("x", retry_after=59))])])
    restarted = asyncio.Event()

    async def read() -> None:
        async for chunk in model.stream(REQUEST):
            if isinstance(chunk, Restarted):
                restarted.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(restarted.wait(), 60)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)


async def test_bugs_are_not_retried():
    model = ScriptedModel([fail(ZeroDivisionError("bug"))])
    with pytest.raises(ZeroDivisionError):
        await chunks(retrying(model, ScriptedModel([])))


async def test_leaving_early_closes_the_connection():
    async with FakeProvider(Reply(whole_reply(CHAT), ending="hang")) as fake:
        model = retrying(model_for(CHAT, fake.url))
        async with aclosing(model.stream(REQUEST)) as stream:
            async for chunk in stream:
                if isinstance(chunk, TextDelta):
                    break
        await asyncio.wait_for(fake.client_left.wait(), 60)
        await model.aclose()


async def test_against_a_server_that_recovers():
    async with FakeProvider(
        error_reply(529, {"error": {"type": "overloaded_error"}}, retry_after="3"),
        Reply(whole_reply(CHAT)[:6], ending="cut"),
        Reply([], framing="raw", ending="reset"),
        Reply(whole_reply(CHAT)),
    ) as fake:
        clock = Clock()
        model = retrying(model_for(CHAT, fake.url), clock=clock)
        found = await chunks(model)
        await model.aclose()
    assert len(fake.received) == 4
    assert clock.waits == [3.0, 2.0, 4.0]
    assert isinstance(found[-1], Finished)


async def test_all_models_are_closed():
    models = [ScriptedModel([]), ScriptedModel([])]
    await retrying(*models).aclose()
    assert [model.closed for model in models] == [1, 1]


def test_no_models_is_a_mistake():
    with pytest.raises(ValueError, match="at least one"):
        RetryingModel([])


outcomes = st.sampled_from([*TRANSIENT, AuthenticationError, RequestRefusedError, "cut", "ok"])


@given(st.lists(st.lists(outcomes, max_size=4), min_size=1, max_size=3))
def test_what_is_left_after_the_last_restart_is_one_whole_answer(scripts):
    """Whatever fails how often: a reader sees one answer, or an error."""

    def step(number, outcome):
        if outcome == "ok":
            return say(f"{number}-", "ok")
        if outcome == "cut":
            return cut(f"{number}-")
        return fail(outcome, after=[f"{number}-"])

    models = [
        ScriptedModel(
            itertools.chain(
                (step(number, outcome) for number, outcome in enumerate(script)),
                itertools.repeat(fail(ServerFailedError)),
            )
        )
        for script in scripts
    ]

    async def run() -> None:
        kept: list = []
        attempts = []
        try:
            async for chunk in retrying(*models).stream(REQUEST):
                if isinstance(chunk, Restarted):
                    kept.clear()
                    attempts.append(chunk.attempt)
                else:
                    kept.append(chunk)
        except ModelError:
            assert not any(isinstance(chunk, Finished) for chunk in kept)
        else:
            assert [type(chunk) for chunk in kept] == [TextDelta, TextDelta, Finished]
        assert attempts == list(range(2, 2 + len(attempts)))
        assert sum(model.calls for model in models) == len(attempts) + 1

    asyncio.run(run())
