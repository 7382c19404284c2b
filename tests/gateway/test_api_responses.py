"""/v1/responses with OpenAI's own client: streams, chains, branches, and after a restart."""

from __future__ import annotations

import itertools
from pathlib import Path

import openai
import pytest

from agent.errors import RequestRefusedError
from agent.model import Usage
from agent.scripted import call, fail, say

from .serving import serving

TODO = {"todos": [{"id": "1", "content": "x", "status": "pending"}]}


async def test_a_response_is_made_and_fetched(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("Hello.", usage=Usage(7, 2))]) as served:
        made = await served.openai.responses.create(
            model="m", input="hi", instructions="Be brief.", metadata={"a": "b"}
        )
        assert (made.output_text, made.status, made.object) == ("Hello.", "completed", "response")
        assert made.usage is not None and made.usage.total_tokens == 9
        assert made.metadata == {"a": "b"} and made.instructions == "Be brief."
        assert "Be brief." in served.model.requests[0].system
        found = await served.openai.responses.retrieve(made.id)
        assert (found.id, found.output_text) == (made.id, "Hello.")


async def test_a_chain_goes_on_and_its_middle_branches(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        create = served.openai.responses.create
        one = await create(model="m", input="one")
        two = await create(model="m", input="two", previous_response_id=one.id)
        three = await create(model="m", input="three", previous_response_id=two.id)
        said = [message["content"] for message in served.model.requests[-1].messages]
        assert said == ["one", "re: one", "two", "re: two", "three"]
        other = await create(model="m", input="other", previous_response_id=one.id)
        said = [message["content"] for message in served.model.requests[-1].messages]
        assert said == ["one", "re: one", "other"]
        assert other.output_text == "re: other"
        assert len(served.db.list_sessions_rich(user_id="api_server:alice")) == 2
    async with serving(tmp_path) as served:  # the ids hold after a restart
        found = await served.openai.responses.retrieve(three.id)
        assert found.output_text == "re: three"
        await served.openai.responses.create(model="m", input="four", previous_response_id=three.id)
        said = [message["content"] for message in served.model.requests[-1].messages]
        assert said[-3:] == ["three", "re: three", "four"]


async def test_a_streamed_response(tmp_path: Path) -> None:
    steps = [call("todo", **TODO), say("Well, ", "done.", usage=Usage(5, 3))]
    async with serving(tmp_path, steps) as served:
        stream = await served.openai.responses.create(model="m", input="go", stream=True)
        events = [event async for event in stream]
        kinds = [event.type for event in events]
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert kinds[-1] == "response.completed"
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert deltas == ["Well, ", "done."]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        last = events[-1].response  # type: ignore[union-attr]
        assert last.output_text == "Well, done."
        assert last.id == events[0].response.id  # type: ignore[union-attr]
        assert (await served.openai.responses.retrieve(last.id)).output_text == "Well, done."


async def test_a_failed_response_says_so(tmp_path: Path) -> None:
    steps = itertools.repeat(fail(RequestRefusedError("No such model")))
    async with serving(tmp_path, steps) as served:
        with pytest.raises(openai.InternalServerError, match="No such model"):
            await served.openai.responses.create(model="m", input="hi")
        stream = await served.openai.responses.create(model="m", input="hi", stream=True)
        events = [event async for event in stream]
        assert events[-1].type == "response.failed"
        assert "No such model" in events[-1].response.error.message  # type: ignore[union-attr]


async def test_a_deleted_response_is_gone_and_the_conversation_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await served.openai.responses.create(model="m", input="hi")
        await served.openai.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await served.openai.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            await served.openai.responses.create(model="m", input="x", previous_response_id=made.id)
        assert len(served.db.list_sessions_rich(user_id="api_server:alice")) == 1


@pytest.mark.parametrize("made_up", ["resp_1_0000000000000000", "resp_zz", "nothing", "resp_1_"])
async def test_a_made_up_id_names_nothing(tmp_path: Path, made_up: str) -> None:
    async with serving(tmp_path) as served:
        await served.chat("something is stored")
        answer = await served.http.get(f"/v1/responses/{made_up}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "response_not_found")
        body = {"input": "x", "previous_response_id": made_up}
        assert (await served.http.post("/v1/responses", json=body)).status_code == 404


async def test_a_response_of_somebody_else_does_not_exist(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await served.openai.responses.create(model="m", input="secret")
        for method in ("GET", "DELETE"):
            answer = await served.other.request(method, f"/v1/responses/{made.id}")
            assert answer.status_code == 404 and "secret" not in answer.text
        body = {"input": "x", "previous_response_id": made.id}
        assert (await served.other.post("/v1/responses", json=body)).status_code == 404
