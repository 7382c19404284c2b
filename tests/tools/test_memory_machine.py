"""Persons, groups, reviews and merges in any order, with an oracle of who may see which fact.

Every fact is a word that is learnt once. Whatever is done: what a conversation reads, what the
commands show, which files the file tools open and what a stored prompt may tell is exactly what the
oracle says may be read there; and no fact is lost but one that was forgotten.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent import memory_actions
from agent.system_prompt import build_system_prompt
from hermes_state import OPERATOR, SessionDB
from tools.base import ToolContext, ToolError, Workspace
from tools.memory import memory as memory_tool
from tools.memory import memory_path
from tools.memory_scope import SHARED, MemoryScope, Space, may_be_told, written_down
from tools.own_folders import Belongings

from .. import seeds
from ..state.memory import MEMORY

pytestmark = pytest.mark.sqlite  # the store's own tests show that both databases do the same

PEOPLE = [OPERATOR, "t:ada", "t:bob", "t:cy"]
GROUPS = ["t:-1", "t:-2"]
number = st.integers(0, 10**6)


class Agrees:
    """Says yes to whatever is asked."""

    def approve(self, request: object) -> str:
        return "once"

    def clarify(self, question: str, choices: list[str]) -> str:
        return ""


class Memories(RuleBasedStateMachine):
    """The store, the files and the oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="hermes-memories-", dir=MEMORY)
        self.home = Path(self.folder.name)
        self.db = SessionDB(self.home / "state.db")
        self.names = itertools.count()
        for person in PEOPLE[1:]:
            self.db.ensure_person(person)
        # The oracle
        self.there = set(PEOPLE)
        self.has = {person: [person] for person in PEOPLE}
        """The spaces of each person who is there."""
        self.facts: dict[str, Space] = {}
        """What is remembered, and in which space."""
        self.was: dict[str, set[Space]] = {}
        """Where each fact ever was."""
        self.shown: dict[tuple[str, str], bool] = {}
        """By space and group."""
        self.merges: list[tuple[str, str, str, list[str]]] = []
        self.conversations: dict[str, str] = {}
        """By session: whose it is."""

    def teardown(self) -> None:
        self.db.close()
        self.folder.cleanup()

    # What is said

    def context(
        self,
        who: str | None,
        session_id: str = "",
        group: str | None = None,
        *,
        local: bool = False,
    ) -> ToolContext:
        scope = MemoryScope(who, group, is_operator=who == OPERATOR, is_local=local)
        return ToolContext(
            session_id, "c", workspace=Workspace(self.home, self.home), db=self.db,
            user_id=who, asker=Agrees(), memory=scope,
        )  # fmt: skip

    def learn(self, context: ToolContext, space: Space | None, *, shared: bool = False) -> None:
        """Have a fact noted; `space` is where it must go, None if it must be refused."""
        fact = f"fact{next(self.names):04}."
        try:
            memory_tool.run(context, "memory", action="add", content=fact, shared=shared)
        except ToolError as error:
            is_full = "at most" in str(error)
            assert space is None or is_full, error
            return
        assert space is not None, (fact, context.memory)
        self.facts[fact] = space
        self.was[fact] = {space}

    def person(self, drawn: int) -> str:
        return sorted(self.there)[drawn % len(self.there)]

    @rule(who=number, review=st.booleans())
    def learns_in_a_direct_chat(self, who: int, review: bool) -> None:
        person = self.person(who)
        context = self.context(person)
        context.written_by = "review" if review else "agent"
        self.learn(context, Space("person", self.has[person][0]))

    @rule(who=number, group=st.sampled_from(GROUPS), review=st.booleans())
    def learns_in_a_group(self, who: int, group: str, review: bool) -> None:
        context = self.context(self.person(who), group=group)
        context.written_by = "review" if review else "agent"
        self.learn(context, Space("chat", group))

    @rule(who=number, review=st.booleans())
    def wants_to_share(self, who: int, review: bool) -> None:
        person = self.person(who)
        context = self.context(person)
        context.written_by = "review" if review else "agent"
        may = person == OPERATOR and not review
        self.learn(context, SHARED if may else None, shared=True)

    @rule(who=number, group=st.sampled_from(GROUPS))
    def wants_to_share_in_a_group(self, who: int, group: str) -> None:
        self.learn(self.context(self.person(who), group=group), None, shared=True)

    @rule()
    def nobody_says_something(self) -> None:
        self.learn(self.context(None), None)

    @rule(who=number)
    def begins_a_conversation(self, who: int) -> None:
        person = self.person(who)
        session_id = f"s{next(self.names)}"
        self.db.create_session(session_id, "t", user_id=person)
        self.conversations[session_id] = person
        spaces = self.context(person).memory.spaces(self.db, session_id)
        prompt = build_system_prompt(self.home, None, "t", "m", spaces=spaces.read)
        self.db.update_system_prompt(session_id, prompt, written_down(spaces.read))

    @precondition(lambda self: self.conversations)
    @rule(which=number, who=number, local=st.booleans())
    def speaks_in_a_conversation(self, which: int, who: int, local: bool) -> None:
        session_id = sorted(self.conversations)[which % len(self.conversations)]
        owner = self.conversations[session_id]
        person = OPERATOR if local else self.person(who)
        may = owner in self.there and (local or person == owner)
        if owner not in self.there:
            return  # their rows stay, and who comes back finds them: not this test's matter
        space = Space("person", self.has[owner][0]) if may else None
        self.learn(self.context(person, session_id, local=local), space)

    @precondition(lambda self: self.conversations)
    @rule(which=number, group=st.sampled_from(GROUPS))
    def brings_a_conversation_to_a_group(self, which: int, group: str) -> None:
        session_id = sorted(self.conversations)[which % len(self.conversations)]
        owner = self.conversations[session_id]
        if owner in self.there:
            self.learn(self.context(owner, session_id, group), None)

    # What is decided

    @rule(who=number, group=st.sampled_from(GROUPS), on=st.booleans())
    def says_whether_it_may_be_read(self, who: int, group: str, on: bool) -> None:
        person = self.person(who)
        self.db.show_memory(person, group, on)
        for space in self.has[person]:
            self.shown[space, group] = on

    @rule(who=number, into=number)
    def merges_two(self, who: int, into: int) -> None:
        merged, person = self.person(who), self.person(into)
        if merged in (person, OPERATOR):
            return
        merge = self.db.merge_persons(merged, person)
        self.merges.append((merge.id, merged, person, list(self.has[merged])))
        self.has[person] += self.has.pop(merged)
        self.there.discard(merged)
        for session_id, owner in self.conversations.items():
            if owner == merged:
                self.conversations[session_id] = person

    @precondition(lambda self: self.merges)
    @rule(which=number)
    def parts_two(self, which: int) -> None:
        merge = self.merges[which % len(self.merges)]
        merge_id, merged, person, spaces = merge
        if person not in self.there:
            return  # whom they were merged into was merged since
        self.merges.remove(merge)
        self.db.unmerge_persons(merge_id)
        self.there.add(merged)
        self.has[merged] = [space for space in spaces if space in self.has[person]]
        self.has[person] = [space for space in self.has[person] if space not in spaces]
        for session_id in self.conversations:
            row = self.db.get_session(session_id)
            assert row is not None
            self.conversations[session_id] = row["user_id"] or OPERATOR

    @precondition(lambda self: self.facts)
    @rule(which=number, undone=st.booleans())
    def forgets(self, which: int, undone: bool) -> None:
        fact = sorted(self.facts)[which % len(self.facts)]
        space = self.facts[fact]
        if space.kind != "person":
            return
        owner = next((p for p, spaces in self.has.items() if space.name in spaces), None)
        if owner is None:
            return
        scope = self.context(owner).memory
        desk = memory_actions.desk_for(self.home, self.db, scope, "")
        memory_actions.forget(desk, fact)
        if undone:
            memory_actions.undo(desk)
        else:
            del self.facts[fact]

    # What holds

    def may_read(self, person: str | None, group: str | None) -> set[Space]:
        if group is not None:
            return {SHARED, Space("chat", group)}
        own = self.has[person] if person is not None else []
        return {SHARED, *(Space("person", name) for name in own)}

    @invariant()
    def everybody_reads_what_is_theirs_and_nothing_else(self) -> None:
        for person, group in itertools.product(sorted(self.there), [None, *GROUPS]):
            context = self.context(person, group=group)
            allowed = self.may_read(person, group)
            desk = memory_actions.desk_for(self.home, self.db, context.memory, "")
            read = {entry.text for entry in memory_actions.list_entries(desk)}
            assert read == {fact for fact, space in self.facts.items() if space in allowed}
            spaces = context.memory.spaces(self.db, "")
            shown = {s for s in self.has[person] if group and self.shown.get((s, group))}
            assert {space.name for space in spaces.shown} == shown
            belongings = Belongings(context)
            everywhere = {*self.facts.values(), SHARED}
            for space in everywhere:
                path = memory_path(space.folder(self.home), "memory").resolve()
                may = space in allowed or (space.kind == "person" and space.name in shown)
                assert belongings.is_anothers(path) != may, (person, group, space)

    @invariant()
    def no_prompt_tells_what_may_not_be_read(self) -> None:
        for session_id, person in itertools.product(self.conversations, sorted(self.there)):
            row = self.db.get_session(session_id)
            assert row is not None
            if not row["system_prompt"]:
                continue
            for group in (None, GROUPS[0]):
                spaces = self.context(person, session_id, group).memory.spaces(self.db, session_id)
                if not may_be_told(row["memory_of"], row["system_prompt"], spaces):
                    continue
                allowed = self.may_read(person, group)
                told = [fact for fact in self.was if fact in row["system_prompt"]]
                assert all(self.was[fact] & allowed for fact in told), (session_id, person, told)
                assert group is not None or self.conversations[session_id] == person or all(
                    self.was[fact] <= {SHARED} for fact in told
                )  # fmt: skip


TestMemories = Memories.TestCase
TestMemories.settings = settings(
    max_examples=seeds.examples(6),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
