"""The scripted model behaves like a provider, and says when a script was not followed."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from fake_provider import collect

from agent.errors import BrokenReplyError, RateLimitedError, ServerFailedError
from agent.model import ModelRequest, ReasoningDetails, TextDelta, Usage
from agent.scripted import Call, ScriptedModel, call, calls, cut, fail, prompt_bytes, say


def request(*texts: str) -> ModelRequest:
    return ModelRequest([{"role": "user", "content": text} for text in texts], system="sys")


async def play(step, **options):
    model = ScriptedModel([step], **options)
    answer = await collect(model.stream(request("Hi")))
    model.assert_done()
    return answer


async def test_say():
    answer = await play(say("Hel", "lo", reasoning="hm", usage=Usage(3, 2)), name="m")
    assert (answer.text, answer.reasoning) == ("Hello", "hm")
    assert answer.finished == ("stop", Usage(3, 2), "m")
    assert (await play(say("cut short", finish="length"))).finished.reason == "length"
    assert (await play(say())).text == ""


async def test_call():
    answer = await play(call("terminal", command="ls", tool="x"))
    assert answer.calls == {0: ["call_1", "terminal", '{"command": "ls", "tool": "x"}']}
    assert answer.finished.reason == "tool_calls"


async def test_calls():
    step = calls([("a", {"x": 1}), Call("b", "{not json", id="mine")], text="Two:", reasoning="hm")
    answer = await play(step)
    assert answer.calls == {0: ["call_1", "a", '{"x": 1}'], 1: ["mine", "b", "{not json"]}
    assert (answer.text, answer.reasoning) == ("Two:", "hm")


async def test_call_ids_are_unique_across_a_script():
    model = ScriptedModel([call("a"), calls([("b", {}), ("c", {})])])
    found = [await collect(model.stream(request("Hi"))) for _ in range(2)]
    ids = [each[0] for answer in found for each in answer.calls.values()]
    assert ids == ["call_1", "call_2", "call_3"]


async def test_fail_before_and_after_text():
    with pytest.raises(RateLimitedError, match="scripted"):
        await play(fail(RateLimitedError))
    model = ScriptedModel([fail(ServerFailedError("boom"), after=["par", "tial"])])
    seen = []
    with pytest.raises(ServerFailedError, match="boom"):
        async for chunk in model.stream(request("Hi")):
            seen.append(chunk)
    assert seen == [TextDelta("par"), TextDelta("tial")]


async def test_cut_is_what_a_provider_makes_of_it():
    model = ScriptedModel([cut("par")])
    seen = []
    with pytest.raises(BrokenReplyError):
        async for chunk in model.stream(request("Hi")):
            seen.append(chunk)
    assert seen == [TextDelta("par")]


async def test_gates_hold_the_stream_until_they_open():
    gate, reached = asyncio.Event(), asyncio.Event()
    model = ScriptedModel([say("a", reached.set, gate, "b", 0, lambda: asyncio.sleep(0), "c")])
    task = asyncio.create_task(collect(model.stream(request("Hi"))))
    await asyncio.wait_for(reached.wait(), 60)
    assert not task.done()
    gate.set()
    assert (await task).text == "abc"


async def test_a_held_stream_can_be_cancelled():
    reached = asyncio.Event()
    model = ScriptedModel([say("a", reached.set, asyncio.Event(), "b")])
    task = asyncio.create_task(collect(model.stream(request("Hi"))))
    await asyncio.wait_for(reached.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_chunks_may_be_given_as_they_are():
    answer = await play(say("x", ReasoningDetails([{"type": "t"}])))
    assert answer.details == [{"type": "t"}]


async def test_a_function_sees_the_request():
    model = ScriptedModel([lambda asked: say(asked.messages[-1]["content"].upper())])
    assert (await collect(model.stream(request("hi")))).text == "HI"


async def test_steps_nobody_asked_for_are_named():
    model = ScriptedModel([say("one"), say("two"), call("terminal")])
    await collect(model.stream(request("Hi")))
    with pytest.raises(AssertionError, match=r"1 calls were made.*'two'.*terminal"):
        model.assert_done()


async def test_a_call_too_many_says_which():
    model = ScriptedModel([say("one")])
    await collect(model.stream(request("Hi")))
    with pytest.raises(AssertionError, match=r"call 2 was not expected.*user message: 'What now"):
        await collect(model.stream(request("Hi", "What now?")))
    with pytest.raises(AssertionError, match="call 2 was not expected"):
        model.assert_done()


async def test_endless_scripts():
    model = ScriptedModel(itertools.repeat(say("ok")), record=False)
    for _ in range(5):
        assert (await collect(model.stream(request("Hi")))).text == "ok"
    assert model.calls == 5
    assert model.requests == []


async def test_requests_are_kept_as_they_were():
    model = ScriptedModel([say("one"), say("two")])
    asked = request("Hi")
    await collect(model.stream(asked))
    asked.messages[0]["content"] = "changed"
    asked.messages.append({"role": "assistant", "content": "one", "tool_calls": [{"id": "c"}]})
    asked.max_tokens = 5
    await collect(model.stream(asked))
    first, second = model.requests
    assert first == request("Hi")
    assert second == asked
    second.messages.clear()
    assert model.requests[1] == asked


async def test_requests_of_odd_objects_are_kept_too():
    class Odd(str):
        pass

    model = ScriptedModel([say("one")])
    asked = ModelRequest([{"role": "user", "content": Odd("x"), "extra": object}])
    await collect(model.stream(asked))
    asked.messages[0]["content"] = "changed"
    assert model.requests[0].messages[0]["content"] == "x"


async def test_a_prompt_begins_with_the_one_before():
    model = ScriptedModel([say("one"), say("two")])
    asked = request("Hi")
    await collect(model.stream(asked))
    asked.messages.append({"role": "assistant", "content": "é"})
    await collect(model.stream(asked))
    first, second = model.prompts
    assert second.startswith(first)
    assert second == prompt_bytes(asked)
    asked.system = "other"
    assert not prompt_bytes(asked).startswith(first)


async def test_it_is_a_model():
    model = ScriptedModel([], provider="p", base_url="http://h", context_length=7)
    await model.aclose()
    found = (model.name, model.provider, model.base_url, model.context_length, model.closed)
    assert found == ("scripted", "p", "http://h", 7, 1)
