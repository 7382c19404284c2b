"""The turn engine: one conversation with any model, every step kept.

from agent import AIAgent
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import AIAgent

__all__ = ["AIAgent"]


def __getattr__(name: str) -> Any:
    # Parts such as agent.config are used without the engine, which is slower to import.
    if name == "AIAgent":
        from .agent import AIAgent

        return AIAgent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
