"""`hermes model`: which model answers, and which there are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from agent.catalog import known_models
from agent.config import Config, ConfigError, load_config, read_yaml
from agent.config.schema import LOCAL_MODEL
from agent.config.write import set_config_values
from agent.home import hermes_home
from agent.providers.embedded_fetch import FetchError, ensure_runtime, ensure_weights
from agent.providers.embedded_progress import terminal_progress
from hermes_cli.command_run import NotDone, UserError

from .output import print_json, print_table

EXAMPLES = """\
hermes model                                   which model answers now
hermes model list                              which models are known
hermes model list claude                       only these
hermes model set anthropic:claude-sonnet-5-5   ask this one from now on
hermes model pull                              fetch the model that runs offline
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("model", help="show, choose or fetch a model", examples=EXAMPLES)
    parser.set_defaults(act=show, json=False)
    actions = parser.add_subparsers(dest="action", metavar="action")
    action = actions.add_parser("list", help="the models Hermes knows, with window and price")
    action.add_argument(
        "part", nargs="?", default="", metavar="TEXT", help="only with this in its name"
    )
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=list_models)
    action = actions.add_parser("set", help="ask another model from now on")
    action.add_argument(
        "name", metavar="MODEL", help="gpt-5, anthropic:claude-sonnet-5-5, local:, …"
    )
    action.set_defaults(act=set_model)
    action = actions.add_parser("pull", help="fetch the offline model and what runs it")
    action.set_defaults(act=pull)


def show(args: argparse.Namespace) -> int:
    """Print which model answers."""
    config = load_config()
    print(f"{config.model.provider}:{config.model.name}")
    for model in config.fallback_models:
        print(f"if it cannot answer: {model.provider}:{model.name}")
    if missing := missing_key(config):
        print(missing)
    return 0


def missing_key(config: Config) -> str:
    """What to do about the configured model's key; empty if it has one or needs none."""
    from agent.providers.known import KNOWN, key_advice, needs_key

    model = config.model
    known = KNOWN.get(model.provider)
    address = model.base_url or (known.base_url if known else "")
    has_key = model.api_key or any(
        config.environ.get(name) for name in (known.key_variables if known else ())
    )
    if has_key or not needs_key(model.provider, address.rstrip("/")):
        return ""
    return f"{model.provider} needs a key. {key_advice(model.provider)}"


def list_models(args: argparse.Namespace) -> int:
    """Print the catalogue."""
    configured = load_config().model.name
    models = [model for model in known_models() if args.part.lower() in model.name.lower()]
    if args.json:
        print_json(
            [
                {
                    "name": model.name,
                    "context_length": model.context_length,
                    "max_output_tokens": model.max_output_tokens,
                    "input_usd_per_million": model.prices and model.prices.input,
                    "output_usd_per_million": model.prices and model.prices.output,
                    "reasoning": model.reasoning,
                    "vision": model.vision,
                    "configured": model.name == configured,
                }
                for model in models
            ]
        )
    elif models:
        print_table(
            ("model", "tokens", "$ in", "$ out", ""),
            [
                (
                    model.name,
                    f"{model.context_length // 1000}k",
                    f"{model.prices.input:g}" if model.prices else "?",
                    f"{model.prices.output:g}" if model.prices else "?",
                    "answers now" if model.name == configured else "",
                )
                for model in models
            ],
        )
        print("Prices are in US dollars per million tokens. Any other model works too.")
    else:
        print(f"No known model has {args.part!r} in its name. Unknown ones can be set, too.")
    return 0 if models else 1


def set_model(args: argparse.Namespace) -> int:
    """Ask another model from now on, as config.yaml says."""
    config = config_to_choose_in(hermes_home())
    if not args.name.strip():
        raise UserError("Which model? For instance: hermes model set gpt-5")
    chosen = config.model_named(args.name)
    choose(config, chosen.provider, chosen.name, chosen.base_url)
    now = load_config(config.home)
    print(f"From now on {now.model.provider}:{now.model.name} answers.")
    if missing := missing_key(now):
        print(missing)
    return 0


def config_to_choose_in(home: Path) -> Config:
    """The configuration; without its model, if the model is what is wrong with it.

    Raises ConfigError if something else is wrong.
    """
    try:
        return load_config(home)
    except ConfigError:
        rest = read_yaml(home / "config.yaml")
        rest.pop("model", None)
        return load_config(home, raw=rest)


def choose(config: Config, provider: str, name: str, base_url: str = "") -> None:
    """Write the choice of a model into config.yaml; settings of another provider are removed."""
    from agent.providers.known import KNOWN

    known = KNOWN.get(provider)
    own_address = "" if known and base_url == known.base_url else base_url
    # From the file: a model that cannot be used is not in the configuration.
    section = read_yaml(config.home / "config.yaml").get("model")
    before = section if isinstance(section, dict) else {}
    values: dict[str, Any] = {"model.default": name, "model.provider": provider}
    if own_address or before.get("base_url"):
        values["model.base_url"] = own_address
    if provider != config.model.provider:
        stale = ("api_key", "context_length", "api_mode")
        values |= {f"model.{key}": None for key in stale if before.get(key)}
    set_config_values(config.home / "config.yaml", values)


def pull(args: argparse.Namespace) -> int:
    """Fetch the offline model's weights and library."""
    home = hermes_home()
    try:
        weights = ensure_weights(home, terminal_progress(f"Fetching {LOCAL_MODEL}"))
        ensure_runtime(home, terminal_progress("Installing llama.cpp"))
    except FetchError as error:
        raise NotDone(str(error)) from error
    print(f"{weights} is ready. Use it with: hermes model set local:{LOCAL_MODEL}")
    return 0
