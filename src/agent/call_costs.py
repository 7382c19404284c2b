"""What a model call took and cost, as the store counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hermes_state import SUB_AGENT, ModelCall

from .model import Model, Usage

if TYPE_CHECKING:
    from .limits import Reservation
    from .reply import Reply

CallOutcome = Literal["complete", "interrupted", "error"]

TURN_TASK = "turn"
DELEGATION_TASK = "delegation"


class SpendsFor(NamedTuple):
    """Whose the calls of an agent are, beyond what its session says."""

    session_key: str | None
    """The chat, if it is in one."""
    source: str | None = None
    """Where it is, for an agent that works for another."""
    job: str | None = None
    """The scheduled job that it works for."""


@dataclass(frozen=True, slots=True)
class EndedCall:
    """One call of a model that has come to an end."""

    task: str
    """What it was for: turn, delegation, or the name of a side task."""
    model: Model
    usage: Usage
    first_token_seconds: float | None = None
    """Until the model said or thought anything; None if it did not."""
    seconds: float | None = None
    outcome: CallOutcome = "complete"
    reservation: Reservation | None = None
    """If it was reserved."""

    def cost_usd(self) -> float | None:
        """Dollars; None if the model's price is not known."""
        from .catalog import cost_usd

        return cost_usd(self.usage, self.model.name)

    def side_usage(self) -> dict[str, Any]:
        """As it is counted per model and task."""
        return {
            **self.usage.as_dict(),
            "model": self.model.name,
            "billing_provider": self.model.provider,
            "billing_base_url": self.model.base_url,
            "estimated_cost_usd": self.cost_usd(),
        }

    def step_usage(self) -> dict[str, Any]:
        """As it is counted with the step of a turn that it belongs to."""
        usage = self.side_usage()
        known = usage["estimated_cost_usd"] is not None
        return {**usage, "cost_status": "estimated" if known else "unknown", "api_call_count": 1}

    def row(self, spends_for: SpendsFor | None = None) -> ModelCall:
        """As a row of its own."""
        usage, reservation = self.usage, self.reservation
        assumed = None
        if reservation is not None:
            assumed = reservation.table.assumed_cost(usage, self.model.name, self.model.provider)
        return ModelCall(
            task=self.task,
            model=self.model.name,
            provider=self.model.provider,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost_usd=self.cost_usd(),
            assumed_cost_usd=assumed,
            first_token_seconds=self.first_token_seconds,
            seconds=self.seconds,
            outcome=self.outcome,
            session_key=spends_for.session_key if spends_for else None,
            source=spends_for.source if spends_for else None,
            job=spends_for.job if spends_for else None,
            id=reservation.id if reservation else None,
        )


def ended_call(
    task: str,
    model: Model,
    reply: Reply,
    outcome: CallOutcome = "complete",
    reservation: Reservation | None = None,
) -> EndedCall:
    """The call that brought a reply, or what there is of one."""
    usage = reply.usage
    if reservation is not None and outcome != "complete" and usage == Usage():
        usage = reservation.used_until(reply, outcome)
    return EndedCall(
        task,
        model,
        usage,
        reply.first_token_seconds,
        reply.seconds,
        outcome=outcome,
        reservation=reservation,
    )


def turn_task(source: str) -> str:
    """What the calls of a turn are for, by where its conversation comes from."""
    return DELEGATION_TASK if source == SUB_AGENT else TURN_TASK
