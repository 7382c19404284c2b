"""Chat completions, driven by OpenAI's own client library and by plain HTTP."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import openai
import pytest

from agent.errors import RequestRefusedError
from agent.model import ModelRequest, ReasoningDelta, Usage
from agent.scripted import Call, Step, call, cut, fail, say

from .chats import asked, echo
from .serving import serving

HI: list[Any] = [{"role": "user", "content": "hi"}]


async def test_a_question_is_answered_whole(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("Hello there.", usage=Usage(12, 3))]) as served:
        found = await served.openai.chat.completions.create(model="any", messages=HI)
        choice = found.choices[0]
        assert (choice.message.content, choice.finish_reason) == ("Hello there.", "stop")
        assert found.object == "chat.completion" and found.model == "any"
        assert found.usage is not None
        assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (12, 3)


async def test_a_question_is_answered_in_pieces(tmp_path: Path) -> None:
    step = say("One ", "two ", "three.", usage=Usage(5, 4))
    async with serving(tmp_path, [step]) as served:
        stream = await served.openai.chat.completions.create(
            model="m", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert [text for text in texts if text] == ["One ", "two ", "three."]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "stop"
    assert chunks[-1].usage is not None and chunks[-1].usage.total_tokens == 9
    assert len({chunk.id for chunk in chunks}) == 1


async def test_tools_run_here_and_the_client_sees_only_text(tmp_path: Path) -> None:
    steps = [call("todo", todos=[{"id": "1", "content": "x", "status": "pending"}]), say("Noted.")]
    async with serving(tmp_path, [*steps, *steps]) as served:
        stream = await served.openai.chat.completions.create(model="m", messages=HI, stream=True)
        chunks = [chunk async for chunk in stream]
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Noted."
        assert all(chunk.choices[0].delta.tool_calls is None for chunk in chunks)
        body = {"messages": HI, "stream": True}
        raw = (await served.http.post("/v1/chat/completions", json=body)).text
        assert ": hermes.tool.started" in raw and ": hermes.tool.completed" in raw
        rows = served.db.list_sessions_rich(user_id="api_server:alice")
        roles = [role for role, _ in served.told(rows[0]["id"])]
        assert roles == ["user", "assistant", "tool", "assistant"]


async def test_the_header_keeps_a_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        first = await served.chat("one")
        session_id = first.headers["x-hermes-session-id"]
        assert first.headers["x-hermes-completed"] == "true"
        second = await served.chat("two", session_id)
        assert second.headers["x-hermes-session-id"] == session_id
        assert served.told(session_id) == [
            ("user", "one"), ("assistant", "re: one"), ("user", "two"), ("assistant", "re: two"),
        ]  # fmt: skip
        assert served.model.requests[-1].messages[0]["content"] == "one"
        row = served.db.get_session(session_id)
        assert row is not None
        assert (row["source"], row["user_id"]) == ("api_server", "api_server:alice")


async def test_a_name_of_the_clients_own_begins_a_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for text in ("one", "two"):
            answer = await served.chat(text, "my-project.7")
            assert answer.headers["x-hermes-session-id"] == "my-project.7"
        assert len(served.told("my-project.7")) == 4


async def test_a_session_key_leads_to_its_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        answers = [await served.chat(text, **{"X-Hermes-Session-Key": "room 1"}) for text in "ab"]
        assert {one.headers["x-hermes-session-key"] for one in answers} == {"room 1"}
        ids = {one.headers["x-hermes-session-id"] for one in answers}
        assert len(ids) == 1 and len(served.told(ids.pop())) == 4
        other = await served.other.post(
            "/v1/chat/completions", json={"messages": HI},
            headers={"X-Hermes-Session-Key": "room 1"},
        )  # fmt: skip
        assert other.headers["x-hermes-session-id"] != answers[0].headers["x-hermes-session-id"]
    async with serving(tmp_path) as served:  # also after a restart
        again = await served.chat("c", **{"X-Hermes-Session-Key": "room 1"})
        assert len(served.told(again.headers["x-hermes-session-id"])) == 6


async def test_the_requests_messages_seed_a_new_conversation(tmp_path: Path) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Talk like a pirate."},
        {"role": "user", "content": "I am Ann."},
        {"role": "assistant", "content": "Hello Ann."},
        {"role": "user", "content": [{"type": "text", "text": "Who am I?"}]},
    ]
    async with serving(tmp_path) as served:
        raw = await served.openai.chat.completions.with_raw_response.create(
            model="m", messages=messages
        )
        session_id = raw.headers["x-hermes-session-id"]
        assert served.told(session_id) == [
            ("user", "I am Ann."), ("assistant", "Hello Ann."), ("user", "Who am I?"),
            ("assistant", "re: Who am I?"),
        ]  # fmt: skip
        assert "Talk like a pirate." in served.model.requests[0].system
        # With the session's id, what it holds counts, not what the request repeats.
        await served.openai.chat.completions.create(
            model="m", messages=messages, extra_headers={"X-Hermes-Session-Id": session_id}
        )
        assert len(served.told(session_id)) == 6
        assert served.model.requests[1].system == served.model.requests[0].system


async def test_other_instructions_later_reach_the_turn_and_leave_the_prompt(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("a"), say("b"), say("c")]) as served:
        for words in ("Be brief.", "Be brief.", "Rhyme."):
            body = {"messages": [{"role": "system", "content": words}, *HI]}
            headers = {"X-Hermes-Session-Id": "s1"}
            await served.http.post("/v1/chat/completions", json=body, headers=headers)
        systems = {request.system for request in served.model.requests}
        assert len(systems) == 1 and "Be brief." in systems.pop()
        last = [one["content"] for one in served.model.requests[-1].messages][-1]
        assert last == "hi\n\nRhyme."
        assert served.told("s1")[-2] == ("user", "hi")


async def test_pictures_reach_the_model(tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    parts = [{"type": "text", "text": "What is it?"}, picture]
    async with serving(tmp_path, [say("A dot.")]) as served:
        body = {"messages": [{"role": "user", "content": parts}]}
        answer = await served.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        assert served.model.requests[0].messages[-1]["content"] == parts


async def test_reasoning_is_streamed_beside_the_text(tmp_path: Path) -> None:
    async with serving(tmp_path, [say(ReasoningDelta("Hm."), "Yes.")]) as served:
        stream = await served.openai.chat.completions.create(model="m", messages=HI, stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
        assert any(getattr(one, "reasoning_content", None) == "Hm." for one in deltas)
        assert "".join(one.content or "" for one in deltas) == "Yes."


async def test_a_model_that_fails_is_an_error_and_not_an_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, itertools.repeat(fail(RequestRefusedError("No such model")))) as s:
        with pytest.raises(openai.InternalServerError, match="No such model") as caught:
            await s.openai.chat.completions.create(model="m", messages=HI)
        assert caught.value.response.headers["x-hermes-completed"] == "false"
        assert "No such model" in caught.value.response.headers["x-hermes-error"]
        assert len(s.model.requests) == 1  # the client was told not to repeat it
        with pytest.raises(openai.APIError, match="No such model"):
            stream = await s.openai.chat.completions.create(model="m", messages=HI, stream=True)
            [chunk async for chunk in stream]


async def test_a_reply_that_breaks_off_is_told_as_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path, itertools.repeat(cut("Half of"))) as served:
        said = []
        with pytest.raises(openai.APIError):
            stream = await served.openai.chat.completions.create(
                model="m", messages=HI, stream=True
            )
            async for chunk in stream:
                said.append(chunk.choices[0].delta.content)
        assert "Half of" in said


async def test_a_short_answer_is_marked_partial(tmp_path: Path) -> None:
    async with serving(tmp_path, [Step(("Once upon",), finish="length")]) as served:
        answer = await served.chat("tell")
        choice = answer.json()["choices"][0]
        assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "Once upon")
        assert answer.headers["x-hermes-partial"] == "true"


async def test_turns_of_one_conversation_take_turns(tmp_path: Path) -> None:
    running = most = 0

    def answer(request: ModelRequest) -> Step:
        nonlocal running, most
        running += 1
        most = max(most, running)

        async def leave() -> None:
            nonlocal running
            await asyncio.sleep(0)
            running -= 1

        return say(leave, f"re: {asked(request)}")

    async with serving(tmp_path, itertools.repeat(answer)) as served:
        texts = [str(number) for number in range(8)]
        answers = await asyncio.gather(*(served.chat(text, "one") for text in texts))
        assert most == 1
        said = [one.json()["choices"][0]["message"]["content"] for one in answers]
        assert said == [f"re: {text}" for text in texts]
        told = served.told("one")
        assert len(told) == 16
        assert all(told[n + 1][1] == f"re: {told[n][1]}" for n in range(0, 16, 2))


async def test_a_message_joins_the_turn_before_it(tmp_path: Path) -> None:
    """Both are answered by one turn, as in a chat."""
    begun = asyncio.Event()

    def first(request: ModelRequest) -> Step:
        begun.set()
        return say(600.0, "never")

    async with serving(tmp_path, [first, say("both")]) as served:
        one = asyncio.ensure_future(served.chat("one", "house"))
        await begun.wait()
        two = await served.chat("two", "house", **{"X-Hermes-Busy": "interrupt"})
        answers = [answer.json()["choices"][0]["message"]["content"] for answer in (await one, two)]
        assert answers == ["both", "both"]
        assert [text for _, text in served.told("house")] == ["one", "two", "both"]


async def test_a_message_stops_the_turn_before_it(tmp_path: Path) -> None:
    spoken = asyncio.Event()

    async def tell() -> None:
        spoken.set()

    steps = [say("Once upon ", tell, 600.0, "a time"), say("Yes.")]
    async with serving(tmp_path, steps) as served:
        one = asyncio.ensure_future(served.chat("a story", "house"))
        await spoken.wait()
        two = await served.chat("stop", "house", **{"X-Hermes-Busy": "interrupt"})
        assert two.json()["choices"][0]["message"]["content"] == "Yes."
        assert (await one).headers["x-hermes-completed"] == "false"


async def test_a_message_is_read_at_the_next_step(tmp_path: Path) -> None:
    release, begun = asyncio.Event(), asyncio.Event()

    async def tell() -> None:
        begun.set()
        await release.wait()

    steps = [Step((tell, Call("todo", {"todos": []}))), echo, say("not asked")]
    async with serving(tmp_path, steps) as served:
        one = asyncio.ensure_future(served.chat("one", "house"))
        await begun.wait()
        two = asyncio.ensure_future(served.chat("two", "house", **{"X-Hermes-Busy": "steer"}))
        queues = served.runner.conversations._queues
        while not any(waiting.is_offered for queue in queues.values() for waiting in queue):
            await asyncio.sleep(0.01)
        release.set()
        for answer in (await one, await two):
            assert answer.json()["choices"][0]["message"]["content"] == "re: two"


async def test_an_unknown_busy_mode_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        answer = await served.chat("hi", **{"X-Hermes-Busy": "shout"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_busy_mode")


async def test_a_long_line_is_refused(tmp_path: Path) -> None:
    release = asyncio.Event()
    async with serving(tmp_path, itertools.repeat(lambda _: say(release, "done"))) as served:
        tasks = [asyncio.ensure_future(served.chat(str(n), "one")) for n in range(30)]
        done, _ = await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
        refused = done.pop().result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "conversation_busy")
        release.set()
        codes = [one.status_code for one in await asyncio.gather(*tasks)]
        assert set(codes) == {200, 429}
        assert len(served.told("one")) == 2 * codes.count(200)


async def test_conversations_do_not_wait_for_each_other(tmp_path: Path) -> None:
    release = asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        return say(release, "late") if asked(request) == "slow" else echo(request)

    async with serving(tmp_path, itertools.repeat(answer)) as served:
        slow = asyncio.ensure_future(served.chat("slow", "a"))
        quick = await served.chat("quick", "b")
        assert quick.json()["choices"][0]["message"]["content"] == "re: quick"
        assert not slow.done()
        release.set()
        assert (await slow).status_code == 200


async def test_the_configured_number_of_turns_runs_at_once(tmp_path: Path) -> None:
    release, begun = asyncio.Event(), asyncio.Semaphore(0)

    def answer(request: ModelRequest) -> Step:
        begun.release()
        return say(release, "done")

    async with serving(tmp_path, itertools.repeat(answer), max_concurrent_sessions=3) as served:
        tasks = [asyncio.ensure_future(served.chat("x", f"c{n}")) for n in range(9)]
        for _ in range(3):
            await begun.acquire()
        assert served.runner.conversations.in_flight == 3 and begun.locked()
        release.set()
        assert {one.status_code for one in await asyncio.gather(*tasks)} == {200}


async def test_a_client_that_leaves_does_not_end_the_turn(tmp_path: Path) -> None:
    release, begun = asyncio.Event(), asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        begun.set()
        return say("First, ", release, "then the rest.")

    async with serving(tmp_path, itertools.repeat(answer)) as served:
        body = {"messages": HI, "stream": True}
        headers = {"X-Hermes-Session-Id": "kept"}
        async with served.http.stream(
            "POST", "/v1/chat/completions", json=body, headers=headers
        ) as stream:
            async for line in stream.aiter_lines():
                if "First" in line:
                    break
        await begun.wait()
        release.set()
        again = await served.chat("and?", "kept")  # waits for the turn before it
        assert again.status_code == 200
        assert served.told("kept")[:2] == [("user", "hi"), ("assistant", "First, then the rest.")]


async def test_a_client_may_ask_to_stop_when_it_leaves(tmp_path: Path) -> None:
    steps = [say("First, ", asyncio.Event(), "never."), say("Next.")]
    async with serving(tmp_path, steps) as served:
        headers = {"X-Hermes-Session-Id": "gone", "X-Hermes-On-Disconnect": "stop"}
        body = {"messages": HI, "stream": True}
        async with served.http.stream(
            "POST", "/v1/chat/completions", json=body, headers=headers
        ) as stream:
            async for line in stream.aiter_lines():
                if "First" in line:
                    break
        assert (await served.chat("next", "gone")).status_code == 200
        assert served.told("gone")[1] == ("assistant", "First, ")


async def test_a_request_sent_again_is_not_run_again(tmp_path: Path) -> None:
    release = asyncio.Event()
    once = {"Idempotency-Key": "order-66"}
    async with serving(tmp_path, [say(release, "Done."), say("Other.")]) as served:
        both = [asyncio.ensure_future(served.chat("go", **once)) for _ in range(2)]
        await asyncio.sleep(0)
        release.set()
        answers = [*await asyncio.gather(*both), await served.chat("go", **once)]
        texts = {one.json()["choices"][0]["message"]["content"] for one in answers}
        ids = {one.headers["x-hermes-session-id"] for one in answers}
        assert texts == {"Done."} and len(ids) == 1 and len(served.model.requests) == 1
    async with serving(tmp_path) as served:  # nor after a restart
        again = await served.chat("go", **once)
        assert again.json()["choices"][0]["message"]["content"] == "Done."
        assert served.model.requests == []
        stranger = await served.other.post(
            "/v1/chat/completions", json={"messages": HI}, headers=once
        )
        assert stranger.json()["choices"][0]["message"]["content"] == "re: hi"
