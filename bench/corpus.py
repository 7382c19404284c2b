"""Made-up conversations that weigh and read like real ones, the same for the same seed.

Word frequencies follow Zipf's law over a vocabulary of 40,000, lengths vary as those of messages
do, about one message in three belongs to a tool call, one in fifty is Chinese, Japanese or Korean,
and some hold a number that occurs nowhere else. Only the standard library is used: other stores'
interpreters read this too.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

COMMONEST = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "with", "as", "was", "on")
"""The words at the head of the vocabulary, most frequent first."""

RARE = "zyzzyva"
"""A word in about one message of 20,000."""

RARE_PHRASE = "rolling blackout schedule"
"""Three words that stand together in about one message of 20,000."""

CJK_TERMS = ("数据库", "東京", "데이터베이스", "会话", "検索", "메시지", "消息队列", "設定")
"""Words, most frequent first, in the messages that are not written in letters."""

_VOCABULARY = 40_000
_PLANT_EVERY = 20_000
_TOOLS = ("read_file", "search_files", "run_command", "web_search", "write_file")


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """The words, most frequent first; frequent words are short."""
    rng = random.Random(11)
    starts = [*"bcdfghklmnprstvw", "br", "ch", "cr", "fl", "gr", "pl", "pr", "sh", "st", "th", "tr"]
    middles = [*"aeiouaeio", "ea", "ou"]
    ends = ["", "", "", "", "n", "r", "s", "t", "l", "st"]
    seen = dict.fromkeys((*COMMONEST, RARE, *RARE_PHRASE.split()))
    words = list(COMMONEST)
    while len(words) < _VOCABULARY:
        syllables = 1 if len(words) < 120 else 2 if len(words) < 6000 else 3
        word = "".join(
            rng.choice(starts) + rng.choice(middles) + rng.choice(ends) for _ in range(syllables)
        )
        if word not in seen:
            seen[word] = None
            words.append(word)
    return tuple(words)


class Corpus:
    """An endless supply of messages."""

    def __init__(self, seed: int = 1, stream: int = 400_000) -> None:
        """Draw a stream of `stream` words, of which each message is a stretch."""
        self._rng = random.Random(seed)
        self.words = vocabulary()
        weights = list(itertools.accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))
        self._stream = self._rng.choices(self.words, cum_weights=weights, k=stream)
        self._count = 0

    def _text(self, mean_words: float = 38.0) -> str:
        rng = self._rng
        # Log-normal: many short ones, a few long ones.
        length = max(2, min(400, int(rng.lognormvariate(0.0, 0.7) * mean_words * 0.78)))
        start = rng.randrange(len(self._stream) - length)
        text = " ".join(self._stream[start : start + length])
        if rng.random() < 0.25:
            text += f" #{rng.randrange(10**9)}"
        return text

    def _cjk_text(self) -> str:
        rng = self._rng
        pieces = []
        for _ in range(rng.randrange(3, 12)):
            # Squaring makes the first of the list and of the range the most frequent.
            pieces.append(CJK_TERMS[int(rng.random() ** 2 * len(CJK_TERMS))])
            pieces.append("".join(chr(0x4E00 + int(rng.random() ** 2 * 3000)) for _ in range(6)))
        return "，".join(pieces)

    def _said(self) -> str:
        self._count += 1
        if self._count % _PLANT_EVERY == 7:
            return f"{self._text(18)} {RARE} {RARE_PHRASE} {self._text(18)}"
        return self._cjk_text() if self._count % 50 == 3 else self._text()

    def _tool_exchange(self) -> Iterator[Message]:
        rng = self._rng
        call_id = f"call_{rng.getrandbits(64):016x}"
        name = rng.choice(_TOOLS)
        arguments = {"path": f"src/{rng.choice(self._stream)}.py", "query": self._text(6)}
        call = {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        yield {
            "role": "assistant",
            "content": self._text(12),
            "tool_calls": [call],
            "finish_reason": "tool_calls",
        }
        yield {
            "role": "tool",
            "content": self._text(60),
            "tool_call_id": call_id,
            "tool_name": name,
        }

    def conversation(self) -> Iterator[Message]:
        """One conversation without end: questions, tool calls with results, answers."""
        while True:
            yield {"role": "user", "content": self._said()}
            if self._rng.random() < 0.5:
                yield from self._tool_exchange()
            yield {"role": "assistant", "content": self._said(), "finish_reason": "stop"}

    def messages(self, count: int) -> list[Message]:
        """The first `count` messages of a new conversation."""
        return list(itertools.islice(self.conversation(), count))
