"""Commands for the model: which one answers, and how hard it thinks."""

from __future__ import annotations

from agent.catalog import known_models
from agent.personas import list_personas, persona_path

from .options import EFFORTS
from .surface import CommandError, Surface, require_idle
from .table import command

CATEGORY = "Settings"


def _names(surface: Surface, typed: str) -> list[tuple[str, str]]:
    configured = [
        surface.config.model.name,
        *(model.name for model in surface.config.fallback_models),
    ]
    names = dict.fromkeys(configured, "configured")
    for info in known_models():
        names.setdefault(info.name, f"{info.context_length // 1000}k tokens")
    return [(name, meta) for name, meta in names.items() if name.startswith(typed)]


@command("model", category=CATEGORY, args="[name]", complete=_names, slow=True)
def model(surface: Surface, args: str) -> str:
    """Show which model answers, or switch to another one."""
    if args.startswith("-") or " --" in args:
        raise CommandError(
            "/model takes a name and holds for this conversation. For all, set model.default in "
            "config.yaml: hermes config set model.default NAME"
        )
    if args:
        if refusal := surface.access.why_no_model(args):
            raise CommandError(refusal)
        require_idle(surface)
        return f"Model: {surface.set_model(args)}"
    agent = surface.agent
    name = agent.model if agent is not None else surface.config.model.name
    others = ", ".join(model.name for model in surface.config.fallback_models)
    return f"Model: {name}" + (f"\nIf it cannot answer: {others}" if others else "")


def _personas(surface: Surface, typed: str) -> list[tuple[str, str]]:
    names = [*list_personas(surface.config.home), "default"]
    return [(name, "") for name in names if name.startswith(typed)]


@command(
    "persona",
    category=CATEGORY,
    args="[name|default]",
    aliases=("personality",),
    complete=_personas,
    slow=True,
)
def persona(surface: Surface, args: str) -> str:
    """Show who the agent is in this conversation, or let it be somebody else."""
    home = surface.config.home
    known = ", ".join(list_personas(home))
    if args:
        require_idle(surface)
        if args != "default" and persona_path(home, args) is None:
            raise CommandError(f"There is no persona {args[:60]!r}. There are: {known or 'none'}.")
        agent = surface.build_agent()
        surface.options["persona"] = "" if args == "default" else args
        surface.apply_options()
        agent.rebuild_prompt()
    current = surface.options.get("persona") or surface.access.persona
    shown = current or "as SOUL.md or, without it, Hermes itself describes it"
    return (
        f"Persona: {shown}\nThere are: {known or f'none; each is a file in {home.name}/personas'}"
    )


def _efforts(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [(effort, "") for effort in (*EFFORTS, "default") if effort.startswith(typed)]


@command("reasoning", category=CATEGORY, args="[low|medium|high|default]", complete=_efforts)
def reasoning(surface: Surface, args: str) -> str:
    """Show or set how hard the model thinks in this conversation."""
    if args:
        if args not in (*EFFORTS, "default"):
            raise CommandError(f"/reasoning knows {', '.join(EFFORTS)} and default.")
        default = surface.config.model.reasoning_effort
        surface.options["reasoning"] = default if args == "default" else args
        surface.apply_options()
    current = surface.options.get("reasoning", surface.config.model.reasoning_effort)
    return f"Reasoning: {current or 'as the model does by default'}"
