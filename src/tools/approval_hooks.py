"""Tell plugins about approval requests and their outcome."""

from __future__ import annotations

from typing import Any

from hermes_base import plugins
from hermes_base.session_context import get_session_env


def tell(
    hook: str, subject: str, description: str, keys: list[str], *, smart: bool, **more: Any
) -> None:
    """Fire `pre_approval_request` or `post_approval_response`; nobody waits for an answer."""
    if not plugins.has_hook(hook):
        return
    session_key = get_session_env("HERMES_SESSION_KEY")
    plugins.invoke_hook(
        hook,
        command=subject,
        description=description,
        pattern_key=keys[0] if keys else "",
        pattern_keys=keys,
        session_key=session_key,
        surface="smart" if smart else "gateway" if session_key else "cli",
        **more,
    )


def as_choice(choice: str, how: str) -> str:
    """A decision in the words of the hook."""
    if how == "smart":
        return "smart_deny" if choice == "deny" else "smart_approve"
    return "timeout" if how == "timeout" else choice
