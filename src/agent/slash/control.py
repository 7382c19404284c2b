"""Commands for the running turn, and for how the conversation is led."""

from __future__ import annotations

from .options import BUSY_MODES
from .results import Exec, Result, Send
from .surface import CommandError, Surface
from .table import command

CATEGORY = "While it works"


@command("stop", category=CATEGORY, args="[all | id]")
def stop(surface: Surface, args: str) -> str:
    """Stop the answer, one background task by its id, or all of it."""
    from agent import background

    if args and args != "all":
        known = {
            delegation["delegation_id"]
            for delegation in surface.here.delegations(surface.session_id)
        }
        if args in known and background.stop(args):
            return f"Stopping {args}; what it did is kept."
        raise CommandError(f"No task {args!r} of this conversation runs here. /agents lists them.")
    stopped = ["the answer"] if surface.stop() else []
    if args == "all":
        running = surface.here.delegations(surface.session_id, "running")
        stopped += [
            task["delegation_id"] for task in running if background.stop(task["delegation_id"])
        ]
    return f"Stopped {', '.join(stopped)}." if stopped else "Nothing is running."


@command("queue", category=CATEGORY, aliases=("q",), args="<message>")
def queue(surface: Surface, args: str) -> Result:
    """Send a message when the running answer is done."""
    if not args:
        raise CommandError("What is to be sent? For instance: /queue Then run the tests")
    if not surface.running:
        return Send(args)
    return Exec(f"Queued; {surface.queue(args)} waiting.")


@command("steer", category=CATEGORY, args="<message>")
def steer(surface: Surface, args: str) -> Result:
    """Send a message to the running turn; it is read at its next step, or answered by itself."""
    if not args:
        raise CommandError("What is it to know? For instance: /steer Leave the tests out")
    if surface.steer(args):
        return Exec("Kept; it is read at the next step, or answered next.")
    return Send(args)


@command("approve", category=CATEGORY, args="[session|always] [all]", scope="gateway")
def approve(surface: Surface, args: str) -> str:
    """Allow what a tool asks for: once, for this session, or always."""
    words = args.lower().split()
    if unknown := set(words) - {"once", "session", "always", "all"}:
        raise CommandError(f"/approve knows session, always and all, not {unknown.pop()!r}.")
    choice = next((word for word in words if word != "all"), "once")
    count = surface.answer_approvals(choice, "all" in words)
    return f"Allowed ({choice})." if count else "Nothing waits for an answer."


@command("deny", category=CATEGORY, args="[all]", scope="gateway")
def deny(surface: Surface, args: str) -> str:
    """Refuse what a tool asks for."""
    count = surface.answer_approvals("deny", args.lower().split()[:1] == ["all"])
    return "Refused." if count else "Nothing waits for an answer."


@command("answer", category=CATEGORY, args="<text>", scope="gateway")
def answer(surface: Surface, args: str) -> str:
    """Answer a question of the running turn that was asked in another chat or window."""
    if not args:
        raise CommandError("What is the answer? For instance: /answer the blue one")
    return "Answered." if surface.answer_question(args) else "Nothing waits for an answer."


@command("restart", category="The gateway", scope="gateway")
def restart(surface: Surface, args: str) -> str:
    """Restart the gateway; for its administrators."""
    raise CommandError("Only the gateway itself can do that: hermes gateway restart")


def _busy_modes(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(mode, "") for mode in BUSY_MODES if mode.startswith(typed)]


@command("busy", category="Settings", args="[queue|steer|interrupt]", complete=_busy_modes)
def busy(surface: Surface, args: str) -> str:
    """Show or set what a message does that comes while an answer is being written."""
    if not surface.reads_while_busy:
        return "Here a line that is typed while an answer is being written always waits."
    if args and args != "status":
        if args not in BUSY_MODES:
            raise CommandError(f"/busy knows {', '.join(BUSY_MODES)}.")
        surface.options["busy"] = args
    mode = surface.options.get("busy", surface.config.display.busy_input_mode)
    return f"A message during an answer: {mode}"


def _platforms(surface: Surface, typed: str) -> list[tuple[str, str]]:
    names = surface.config.section("platforms")
    return [(str(name), "") for name in names if str(name).startswith(typed)]


@command("handoff", category="Conversation", args="<platform>", scope="cli", complete=_platforms)
def handoff(surface: Surface, args: str) -> str:
    """Continue this conversation on a chat platform."""
    offered = [name for name, _ in _platforms(surface, "")]
    if not args or args not in offered:
        listed = ", ".join(offered) or "none is configured yet, see platforms in config.yaml"
        raise CommandError(f"To which platform? There are: {listed}.")
    tip = surface.here.tip(surface.session_id)
    if surface.here.session(tip) is None:
        raise CommandError("Nothing was said yet, so there is nothing to hand over.")
    if not surface.here.hand_over(tip, args):
        raise CommandError("This conversation is being handed over already.")
    return f"Asked for; the gateway goes on with it on {args} as soon as it runs."


@command("quit", category="Conversation", aliases=("exit",), scope="cli")
def leave(surface: Surface, args: str) -> str:
    """Leave; the conversation is kept."""
    surface.leave()
    return ""
