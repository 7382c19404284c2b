"""What of a conversation stays as it is and what goes into the record.

The parts, in order: the first messages, the record, the newest request of the user, the recent
tail. Whole groups only: a message with tool calls and their results is never parted. Everything
else is the middle. One walk over the messages, each measured once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.model import Message
from hermes_state.history import is_empty, repair_message_sequence, unique_calls

from .merge import merge_records
from .shorten import fit_group, lighten, without_reasoning
from .summary import Summary, behind_record, bridge, is_bridge, is_record, parse
from .tokens import message_tokens

Count = Callable[[list[Message]], int]
Group = list[Message]

SMALLEST_RECORD = 160
"""Tokens below which a record says nothing that its own frame does not cost."""
SMALLEST_REQUEST = 70
"""Tokens that the newest request has in any case: its beginning, and where the whole is."""
LARGEST_RECORD = 6000
BRIDGES = 40
"""Tokens of the words that may be needed so that roles alternate."""
_HEAD_SHARE, _REQUEST_SHARE, _RECORD_SHARE = 0.2, 0.3, 0.4


class Measure:
    """What messages take, by the caller's count.

    `count` may include what every request takes (system prompt, tools): `base` is that part.
    """

    def __init__(self, count: Count) -> None:
        self._count = count
        self.base = count([])

    def total(self, messages: Sequence[Message]) -> int:
        """What a request with these messages takes."""
        return self._count(list(messages))

    def sizes(self, messages: Sequence[Message]) -> list[int]:
        """What each message adds."""
        return [self._count([message]) - self.base for message in messages]


@dataclass(slots=True)
class Plan:
    """A conversation divided up."""

    head: list[Message] = field(default_factory=list)
    middle: list[Message] = field(default_factory=list)
    """What the record will stand for: as it was said, oldest first."""
    request: list[Message] = field(default_factory=list)
    """The user's newest message, where the tail does not reach back to it."""
    tail: list[Message] = field(default_factory=list)
    previous: Summary | None = None
    """The record that an earlier compression left."""
    record_tokens: int = 0
    """How large the record may become; 0 if there is no room for one."""

    def assemble(self, record: Summary | None) -> list[Message]:
        """The new conversation, with roles that alternate."""
        shown = [] if record is None else [record.message()]
        return alternating([*self.head, *shown, *self.request, *self.tail])


def alternating(messages: Sequence[Message]) -> list[Message]:
    """The messages with a bridge wherever two of one role meet, or the assistant would begin."""
    result: list[Message] = []
    for message in messages:
        role = message["role"]
        before = result[-1]["role"] if result else "assistant"
        if role == before and role != "tool":
            result.append(bridge("user" if role == "assistant" else "assistant"))
        result.append(message)
    return result


def valid(messages: Sequence[Message]) -> list[Message]:
    """A valid history with everything that is in `messages`; a record stays a message of its own.

    Made one with a neighbour, it could not be told any more who said what.
    """
    apart: list[Message] = []
    for message in messages:
        before = apart[-1] if apart else {}
        if (is_record(message) or is_record(before)) and before.get("role") == message.get("role"):
            apart.append(bridge("assistant"))
        apart.append(message)
    return repair_message_sequence(apart)


def said(messages: Sequence[Message]) -> tuple[list[Message], Summary | None]:
    """What was really said, made valid, and the record of what was said before.

    What compression itself had put in is taken out again.
    """
    records = []
    spoken: list[Message] = []
    removed = False
    for message in messages:
        if message.get("role") not in ("user", "assistant", "tool"):
            continue  # not part of the talk
        rest: Message | None = message
        if is_record(message):
            records.append(parse(message))
            rest = behind_record(message)
        if rest is None or is_bridge(rest) or _says_nothing(rest):
            removed = removed or rest is not message or is_bridge(message)
            continue
        before = spoken[-1]["role"] if spoken else "assistant"
        if removed and rest["role"] == before != "tool":
            # Held apart while the rest is repaired, or the two would become one.
            spoken.append(bridge("user" if rest["role"] == "assistant" else "assistant"))
        spoken.append(rest)
        removed = False
    repaired = repair_message_sequence(spoken)
    kept = [message for message in repaired if not is_bridge(message)]
    return kept, merge_records(records) if records else None


