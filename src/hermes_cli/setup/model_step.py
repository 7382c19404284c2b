"""The model: what is configured, a key that is there, a server on this machine, or another one.

Nothing is written before the model has answered, unless the person insists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agent.config.env import load_dotenv
from agent.config.model import DEFAULT_MODELS
from agent.config.write import set_dotenv_value
from agent.errors import ModelError
from agent.model import ModelRequest
from agent.providers import UnknownProviderError, build_model
from hermes_cli.command_parser import meant

from .local_servers import LocalServer
from .talk import Talk

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


class NoModelError(Exception):
    """There is to be no model; the message may be empty."""


class MistakeError(Exception):
    """An answer that cannot be used; it is said, and asked again."""


class ModelStep:
    """Asks which model is to answer."""

    def __init__(
        self, home: Path, talk: Talk, find_servers: Callable[[], list[LocalServer]], check: bool
    ) -> None:
        self._home, self._talk, self._check = home, talk, check
        self._find_servers = find_servers

    def run(self) -> None:
        """Ask until a model answers, and keep it; NoModelError if there is to be none."""
        talk = self._talk
        while True:
            try:
                chosen = self._choose()
            except MistakeError as mistake:
                if talk.is_silent:
                    raise NoModelError(str(mistake)) from mistake
                talk.say(str(mistake))
                continue
            if chosen is None:
                talk.say("The model stays as it is.")
                return
            if not self._check or chosen.provider == "local":
                break
            talk.say(f"Asking {chosen.model} whether it is there …")
            problem = try_model(chosen)
            if problem is None:
                talk.say("It answers.")
                break
            talk.say(f"It does not answer: {problem}")
            if talk.is_silent:
                raise NoModelError("Nobody is there to be asked for another.")
            what = talk.ask("[a]gain, [k]eep it anyway, or [q]uit").lower()[:1]
            if what == "k":
                break
            if what == "q":
                raise NoModelError
        self.keep(chosen)

    def keep(self, chosen: Chosen) -> None:
        """Write the choice."""
        from hermes_cli.commands.model import choose, config_to_choose_in

        if chosen.key:
            set_dotenv_value(self._home / ".env", chosen.key_name, chosen.key)
        choose(config_to_choose_in(self._home), chosen.provider, chosen.model, chosen.base_url)
        self._talk.say(f"Kept: {chosen.provider}:{chosen.model}")

    def _choose(self) -> Chosen | None:
        """None if what is configured is to stay."""
        from agent.providers.known import ALIASES, KNOWN

        talk, servers, configured = self._talk, self._find_servers(), self._configured()
        talk.say("Which model provider?")
        for number, (_, label) in enumerate(OFFERED, 1):
            talk.say(f"  {number}) {label}")
        for number, server in enumerate(servers, len(OFFERED) + 1):
            talk.say(f"  {number}) {server.label} runs on this machine, with {server.model}")
        if configured:
            talk.say(f"  Enter: {configured}, as it is configured")
        default = "" if configured else self._default(servers)
        answer = talk.ask("Number, or another provider's name", default).lower()
        if not answer:
            return None
        provider = ALIASES.get(answer, answer)
        if answer.isdigit() and 1 <= int(answer) <= len(OFFERED):
            provider = OFFERED[int(answer) - 1][0]
        elif answer.isdigit() and len(OFFERED) < int(answer) <= len(OFFERED) + len(servers):
            server = servers[int(answer) - len(OFFERED) - 1]
            return Chosen("custom", self._model("custom", server.model), server.base_url)
        if provider not in KNOWN:
            raise MistakeError(f"There is no provider {answer!r}.{meant(answer, KNOWN)}")
        if provider == "local":
            return Chosen(provider, DEFAULT_MODELS["local"])
        return self._hosted(provider)

    def _hosted(self, provider: str) -> Chosen:
        from agent.providers.known import KNOWN

        known, talk = KNOWN[provider], self._talk
        base_url = known.base_url
        if not known.key_variables or provider == "custom":
            shown = "Its address" if base_url else "Its address, e.g. http://127.0.0.1:8080/v1"
            base_url = talk.ask(shown, base_url)
            if not base_url.startswith(("http://", "https://")):
                raise MistakeError(
                    "That is no address: it begins with http:// or https://."
                )  # fmt: skip
        name = known.key_variables[0] if known.key_variables else ""
        key = ""
        if name:
            there = self._keys().get(name, "")
            hint = "empty: the one you have" if there else "it is not shown"
            key = talk.ask_secret(f"{name} ({hint})") or there
            if not key and provider != "custom":
                raise MistakeError("Without a key it cannot be asked.")
        model = self._model(provider, DEFAULT_MODELS.get(provider, ""))
        return Chosen(provider, model, base_url, name, key)

    def _model(self, provider: str, default: str) -> str:
        model = self._talk.ask("Model", default)
        if not model:
            raise MistakeError(f"{provider} needs the name of a model.")
        return model

    def _default(self, servers: list[LocalServer]) -> str:
        """The number of what needs the least: a key that is there, a server, the model inside."""
        from agent.providers.known import KNOWN

        keys = self._keys()
        for number, (provider, _) in enumerate(OFFERED, 1):
            known = KNOWN[provider]
            if provider != "custom" and any(keys.get(name) for name in known.key_variables):
                return str(number)
        return str(len(OFFERED) + 1 if servers else len(OFFERED))

    def _configured(self) -> str:
        """The model that config.yaml names."""
        from hermes_cli.commands.model import config_to_choose_in

        config = config_to_choose_in(self._home)
        if "model" not in config.raw:
            return ""
        return f"{config.model.provider}:{config.model.default}"

    def _keys(self) -> dict[str, str]:
        return {**load_dotenv(self._home / ".env")[0], **os.environ}


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
