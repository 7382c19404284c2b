"""What a model call took and cost, as the store counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hermes_state import SUB_AGENT, ModelCall

from .model import Model, Usage

if TYPE_CHECKING:
    from .reply import Reply

TURN_TASK = "turn"
DELEGATION_TASK = "delegation"


class SpendsFor(NamedTuple):
    """Whose calls those of a sub-agent are."""

    source: str
    session_key: str | None
    """The chat, if its agent is in one."""


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
    outcome: Literal["complete", "interrupted", "error"] = "complete"

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
        usage = self.usage
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
            first_token_seconds=self.first_token_seconds,
            seconds=self.seconds,
            outcome=self.outcome,
            session_key=spends_for.session_key if spends_for else None,
            source=spends_for.source if spends_for else None,
        )


def ended_call(
    task: str,
    model: Model,
    reply: Reply,
    outcome: Literal["complete", "interrupted", "error"] = "complete",
) -> EndedCall:
    """The call that brought a reply, or what there is of one."""
    return EndedCall(
        task, model, reply.usage, reply.first_token_seconds, reply.seconds, outcome=outcome
    )


def turn_task(source: str) -> str:
    """What the calls of a turn are for, by where its conversation comes from."""
    return DELEGATION_TASK if source == SUB_AGENT else TURN_TASK