def _says_nothing(message: Message) -> bool:
    return (
        message["role"] == "assistant"
        and is_empty(message.get("content"))
        and not unique_calls(message.get("tool_calls"))
    )


def in_groups(messages: Sequence[Message]) -> list[Group]:
    """Messages with the results of their tool calls."""
    groups: list[Group] = []
    for message in messages:
        if message["role"] == "tool" and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def divide(
    messages: Sequence[Message], *, target_tokens: int, measure: Measure, keep_first: int
) -> Plan:
    """Divide a conversation so that all parts together stay within `target_tokens`."""
    spoken, previous = said(messages)
    groups = in_groups(spoken)
    room = max(0, target_tokens - measure.base)
    plan = Plan(previous=previous)
    if not groups:
        return plan
    sizes = iter(measure.sizes(spoken))
    costs = [sum(next(sizes) for _ in group) for group in groups]
    # The caller's count against ours: what is cut is cut by our count.
    scale = max(1.0, sum(costs) / max(1, sum(map(message_tokens, spoken))))
    newest = max((i for i, group in enumerate(groups) if group[0]["role"] == "user"), default=-1)

    until = newest if newest >= 0 else len(groups) - 1
    head_until, head_cost = _head(groups, costs, until, keep_first, int(room * _HEAD_SHARE), plan)
    request: Group = []
    request_cost = 0
    if newest >= 0:
        others = sum(costs) - costs[newest]
        share = max(room * _REQUEST_SHARE, room - others - BRIDGES, min(room, SMALLEST_REQUEST))
        request, request_cost = _fitted(groups[newest], costs[newest], share, scale)
    plan.record_tokens = min(LARGEST_RECORD, int(room * _RECORD_SHARE))
    if plan.record_tokens < SMALLEST_RECORD:
        plan.record_tokens = 0
    left = room - head_cost - request_cost - plan.record_tokens - BRIDGES
    start, tail = _tail(groups, costs, newest, request, head_until, left, scale)
    plan.tail = [message for group in tail for message in group]
    plan.middle = [message for group in groups[head_until:start] for message in group]
    if start > newest >= head_until:
        plan.request = request
        plan.middle = [message for message in plan.middle if message is not groups[newest][0]]
    return plan


def _head(
    groups: list[Group], costs: list[int], until: int, keep_first: int, room: int, plan: Plan
) -> tuple[int, int]:
    """Fill in the first messages, before group `until`; returns the group after them and what
    they take."""
    index = cost = 0
    # Rather with the answer to the last of them than without.
    while index < until and (
        len(plan.head) < keep_first or (plan.head and plan.head[-1]["role"] == "user")
    ):
        group = [without_reasoning(message) for message in groups[index]]
        size = costs[index]
        if cost + size > room:
            group = [lighten(message) for message in group]
            size = sum(map(message_tokens, group))
        if cost + size > room:
            break
        plan.head += group
        cost += size
        index += 1
    return index, cost


def _fitted(group: Group, cost: int, room: float, scale: float) -> tuple[Group, int]:
    if cost <= room:
        return group, cost
    fitted = fit_group(group, int(room / scale))
    return fitted, int(sum(map(message_tokens, fitted)) * scale) + 1


def _tail(
    groups: list[Group],
    costs: list[int],
    newest: int,
    request: Group,
    oldest: int,
    room: int,
    scale: float,
) -> tuple[int, list[Group]]:
    """The newest groups that fit, and where they begin. The request is paid for already."""
    limit = room // 2
    tail: list[Group] = []
    spent: list[int] = []
    left = room
    start = len(groups)
    for index in range(len(groups) - 1, oldest - 1, -1):
        if index == newest:
            group, cost = request, 0
        else:
            bound = room if index == len(groups) - 1 else limit
            group, cost = _fitted(groups[index], costs[index], bound, scale)
        if cost > left:
            break
        tail.append(group)
        spent.append(cost)
        left -= cost
        start = index
    tail.reverse()
    spent.reverse()
    # Rather begin with a request than in the middle of an answer, if that loses little.
    first = next((i for i, group in enumerate(tail) if group[0]["role"] == "user"), 0)
    if first and start > oldest and sum(spent[first:]) * 3 >= sum(spent) * 2:
        return start + first, tail[first:]
    return start, tail
