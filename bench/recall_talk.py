"""Long made-up conversations with things worth remembering in them, the same for the same seed.

Three sorts of things are planted: facts, decisions (some are changed later, some twice) and tasks
(some are settled later). Each has a value that occurs nowhere else. They are said in many different
ways, by the user or the assistant, amid small talk with names and numbers of its own, questions,
and tool calls with long outputs. Whoever reads such a conversation is not told which is which.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]

FACTS = [
    "{S} is {v}.",
    "By the way, {s} is {v}, in case it matters.",
    "I just checked and {s} turned out to be {v}.",
    "You will come across {v} when you look at {s}.",
    "{S}? That would be {v}.",
    "We had {v} put down for {s} some weeks ago.",
    "Somebody asked me about {s} and I had to say {v}.",
    "As far as {s} goes, everyone here knows it as {v}.",
    "It took me a while to find out, but {v} is what they have for {s}.",
    "For what it's worth: {s}, {v}.",
    "Remind me why {s} has to be {v}? It just is.",
    "If anybody wants to know {s}, tell them {v}.",
    "{V} is the thing they wrote on the note about {s}.",
    "Turns out we have been using {v} as {s} all along.",
]
TOLD_FACTS = [
    "I looked it up for you: {s} is {v}.",
    "According to the output, {v} is what is recorded for {s}.",
    "One thing I noticed on the way is that {s} says {v}.",
    "The answer to your question about {s} is {v}.",
]
DECISIONS = [
    "Let's make {s} {v}.",
    "For {s} we go with {v}.",
    "{V} for {s}, please.",
    "I'd like {s} to be {v}.",
    "We talked it over at home and it will be {v} for {s}.",
    "Put down {v} as {s}.",
    "After some thought, {v} feels right for {s}.",
    "My call on {s}: {v}.",
    "When you get to {s}, take {v}.",
    "I am happy with {v} as {s}.",
    "{S}: {v}, and no further discussion.",
    "The family voted, {v} won for {s}.",
    "I have thought about {s} long enough, take {v}.",
    "Could {s} be {v}? Yes, do that.",
]
CHANGES = [
    "Change of plan: {s} is {v} now.",
    "Scrap what I said about {s}; {v} it is.",
    "{S} should be {v} instead of {old}.",
    "I was wrong about {s}, it has to be {v}.",
    "They overruled me on {s}, so {v}.",
    "Make {s} {v} after all.",
    "Forget {old}, {s} becomes {v}.",
    "{S} won't work with {old}. We take {v}.",
    "Hm, about {s} again: I have come round to {v}.",
    "New information on {s}: {v}.",
    "About {s}: {old} is out, {v} is in.",
    "Correction, {s} is not {old} but {v}.",
    "{S} moved to {v}.",
    "I have second thoughts on {s} and prefer {v}.",
]
TASKS = [
    "We still need to {t}.",
    "Don't let me forget to {t}.",
    "At some point somebody has to {t}.",
    "Next week I have to {t}.",
    "TODO: {t}.",
    "I promised to {t}, and have not got round to it.",
    "Could you {t} once the rest is through? No rush.",
    "It would be good if one of us could {t} before the month is over.",
    "One more for the list: {t}.",
    "Nobody has managed to {t} so far.",
    "What is missing is that we {t}.",
    "I keep putting it off, but I ought to {t}.",
    "Somewhere on my desk there is a note to {t}.",
    "Please keep an eye on this: we should {t} soon.",
]
SETTLED = [
    "That's taken care of, I managed to {t}; the receipt says {r}.",
    "You can strike one thing, I did {t} this morning ({r}).",
    "No need to {t} any more, {r} covers it.",
    "Good news: somebody else was able to {t}, under {r}.",
    "I went ahead to {t}; it is filed as {r}.",
    "We will not {t} after all, see {r}.",
    "Done: {t}, reference {r}.",
    "Remember I wanted to {t}? It happened, {r}.",
    "Cross out the plan to {t}, it became {r}.",
]
ECHOES = [
    "Understood, {v}.",
    "Noted: {v} for {s}.",
    "All right, I have {v} down.",
    "{V}, got it.",
]

SUBJECTS = [
    "the staging proxy's port", "the backup window", "our mascot's name", "the hallway paint",
    "the guest limit", "the release branch", "the retry interval", "the ferry to the island",
    "the payroll contact", "the wifi password at the cabin", "the cover photo", "the export format",
    "the cat's new vet", "the invoice prefix", "the rollout region", "the dinner venue",
    "the log retention", "the test database", "the plumber's number", "the domain for the shop",
    "the speaker for the evening", "the pipeline runner", "the bread recipe's flour",
    "the meeting room", "the support mailbox", "the licence", "the bucket for the archives",
    "the train connection", "the color of the banner", "the deadline for the draft",
    "the translator", "the cache size", "the garden fence wood", "the error budget",
    "the piano tuner", "the webhook address", "the minimum version", "the newsletter day",
    "the car insurance", "the default language", "the font of the report", "the gate code",
    "the container image", "the anniversary gift", "the queue's name", "the rehearsal date",
    "the parking spot", "the bridge lender", "the index alias", "the tent supplier",
    "the sampling rate", "the key rotation period", "the school bus line", "the tile pattern",
    "the monitoring tool", "the hotel for the offsite", "the shard count", "the dentist",
    "the budget code", "the signing certificate", "the compost place", "the locale file",
    "the demo account", "the roof inspector", "the feature flag", "the caterer",
    "the time zone of the cluster", "the swimming course", "the kernel version", "the choir's hall",
]  # fmt: skip
ERRANDS = [
    "send the {x} contract to legal", "order the {x} tiles", "renew the {x} certificate",
    "book the {x} cottage", "answer {x} about the quote", "write a test for the {x} parser",
    "return the {x} library book", "clean up the {x} branch", "call {x} about the boiler",
    "measure the {x} endpoint under load", "pick up the {x} parcel", "draft the {x} announcement",
    "check the {x} invoice twice", "invite {x} to the review", "migrate the {x} table",
    "fix the flaky {x} suite", "water the {x} seedlings", "print the {x} tickets",
    "update the {x} runbook", "ask {x} for the floor plan", "label the {x} boxes",
    "close the {x} account", "translate the {x} leaflet", "benchmark the {x} codec",
]  # fmt: skip
_SYLLABLES = [
    "ba", "cor", "del", "fen", "gal", "hu", "jor", "kel", "lim", "mar", "nov", "oss", "per",
    "quil", "ros", "sten", "tam", "ul", "vex", "wil", "yar", "zan", "thi", "bro", "cla", "dru",
]  # fmt: skip
OPENERS = [
    "Honestly,", "To be fair,", "As usual,", "Well,", "Between us,", "I must say", "This morning",
    "Yesterday", "On the way here", "At lunch", "Over the weekend", "After the call", "Meanwhile",
    "For once", "Strangely enough", "While I was waiting",
]  # fmt: skip
EVENTS = [
    "{w} kept talking about the boat", "the coffee machine broke down again",
    "the train was {n} minutes late", "I read {n} pages of that novel", "it rained until noon",
    "there were {n} people in the queue", "{w} and I had a long argument about music",
    "the children built a castle out of {n} boxes", "nobody could find the remote control",
    "I should have stayed in bed", "we laughed more than we worked", "{w} lost the umbrella",
    "the neighbours had a party until {n} past two", "my phone died halfway through",
    "I wanted to call {w} but forgot", "the elevator smelled of oranges",
    "the printer needed {n} attempts for one page", "{w} asked whether we were still at it",
    "I used to know a song about exactly that", "we must have walked {n} blocks",
    "the radio only played the same three tunes", "{w} never answers before ten anyway",
]  # fmt: skip
COMMENTS = [
    "which did not surprise me", "and that was that", "so there you go", "but never mind",
    "and I don't even like it", "which made my day", "and then it was already dark",
    "though it could have been worse", "and everybody just shrugged", "as if it mattered",
    "which says a lot about this week", "and I am still not sure why",
]  # fmt: skip
ASIDES = [
    "Does that make sense to you?", "What would you do in my place?", "Anyway, where were we?",
    "Sorry for the long message, I am typing on the phone.", "I think we are getting somewhere.",
    "It is nice to have someone to think with.", "Let's see how it goes.",
]  # fmt: skip
VIEWS = [
    "The first part", "What you describe", "The rest of it", "The smaller variant",
    "That side of the question", "The comparison you asked for", "Most of the material",
    "The longer version", "What {w} wrote about it", "The overall picture",
]  # fmt: skip
OPINIONS = [
    "looks fine to me", "is mostly a matter of taste", "differs by about {n} percent",
    "will settle down by itself", "depends on how much time there is", "has not changed much",
    "could be shorter without losing anything", "is easier than it sounds",
    "needs another look at some point", "took {n} seconds, which is normal",
    "reads better than I expected", "should be read together with the other half",
]  # fmt: skip
REASONS = [
    "as far as I can tell", "if nothing else comes up", "apart from two warnings to be ignored",
    "and none of it is urgent", "so I would start there", "whichever way one looks at it",
    "although {w} might disagree", "and I would leave it at that", "in my opinion",
]  # fmt: skip
OFFERS = [
    "Shall I go on with the next part?", "Tell me if you would rather have it shorter.",
    "Let me think about it for a moment.", "That makes sense.", "I can see why.",
]  # fmt: skip


@dataclass
class Item:
    """Something that was planted."""

    sort: str
    """"fact", "decision" or "task"."""
    subject: str
    """What it is about, in the words in which one would ask for it."""
    values: list[str]
    """What was said of it, one after the other; the last one holds. For a task, its name."""
    settled: str = ""
    """For a task that was settled: the reference by which its end is known."""

    @property
    def current(self) -> str | None:
        """What a reader should still know; None for what is over."""
        return None if self.settled else self.values[-1]


@dataclass
class Stage:
    """A stretch of the conversation, after which it is compressed."""

    messages: list[Message]
    items: list[Item] = field(default_factory=list)
    """Everything planted up to here, as it stands here."""


class Talk:
    """One conversation, stage by stage."""

    def __init__(self, seed: int, *, exchanges: int = 34, planted: int = 12) -> None:
        """`exchanges` and `planted` statements are per stage."""
        self._rng = random.Random(f"recall {seed}")
        self._exchanges = exchanges
        self._planted = planted
        self._items: list[Item] = []
        self._subjects = self._rng.sample(SUBJECTS, len(SUBJECTS))
        self._errands = self._rng.sample(ERRANDS, len(ERRANDS))
        self._used: set[str] = set()
        self._calls = 0

    def stages(self, count: int) -> Iterator[Stage]:
        """The first `count` stages."""
        for _ in range(count):
            statements = [self._statement() for _ in range(self._planted)]
            places = sorted(self._rng.sample(range(self._exchanges), self._planted))
            said = dict(zip(places, statements, strict=True))
            messages = []
            for number in range(self._exchanges):
                messages += self._exchange(*said.get(number, ("", "", "")))
            items = [Item(i.sort, i.subject, list(i.values), i.settled) for i in self._items]
            yield Stage(messages, items)

    # What is planted

    def _statement(self) -> tuple[str, str, str]:
        """(who says it, what is said, how the other may take it up)."""
        draw = self._rng.random()
        changeable = [i for i in self._items if i.sort == "decision" and len(i.values) < 3]
        open_tasks = [i for i in self._items if i.sort == "task" and not i.settled]
        if draw < 0.16 and changeable:
            return self._change(self._rng.choice(changeable))
        if draw < 0.26 and open_tasks:
            return self._settle(self._rng.choice(open_tasks))
        if draw < 0.46 and self._errands:
            return self._task()
        return self._new("decision" if draw < 0.72 else "fact")

    def _new(self, sort: str) -> tuple[str, str, str]:
        subject = self._subjects.pop() if self._subjects else f"the {self._word()} affair"
        item = Item(sort, subject, [self._value()])
        self._items.append(item)
        told = sort == "fact" and self._rng.random() < 0.35
        forms = DECISIONS if sort == "decision" else TOLD_FACTS if told else FACTS
        said = _fill(self._rng.choice(forms), s=subject, v=item.values[0])
        return "assistant" if told else "user", said, self._echo(item)

    def _change(self, item: Item) -> tuple[str, str, str]:
        old, new = item.values[-1], self._value()
        item.values.append(new)
        form = self._rng.choice(CHANGES)
        return "user", _fill(form, s=item.subject, v=new, old=old), self._echo(item)

    def _task(self) -> tuple[str, str, str]:
        name = self._word().capitalize()
        errand = self._errands.pop().format(x=name)
        self._items.append(Item("task", errand.replace(name, "").replace("  ", " "), [name]))
        self._items[-1].subject = errand
        return "user", _fill(self._rng.choice(TASKS), t=errand), ""

    def _settle(self, item: Item) -> tuple[str, str, str]:
        item.settled = f"{self._word().upper()[:3]}-{self._rng.randrange(1000, 9999)}"
        form = self._rng.choice(SETTLED)
        return "user", _fill(form, t=item.subject, r=item.settled), ""

    def _echo(self, item: Item) -> str:
        if self._rng.random() < 0.75:
            return ""
        return _fill(self._rng.choice(ECHOES), s=item.subject, v=item.values[-1])

    def _value(self) -> str:
        """A value of one of several shapes, never used before."""
        rng, word = self._rng, self._word
        shapes = [
            lambda: str(rng.randrange(1200, 99999)),
            lambda: word(),
            lambda: word().capitalize(),
            lambda: f"{word().capitalize()} {word().capitalize()}",
            lambda: f"{word()}-{rng.randrange(2, 60)}",
            lambda: f"{word()}/{word()}",
            lambda: f"{word()}@{word()}.example",
            lambda: f"{rng.randrange(1, 29)} {rng.choice(['March', 'May', 'October'])} at {word()}",
            lambda: f"{word()} {word()}",
            lambda: f"v{rng.randrange(2, 9)}.{rng.randrange(10, 99)}.{rng.randrange(10)}",
        ]
        while True:
            value = rng.choice(shapes)()
            if value.lower() not in self._used:
                self._used.add(value.lower())
                return value

    def _word(self) -> str:
        """A made-up word of its own."""
        while True:
            word = "".join(self._rng.choice(_SYLLABLES) for _ in range(3))
            if word not in self._used:
                self._used.add(word)
                return word

    # What is around it

    def _exchange(self, speaker: str, said: str, echo: str) -> list[Message]:
        asked = [self._small_talk() for _ in range(self._rng.randint(1, 3))]
        answer = [self._reply() for _ in range(self._rng.randint(1, 3))]
        if speaker == "user":
            asked.insert(self._rng.randrange(len(asked) + 1), said)
        elif speaker == "assistant":
            answer.insert(self._rng.randrange(len(answer) + 1), said)
        if echo:
            answer.insert(0, echo)
        messages = [{"role": "user", "content": " ".join(asked)}]
        if self._rng.random() < 0.3:
            messages += self._tool_call()
        return [*messages, {"role": "assistant", "content": " ".join(answer)}]

    def _small_talk(self) -> str:
        if self._rng.random() < 0.25:
            return self._rng.choice(ASIDES)
        return self._said(OPENERS, EVENTS, COMMENTS, joined="{} {}, {}.")

    def _reply(self) -> str:
        if self._rng.random() < 0.25:
            return self._rng.choice(OFFERS)
        return self._said(VIEWS, OPINIONS, REASONS, joined="{} {}, {}.")

    def _said(self, *pieces: list[str], joined: str) -> str:
        sentence = joined.format(*(self._rng.choice(piece) for piece in pieces))
        return sentence.format(n=self._rng.randrange(2, 90), w=self._rng.choice(_NAMES))

    def _tool_call(self) -> list[Message]:
        rng = self._rng
        self._calls += 1
        call_id = f"call_{self._calls}"
        name, argument = rng.choice([("read_file", "path"), ("terminal", "command")])
        value = f"src/module_{rng.randrange(40)}.py" if argument == "path" else "make check"
        output = "\n".join(
            f"[{rng.randrange(24):02d}:{rng.randrange(60):02d}] {rng.choice(_OUTPUT)}"
            f" {rng.randrange(10**6)} {rng.choice(_OUTPUT)} 0x{rng.getrandbits(32):08x}"
            for _ in range(rng.randint(10, 60))
        )
        arguments = json.dumps({argument: value})
        call = {"id": call_id, "type": "function"}
        return [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{**call, "function": {"name": name, "arguments": arguments}}],
            },
            {"role": "tool", "content": output, "tool_call_id": call_id, "tool_name": name},
        ]


_NAMES = ["Ada", "Boris", "Chidi", "Dolores", "Emre", "Fatima", "Goran", "Hanne", "Ines", "Jiro"]
_OUTPUT = [
    "compiled", "skipped", "warning", "resolved", "linking", "cached", "passed", "opened",
    "closed", "retrying", "fetched", "module", "worker", "segment", "table", "route",
]  # fmt: skip


def _fill(form: str, **words: str) -> str:
    """A form of words with its gaps filled; capital letters begin with a capital."""
    capitals = {name.upper(): text[:1].upper() + text[1:] for name, text in words.items()}
    return form.format(**words, **capitals)
