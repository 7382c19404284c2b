"""Each platform says in its manifest what it is; whoever needs to know reads it there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from agent.config import load_config
from agent.config.env import PLATFORM_VARIABLES, parse_dotenv
from gateway.config import Platform
from gateway.config_load import load_gateway_config
from gateway.platforms.base import PlatformAdapter
from gateway.platforms.manifest import Manifest, resolve
from gateway.platforms.registry import all_manifests, capabilities_of, find_manifest, own_manifests
from hermes_base.redaction import MASK, redact
from hermes_cli.gateway_setup import set_up

PLATFORMS = Path(__file__).parents[2] / "src" / "gateway" / "platforms"


def test_every_package_with_a_manifest_is_found() -> None:
    packages = {path.parent.name for path in PLATFORMS.glob("*/manifest.py")}
    assert packages == {path.parent.name for path in PLATFORMS.glob("*/adapter.py")}
    assert len(own_manifests()) == len(packages) >= 5
    assert list(all_manifests())[:4] == ["telegram", "matrix", "api_server", "webhook"]
    assert find_manifest("pigeons") is None


@pytest.mark.parametrize("manifest", own_manifests().values(), ids=lambda one: str(one.name))
def test_a_manifest_and_its_adapter_agree(manifest: Manifest) -> None:
    adapter = resolve(manifest.adapter)
    assert issubclass(adapter, PlatformAdapter)
    assert adapter.manifest is manifest
    assert adapter.platform is Platform(manifest.name)
    assert adapter.capabilities is manifest.capabilities
    if manifest.formatter is not None:
        assert callable(resolve(manifest.formatter))
    if manifest.set_up is not None:
        assert callable(resolve(manifest.set_up))
    asked = {question.variable for question in manifest.questions}
    assert asked <= set(manifest.environment.values()), "what is asked is read"


def test_what_a_platform_can_do_is_asked_by_its_name() -> None:
    assert not capabilities_of("api_server").pushes, "answers go back within their requests"
    assert capabilities_of("webhook").signed and not capabilities_of("webhook").people
    assert capabilities_of("telegram") is own_manifests()["telegram"].capabilities
    unknown = capabilities_of("pigeons")
    assert unknown.pushes and unknown.people and not unknown.signed


def test_what_connects_a_platform_without_a_section_is_known_to_everybody(tmp_path: Path) -> None:
    connecting = {
        one.environment[key]: one.name
        for one in own_manifests().values()
        for key in (*one.secrets, *one.enabled_by)
        if key in one.environment
    }
    known = {name: of for name, of in PLATFORM_VARIABLES.items() if of in own_manifests()}
    assert connecting == known, "they are named in agent/config/env.py too"
    (tmp_path / "config.yaml").write_text("platforms: {irc: {nick: h}}\n")
    config = load_config(tmp_path, {"EMAIL_PASSWORD": "x", "IRC_SERVER": "irc.test", "A": "b"})
    assert config.section("platforms") == {"irc": {"nick": "h"}, "email": {}}


def test_no_two_platforms_read_one_variable() -> None:
    variables = [name for one in own_manifests().values() for name in one.environment.values()]
    assert len(variables) == len(set(variables))


def test_a_manifest_cannot_be_changed() -> None:
    manifest = own_manifests()["telegram"]
    with pytest.raises(FrozenInstanceError):
        manifest.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        manifest.environment["token"] = "OTHER"  # type: ignore[index]


def test_manifests_are_cheap_to_import() -> None:
    code = (
        "import sys\n"
        "from gateway.platforms.registry import own_manifests\n"
        "assert len(own_manifests()) >= 5\n"
        "print(*sorted(name for name in sys.modules if '.' not in name))\n"
        "print(*(name for name in sys.modules if name.endswith('.adapter')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules, adapters = done.stdout.split("\n")[:2]
    heavy = {
        "telegram",
        "nio",
        "discord",
        "slack_sdk",
        "starlette",
        "uvicorn",
        "httpx",
        "aiohttp",
        "asyncio",
        "apsw",
    }
    assert not heavy & set(modules.split())
    assert not adapters.strip()


@pytest.mark.parametrize(
    ("name", "secrets", "kept"),
    [
        (
            "discord",
            ["a" * 26 + ".Gabcde." + "b" * 38],
            {"DISCORD_BOT_TOKEN": "a" * 26 + ".Gabcde." + "b" * 38, "DISCORD_ALLOWED_USERS": "42"},
        ),
        (
            "slack",
            ["xoxb-1-2-abcdefghij", "xapp-1-A1-2-abcdefghij"],
            {
                "SLACK_BOT_TOKEN": "xoxb-1-2-abcdefghij",
                "SLACK_APP_TOKEN": "xapp-1-A1-2-abcdefghij",
                "SLACK_ALLOWED_USERS": "42",
            },
        ),
    ],
)
def test_setting_one_up_asks_and_enables_it(
    tmp_path: Path, name: str, secrets: list[str], kept: dict[str, str]
) -> None:
    offered = [one.name for one in all_manifests().values() if one.has_setup]
    answers, given = iter([str(offered.index(name) + 1), "42"]), iter(secrets)
    assert set_up(tmp_path, lambda _: next(answers), lambda _: next(given), lambda _: None) == 0
    written, problems = parse_dotenv((tmp_path / ".env").read_text())
    assert written == kept and not problems
    config = load_gateway_config(load_config(tmp_path, written)).platforms[Platform(name)]
    assert config.enabled and config.allowed_users == ("42",)
    assert redact(f"it is {secrets[-1]}") == f"it is {MASK}"
