"""Persons, doors, merges, codes and links in any order, and an oracle that knows who may see what.

Whatever is done: what somebody is shown (lists, search, titles, what is asked for by its id,
approvals, what they allowed for good, devices) is exactly what the oracle says is theirs, a door
leads to whom it says, and who is let into a conversation sees that one and nothing else of its
owner's. What people try with what is another's changes nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes_state import (
    EVERYONE,
    LOCAL_DOOR,
    NOBODY,
    OPERATOR,
    NewDevice,
    NoLink,
    PersonError,
    SessionDB,
    UnknownSessionError,
)

from .. import seeds
from .memory import MEMORY

pytestmark = pytest.mark.sqlite  # the store's own tests show that both databases do the same

DOORS = [LOCAL_DOOR, *(f"{kind}:{n}" for kind in ("telegram", "slack", "api_server") for n in "12")]
TITLES = ("Plan", "Trip", "Plan #2")
number = st.integers(0, 10**6)


@dataclass
class Merged:
    """What the oracle remembers of a merge."""

    id: str
    into: str
    who: str
    doors: set[str]
    conversations: set[str]
    grants: set[str]
    jobs: set[str]
    devices: set[str]
    """Those that there were."""
    undone: bool = False


@dataclass
class Oracle:
    """Who there is and what is whose, in the plainest words."""

    doors: dict[str, str] = field(default_factory=lambda: {LOCAL_DOOR: OPERATOR})
    persons: set[str] = field(default_factory=lambda: {OPERATOR})
    owner: dict[str, str] = field(default_factory=dict)
    """By conversation."""
    tips: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    """Each session's conversation."""
    word: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    """By session; as the store has it, since merges number them."""
    pending: dict[str, str] = field(default_factory=dict)
    """By approval: its conversation."""
    grants: dict[str, set[str]] = field(default_factory=dict)
    merges: list[Merged] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    """The keys of web devices that were not revoked, by their door."""
    jobs: dict[str, str] = field(default_factory=dict)
    """By job: whose it is."""

    def jobs_of(self, person: str) -> set[str]:
        return {job for job, owner in self.jobs.items() if owner == person}

    def of(self, person: str) -> set[str]:
        return {name for name, owner in self.owner.items() if owner == person}


