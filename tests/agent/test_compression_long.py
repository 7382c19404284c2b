"""Hundreds of turns in a window of four thousand tokens, with a real tokenizer as the judge."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.agent import AIAgent
from agent.config.schema import CompressionSettings
from agent.errors import ContextTooLongError
from agent.events import Compressed, Event
from agent.model import Chunk, Finished, Message, ModelRequest, TextDelta, Usage
from agent.providers.embedded_fetch import ensure_weights
from hermes_state import SessionDB

from .. import seeds
from .compressing import GOOD, Summariser, check_conversation

WINDOW = 4000
TURNS = seeds.times(150, 2000)
SUBJECTS = ("the harbour", "a letter", "der Garten", "les bateaux", "tax form 1040", "море", "猫")


@pytest.fixture(scope="module")
def tokenizer(model_cache: Path) -> Iterator[httpx.Client]:
    """The embedded model's own server, used for nothing but counting."""
    xllamacpp = pytest.importorskip("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(ensure_weights(model_cache))
    parameters.n_ctx = 256
    parameters.n_parallel = 1
    parameters.verbosity = -1
    parameters.warmup = False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.api_keys = ["count"]
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    headers = {"Authorization": "Bearer count"}
    with httpx.Client(base_url=server.listening_address, headers=headers) as client:
        yield client
    del server


class CountingModel:
    """Answers in a few words, refuses what is larger than its window, and counts for real."""

    name = "counting"
    provider = "scripted"
    base_url = ""
    context_length = WINDOW

    def __init__(self, tokenizer: httpx.Client) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, int] = {}
        self.largest = self.calls = self.refused = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Count, then answer."""
        self.calls += 1
        messages = [{"role": "system", "content": request.system}, *request.messages]
        # Between two messages stands a special token, which no word crosses: counts add up.
        tokens = sum(map(self._count, messages)) + self._tokens("<|im_start|>assistant\n")
        if self.calls % 100 == 0:
            assert tokens == self._count_at_once(messages)
        self.largest = max(self.largest, tokens)
        if tokens > WINDOW:
            self.refused += 1
            raise ContextTooLongError(f"{tokens} tokens, and {WINDOW} are possible")
        question = str(request.messages[-1]["content"])
        mark = re.search(r"turn(\d+)", question)
        answer = f"Noted under answer{mark[1] if mark else '?'}: {question[:120]}"
        yield TextDelta(answer)
        yield Finished("stop", Usage(tokens, self._tokens(answer)), self.name)

    async def aclose(self) -> None:
        """Nothing to free."""

    def _count(self, message: Message) -> int:
        return self._tokens(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n")

    def _tokens(self, text: str) -> int:
        if text not in self._known:
            body = {"content": text, "add_special": False, "parse_special": True}
            answer = self._tokenizer.post("/tokenize", json=body)
            self._known[text] = len(answer.json()["tokens"])
        return self._known[text]

    def _count_at_once(self, messages: list[Message]) -> int:
        body = {"messages": [{"role": m["role"], "content": m["content"]} for m in messages]}
        answer = self._tokenizer.post("/v1/chat/completions/input_tokens", json=body)
        return int(answer.json()["input_tokens"])


def question(number: int, chance: random.Random) -> str:
    """What a user might say: mostly short, sometimes long, now and then dense with signs."""
    text = f"turn{number}: please note {chance.choice(SUBJECTS)} for day {number}."
    if number % 20 == 0:
        text += " " + " ".join(chance.choice(SUBJECTS) for _ in range(120))
    if number % 97 == 0:
        text += " " + chance.randbytes(400).hex()
    return text


def talk(tokenizer: httpx.Client, folder: Path, turns: int, **options: Any) -> CountingModel:
    """Hold a conversation of so many turns to its end; check what it left."""
    chance = random.Random(seeds.seed())
    model = CountingModel(tokenizer)
    with SessionDB(folder / "state.db") as db:
        compressions = []

        def on_event(event: Event) -> None:
            if isinstance(event, Compressed) and event.method:
                compressions.append(event)

        prompt = "You keep notes. Be brief."
        agent = AIAgent(model, db=db, system_prompt=prompt, on_event=on_event, **options)
        for number in range(turns):
            result = agent.run_conversation(question(number, chance))
            assert str(result["final_response"]).startswith(f"Noted under answer{number}:")
        print(
            f"{len(compressions)} compressions, {model.calls} calls, {model.refused} refused,"
            f" largest {model.largest} tokens"
        )
        assert len(compressions) > turns // 50
        marks = [f"{kind}{n}" for n in range(0, turns, 50) for kind in ("turn", "answer")]
        check_conversation(db, agent.session_id, marks)
    return model


@pytest.mark.fuzz
def test_hundreds_of_turns(tokenizer: httpx.Client, tmp_path: Path) -> None:
    model = talk(tokenizer, tmp_path, TURNS, auxiliary=Summariser(GOOD))
    assert model.refused <= TURNS // 100


def test_up_to_the_brim_and_without_a_summariser(tokenizer: httpx.Client, tmp_path: Path) -> None:
    """Compressed as late as can be, in place, by form alone."""
    settings = CompressionSettings(threshold=0.95, in_place=True)
    summariser = Summariser(RuntimeError("down"))
    model = talk(tokenizer, tmp_path, 200, auxiliary=summariser, compression=settings)
    assert model.refused <= 10
