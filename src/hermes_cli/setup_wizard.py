"""The questions of `hermes setup`: provider, key (tried by a real call), model, chat platform.

Nothing is written before the model has answered, unless the person insists.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agent.config.env import load_dotenv
from agent.config.model import DEFAULT_MODELS
from agent.config.write import set_dotenv_value
from agent.errors import ModelError
from agent.home import short_path
from agent.model import ModelRequest
from agent.providers import UnknownProviderError, build_model
from hermes_cli.command_parser import meant
from hermes_cli.gateway_setup import set_up

Ask = Callable[[str], str]
Say = Callable[[str], None]

OFFERED = (
    ("anthropic", "Anthropic (Claude)"),
    ("openai", "OpenAI (GPT)"),
    ("openrouter", "OpenRouter (nearly every model)"),
    ("google", "Google (Gemini)"),
    ("ollama", "Ollama, on this machine"),
    ("custom", "another server that speaks OpenAI's protocol"),
    ("local", "no key at all: a tiny model inside Hermes, to look around"),
)
"""Provider and how people know it; any other may be named."""


class Chosen(NamedTuple):
    """What a person chose."""

    provider: str
    model: str
    base_url: str = ""
    key_name: str = ""
    key: str = ""


class Wizard:
    """Asks at the terminal, or wherever it is told to."""

    def __init__(
        self,
        home: Path,
        *,
        check: bool = True,
        ask: Ask = input,
        ask_secret: Ask | None = None,
        say: Say = print,
    ) -> None:
        self._home = home
        self._check = check
        self._ask = ask
        # Without a terminal, getpass would complain about echoing what nobody types.
        self._ask_secret = ask_secret or (getpass.getpass if sys.stdin.isatty() else ask)
        self._say = say

    def run(self, *, platform: bool = True) -> int:
        """Ask for everything; returns the exit code."""
        self._say(f"Welcome to Hermes. What you choose is kept in {short_path(self._home)}.\n")
        try:
            chosen = self._choose_working()
            if chosen is None:
                self._say("Nothing was changed.")
                return 1
            self._keep(chosen)
            if platform and self._yes("Talk to it from a chat platform such as Telegram, too?"):
                set_up(self._home, self._ask, self._ask_secret, self._say)
        except (EOFError, KeyboardInterrupt):
            self._say("\nStopped. What was not said to be kept was not changed.")
            return 1
        self._say("\nReady. Begin with: hermes")
        return 0

    def _choose_working(self) -> Chosen | None:
        """A model that answers, or one that a person wants anyway; None if they give up."""
        while True:
            chosen = self._choose()
            if chosen is None:
                return None
            if not self._check or chosen.provider == "local":
                return chosen
            self._say(f"Asking {chosen.model} whether it is there …")
            problem = try_model(chosen)
            if problem is None:
                self._say("It answers.")
                return chosen
            self._say(f"It does not answer: {problem}")
            what = self._ask("[a]gain, [k]eep it anyway, or [q]uit: ").strip().lower()[:1]
            if what == "k":
                return chosen
            if what == "q":
                return None

    def _choose(self) -> Chosen | None:
        from agent.providers.known import ALIASES, KNOWN

        self._say("Which model provider?")
        for number, (_, label) in enumerate(OFFERED, 1):
            self._say(f"  {number}) {label}")
        answer = self._ask("Number, or another provider's name (1): ").strip().lower() or "1"
        provider = ALIASES.get(answer, answer)
        if answer.isdigit() and 1 <= int(answer) <= len(OFFERED):
            provider = OFFERED[int(answer) - 1][0]
        if provider not in KNOWN:
            self._say(f"There is no provider {answer!r}.{meant(answer, KNOWN)}")
            return None
        known = KNOWN[provider]
        if provider == "local":
            return Chosen(provider, DEFAULT_MODELS["local"])
        base_url = known.base_url
        if not known.key_variables or provider == "custom":
            shown = f" ({base_url})" if base_url else ", e.g. http://127.0.0.1:8080/v1"
            base_url = self._ask(f"Its address{shown}: ").strip() or base_url
            if not base_url.startswith(("http://", "https://")):
                self._say("That is no address: it begins with http:// or https://.")
                return None
        name = known.key_variables[0] if known.key_variables else ""
        key = ""
        if name:
            has_one = {**load_dotenv(self._home / ".env")[0], **os.environ}.get(name)
            hint = "empty: the one you have" if has_one else "it is not shown"
            key = self._ask_secret(f"{name} ({hint}): ").strip() or has_one or ""
            if not key and provider != "custom":
                self._say("Without a key it cannot be asked.")
                return None
        model = self._model(provider, DEFAULT_MODELS.get(provider, ""))
        return Chosen(provider, model, base_url, name, key) if model else None

    def _model(self, provider: str, default: str) -> str:
        shown = f" ({default})" if default else ""
        model = self._ask(f"Model{shown}: ").strip() or default
        if not model:
            self._say(f"{provider} needs the name of a model.")
        return model

    def _yes(self, question: str) -> bool:
        return self._ask(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    def _keep(self, chosen: Chosen) -> None:
        from hermes_cli.commands.model import choose, config_to_choose_in

        if chosen.key:
            set_dotenv_value(self._home / ".env", chosen.key_name, chosen.key)
        choose(config_to_choose_in(self._home), chosen.provider, chosen.model, chosen.base_url)
        self._say(f"Kept: {chosen.provider}:{chosen.model}")


def try_model(chosen: Chosen) -> str | None:
    """Ask the model one small thing; None if it answered, else what is wrong."""
    import asyncio

    settings: Mapping[str, Any] = {
        "default": chosen.model,
        "provider": chosen.provider,
        "base_url": chosen.base_url,
        "api_key": chosen.key,
        "timeout": 30,
    }
    try:
        asyncio.run(_ask_once(build_model(settings)))
    except (ModelError, UnknownProviderError) as error:
        return str(error)
    return None


async def _ask_once(model: Any) -> None:
    try:
        request = ModelRequest(
            messages=[{"role": "user", "content": "Say: here."}], max_tokens=64, session_id="setup"
        )
        async for _ in model.stream(request):
            pass
    finally:
        await model.aclose()