class Persons(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=MEMORY)
        self.path = Path(self.folder.name) / "state.db"
        self.db = SessionDB(self.path)
        self.count = itertools.count(1)
        self.known = Oracle()
        self.codes: list[tuple[str, str]] = []
        """Codes that were given, and by whom; by nobody if they are void since."""

    def void_codes(self, *people: str) -> None:
        self.codes = [(code, "" if giver in people else giver) for code, giver in self.codes]

    def teardown(self) -> None:
        try:
            for person in (*self.everybody(), NOBODY):
                self.check(person)
        finally:
            self.db.close()
            self.folder.cleanup()

    def everybody(self) -> list[str]:
        """Everybody there is or was."""
        return sorted({*self.known.persons, *DOORS[1:], *(one.who for one in self.known.merges)})

    def pick(self, among: Any, which: int) -> Any:
        # What was added to a dictionary comes in its order: the ids of devices are drawn anew in
        # every run, so their order would be another each time that an example is repeated.
        listed = list(among) if isinstance(among, dict) else sorted(among)
        return listed[which % len(listed)]

    def arrive(self, door: str) -> str:
        """Whoever comes by a door, as a front end finds out."""
        person = self.db.find_person(door) or self.db.ensure_person(door)
        known = self.known
        if door not in known.doors:
            known.doors[door] = person.id
            known.persons.add(person.id)
        assert person.id == known.doors[door]
        return person.id

    def new_word(self, name: str) -> str:
        """A word that is in no other."""
        return f"zq{int(name[1:]):04}qz"

    # What people do

    @rule(door=st.sampled_from(DOORS))
    def begin(self, door: str) -> None:
        person, name = self.arrive(door), f"s{next(self.count):05}"
        word = self.new_word(name)
        self.db.create_session(name, door.partition(":")[0], user_id=person)
        self.db.append_message(name, "user", f"about {word}")
        known = self.known
        known.owner[name], known.tips[name], known.sessions[name] = person, name, name
        known.word[name] = word

    @precondition(lambda self: self.known.owner)
    @rule(which=number)
    def rotate(self, which: int) -> None:
        name = self.pick(self.known.owner, which)
        old, new = self.known.tips[name], f"s{next(self.count):05}"
        self.db.rotate_session(old, new, [{"role": "user", "content": "a summary"}])
        self.known.tips[name], self.known.sessions[new] = new, name
        self.read_titles()

    @precondition(lambda self: self.known.owner)
    @rule(which=number)
    def branch(self, which: int) -> None:
        name, new = self.pick(self.known.owner, which), f"s{next(self.count):05}"
        self.db.branch_session(self.known.tips[name], new)
        self.db.append_message(new, "user", f"about {self.new_word(new)}")
        known = self.known
        known.owner[new], known.tips[new], known.sessions[new] = known.owner[name], new, new
        known.word[new] = self.new_word(new)
        self.read_titles()

    @precondition(lambda self: self.known.owner)
    @rule(which=number, title=st.sampled_from(TITLES))
    def name_it(self, which: int, title: str) -> None:
        name = self.pick(self.known.owner, which)
        tip, owner = self.known.tips[name], self.known.owner[name]
        taken = {
            known
            for session, known in self.known.titles.items()
            if self.known.owner[self.known.sessions[session]] == owner and session != tip
        }
        try:
            self.db.set_session_title(tip, title)
            assert title not in taken
            self.known.titles[tip] = title
        except ValueError:
            assert title in taken, "nobody hears of another's titles"

    @precondition(lambda self: self.known.owner)
    @rule(which=number)
    def ask_leave(self, which: int) -> None:
        name = self.pick(self.known.owner, which)
        asked = self.db.create_approval(
            session_id=self.known.tips[name], command="rm", description="", pattern_keys=["rm"],
            ttl_seconds=9e6, user_id=self.known.owner[name],
        )  # fmt: skip
        self.known.pending[asked.id] = name

    @rule(door=st.sampled_from(DOORS), pattern=st.sampled_from("abc"))
    def allow_always(self, door: str, pattern: str) -> None:
        person = self.arrive(door)
        self.db.grant_patterns([pattern], person)
        self.known.grants.setdefault(person, set()).add(pattern)

    @rule(door=st.sampled_from(DOORS))
    def add_job(self, door: str) -> None:
        person, name = self.arrive(door), f"j{next(self.count)}"
        self.db.add_job(
            name, user_id=person, name=name, schedule="daily 09:00", timezone="UTC", settings={},
            next_due=2**40, next_at=2.0**40,
        )  # fmt: skip
        self.known.jobs[name] = person

    @rule(door=st.sampled_from(DOORS))
    def add_device(self, door: str) -> None:
        person = self.arrive(door)
        code = self.db.offer_device_code(person)
        if code is None:
            return  # too many were asked for
        new = self.db.make_device(code, "phone", "here")
        assert isinstance(new, NewDevice) and new.device.person.id == person
        self.known.doors[new.device.door] = person
        self.known.keys[new.device.door] = new.key
        assert self.db.make_device(code, "phone", "here") is NoLink.WRONG

    @precondition(lambda self: self.known.keys)
    @rule(which=number, who=number)
    def revoke_device(self, which: int, who: int) -> None:
        door, person = self.pick(self.known.keys, which), self.pick(self.known.persons, who)
        is_theirs = self.known.doors[door] == person
        assert self.db.view(person).drop_device(door.removeprefix("web:")) == is_theirs
        if is_theirs:
            del self.known.doors[door], self.known.keys[door]

    @precondition(lambda self: self.known.owner)
    @rule(which=number, who=number)
    def try_what_is_anothers(self, which: int, who: int) -> None:
        """Whatever somebody does with the id of another's session, it is as if there were none."""
        name, person = self.pick(self.known.owner, which), self.pick(self.known.persons, who)
        if self.known.owner[name] == person:
            return
        view, tip = self.db.view(person), self.known.tips[name]
        (message, *_) = self.db.get_messages(tip)
        before = self.db.export_session_lineage(tip)
        assert view.messages(tip) == view.conversation(tip) == view.lineage(tip) == []
        assert view.to_resume(tip) == ([], []) and view.asked(tip) == view.delegations(tip) == []
        assert view.tip(name) == view.root(name) == view.tip_to_resume(name) == name
        assert view.resolve_id(tip) is view.title(tip) is view.handoff(tip) is None
        assert view.session_of_message(message["id"]) is None
        assert not view.around_message(tip, message["id"])["window"]
        assert not view.set_title(tip, "Mine") and not view.archive(tip, True)
        assert not view.delete(tip) and not view.hand_over(tip, "telegram")
        view.choose_mode(tip, "full")
        view.move_to_folder(tip, "/", None)
        view.give_up_handoff(tip, "x")
        with pytest.raises(UnknownSessionError):
            view.branch(tip, "stolen")
        with pytest.raises(ValueError, match="has no message"):
            view.rewind(tip, message["id"])
        for approval, asked_in in self.known.pending.items():
            if self.known.owner[asked_in] != person:
                assert view.approval(approval) is None
                assert not view.answer_asked(approval, tip, "once", person)
        for holder, patterns in self.known.grants.items():
            for pattern in patterns if holder != person else ():
                granted_by = "" if holder == OPERATOR else holder
                assert not view.revoke({"pattern_key": pattern, "granted_by": granted_by})
        assert self.db.export_session_lineage(tip) == before
        assert self.db.get_wall_settings(tip) == self.db.get_wall_settings("nothing")

    @precondition(lambda self: self.known.owner)
    @rule(which=number, who=number)
    def be_let_in(self, which: int, who: int) -> None:
        """As a chat that was linked with a code: that conversation, and nothing else of whose."""
        known = self.known
        name, person = self.pick(known.owner, which), self.pick(known.persons, who)
        view, mine = self.db.view(person, known.tips[name]), known.of(person)
        for session, conversation in known.sessions.items():
            is_shown = conversation == name or conversation in mine
            assert (view.session(session) is not None) == is_shown
            assert bool(view.messages(session, include_inactive=True)) == is_shown
        assert {row["conversation_id"] for row in view.list_sessions(limit=-1)} == mine

    # Two who are one, or not

    @rule(giver=st.sampled_from(DOORS))
    def give_code(self, giver: str) -> None:
        person = self.arrive(giver)
        code = self.db.offer_person_code(person)
        if code is not None:
            self.codes.append((code, person))

    @precondition(lambda self: self.codes)
    @rule(taker=st.sampled_from(DOORS), which=number)
    def take_code(self, taker: str, which: int) -> None:
        code, giver = self.codes.pop(which % len(self.codes))
        person = self.arrive(taker)
        outcome = self.db.join_by_code(code, person)
        if outcome is NoLink.TOO_MANY_TRIES:
            pass  # wrong ones are counted
        elif not giver:
            assert outcome is NoLink.WRONG
        elif outcome is None:
            assert giver == person
        else:
            assert not isinstance(outcome, NoLink)
            into, gone = (person, giver) if person == OPERATOR else (giver, person)
            assert outcome.person.id == into
            self.merged(outcome.id, gone, into)
        assert self.db.join_by_code(code, OPERATOR) in (NoLink.WRONG, NoLink.TOO_MANY_TRIES)

    @rule(first=number, second=number)
    def merge(self, first: int, second: int) -> None:
        gone, into = self.pick(self.known.persons, first), self.pick(self.known.persons, second)
        try:
            merge = self.db.merge_persons(gone, into)
        except PersonError:
            assert gone in (into, OPERATOR)
        else:
            self.merged(merge.id, gone, into)

    def merged(self, merge_id: str, gone: str, into: str) -> None:
        known = self.known
        doors = {door for door, person in known.doors.items() if person == gone}
        mine, theirs = known.grants.get(into, set()), known.grants.pop(gone, set())
        jobs = known.jobs_of(gone)
        known.merges.append(
            Merged(
                merge_id, into, gone, doors, known.of(gone), theirs - mine, jobs, set(known.keys)
            )
        )
        known.jobs |= dict.fromkeys(jobs, into)
        for door in doors:
            known.doors[door] = into
        for name in known.of(gone):
            known.owner[name] = into
        known.grants[into] = mine | theirs
        known.persons.discard(gone)
        self.void_codes(gone)
        self.read_titles()

    @precondition(lambda self: self.known.merges)
    @rule(which=number)
    def unmerge(self, which: int) -> None:
        known = self.known
        merge = known.merges[which % len(known.merges)]
        try:
            self.db.unmerge_persons(merge.id)
        except PersonError:
            assert merge.undone or merge.into not in known.persons or merge.who in known.persons
            return
        assert not merge.undone and merge.into in known.persons
        merge.undone = True
        known.persons.add(merge.who)
        for door in merge.doors:
            if known.doors.get(door) == merge.into:
                known.doors[door] = merge.who
        for name in merge.conversations:
            if known.owner[name] == merge.into:
                known.owner[name] = merge.who
        for door in known.keys.keys() - merge.devices:
            if known.doors[door] == merge.into:  # who has made it nobody knows
                del known.keys[door], known.doors[door]
        for job in merge.jobs & known.jobs_of(merge.into):
            known.jobs[job] = merge.who
        back = merge.grants & known.grants.get(merge.into, set())
        known.grants.setdefault(merge.into, set()).difference_update(back)
        known.grants[merge.who] = back
        self.void_codes(merge.who, merge.into)
        self.read_titles()

    @rule(door=st.sampled_from(DOORS[1:]), which=number)
    def join_door(self, door: str, which: int) -> None:
        """As `hermes pairing approve --as` does."""
        person = self.pick(self.known.persons, which)
        before = self.known.doors.get(door)
        if before == OPERATOR != person:
            return
        is_new = before is None and self.db.get_person(door) is None
        if before is None and not is_new:
            before = self.arrive(door)
        merge = self.db.join_door(door, person)
        if merge is None:
            self.known.doors[door] = person
        else:
            assert before is not None
            self.merged(merge.id, before, person)

    @rule(which=number)
    def remove(self, which: int) -> None:
        known, person = self.known, self.pick(self.known.persons, which)
        try:
            self.db.remove_person(person)
        except PersonError:
            assert person == OPERATOR
            return
        known.persons.discard(person)
        self.void_codes(person)
        known.doors = {door: owner for door, owner in known.doors.items() if owner != person}
        known.keys = {door: key for door, key in known.keys.items() if door in known.doors}
        for merge in known.merges:
            merge.undone = merge.undone or merge.into == person

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = SessionDB(self.path)

    @rule()
    def adopt(self) -> None:
        """Nothing moves; whoever owns something is known again."""
        self.db.adopt_owners()
        known = self.known
        for person in self.db.list_persons():
            known.persons.add(person["id"])
            for door in person["doors"]:
                assert known.doors.setdefault(door, person["id"]) == person["id"]

    # Who sees what

    def read_titles(self) -> None:
        """Titles as they are now: a merge or a rotation numbers them."""
        for session in self.known.sessions:
            title = self.db.get_session_title(session)
            if title is None:
                self.known.titles.pop(session, None)
            else:
                self.known.titles[session] = title

    @rule(which=number)
    def look(self, which: int) -> None:
        self.check(self.pick([*self.everybody(), NOBODY], which))

    def check(self, person: str) -> None:
        known, view = self.known, self.db.view(person)
        mine = known.of(person)
        listed = view.list_sessions(limit=-1)
        assert {row["conversation_id"] for row in listed} == mine
        assert {row["id"] for row in listed} == {known.tips[name] for name in mine}
        for name, word in known.word.items():
            hits = {hit["conversation_id"] for hit in view.search(word, limit=50)}
            assert hits == ({name} & mine), (person, name)
        for session, name in known.sessions.items():
            assert (view.session(session) is not None) == (name in mine)
            assert bool(view.messages(session, include_inactive=True)) == (name in mine)
            assert (view.export(session) is not None) == (name in mine)
        for title in {*known.titles.values(), *TITLES}:
            holders = {
                session
                for session, held in known.titles.items()
                if held == title and known.sessions[session] in mine
            }
            found = view.find_title(title)
            assert ({found["id"]} if found else set()) == holders, "one at most, and their own"
            resolved = view.resolve_title(title)
            assert resolved is None or known.sessions[resolved] in mine
        pending = {approval["id"] for approval in view.pending_approvals()}
        assert pending == {one for one, name in known.pending.items() if name in mine}
        assert {grant["pattern_key"] for grant in view.grants()} == known.grants.get(person, set())
        assert {job["id"] for job in self.db.list_jobs(person)} == known.jobs_of(person)
        devices = {device.door for device in view.devices()}
        assert devices == {door for door in known.keys if known.doors[door] == person}
        used = view.usage(0)["conversations"]
        assert used == len(mine)

    @invariant()
    def doors_lead_where_they_should(self) -> None:
        for door, key in self.known.keys.items():
            device = self.db.find_device(key)
            assert device is not None and device.person.id == self.known.doors[door]
        for door in DOORS:
            person = self.db.find_person(door)
            assert (person.id if person else None) == self.known.doors.get(door)
        everything = {
            row["conversation_id"] for row in self.db.view(EVERYONE).list_sessions(limit=-1)
        }
        assert everything == set(self.known.owner)


TestPersons = Persons.TestCase
TestPersons.settings = settings(
    max_examples=seeds.times(10, 250),  # 10,000 steps in a search
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
