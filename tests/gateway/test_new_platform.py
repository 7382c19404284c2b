"""A new platform is one folder: configuration, setup, documentation, formatting and turns follow.

Once as a package beside ours, once as a plugin; nothing else is touched in either case.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import gateway.platforms
from agent.config import load_config
from agent.scripted import ScriptedModel
from gateway.config import Platform
from gateway.config_load import load_gateway_config
from gateway.platforms.local.adapter import LocalAdapter
from gateway.platforms.registry import find_manifest, own_manifests
from gateway.run import GatewayRunner
from hermes_cli.config_page import generated
from hermes_cli.gateway_setup import set_up
from hermes_state import AsyncSessionDB, SessionDB

from .chats import CONFIG, echo

ADAPTER = '''\
from gateway.platforms.local.adapter import LocalAdapter

from .manifest import MANIFEST


class Semaphores(LocalAdapter):
    """Flags on two hills."""

    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    async def receive_file(self, chat_id, source, name, data):
        """A file comes: it is kept if its sender may talk."""
        if not await self.host.is_allowed(source):
            return None
        return await self.host.keep_file(chat_id, name, data)


def shout(markdown):
    return markdown.upper()
'''

MANIFEST = """\
from gateway.platforms.manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="semaphores",
    label="Semaphores",
    adapter=f"{__package__}.adapter:Semaphores",
    capabilities=Capabilities(max_length=80, edits=False),
    formatter=f"{__package__}.adapter:shout",
    environment={"flag": "SEMAPHORE_FLAG", "allowed_users": "SEMAPHORE_PEOPLE"},
    secrets=("flag",),
    settings=(Setting("hill", "text", "", "which hill it stands on"),),
    questions=(
        SetupQuestion("SEMAPHORE_FLAG", "Flag: ", secret=True, pattern="[a-z]+", problem="No."),
        SetupQuestion("SEMAPHORE_PEOPLE", "Who: "),
    ),
    prompt_hint="You wave flags.",
)
"""


def write_folder(folder: Path) -> None:
    """The whole of a platform."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "adapter.py").write_text(ADAPTER)
    (folder / "manifest.py").write_text(MANIFEST)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A platform as a package beside ours."""
    write_folder(tmp_path / "more" / "semaphores")
    places = [*gateway.platforms.__path__, str(tmp_path / "more")]
    monkeypatch.setattr(gateway.platforms, "__path__", places)
    own_manifests.cache_clear()
    yield ""
    own_manifests.cache_clear()
    for name in [name for name in sys.modules if name.startswith("gateway.platforms.semaphores")]:
        del sys.modules[name]
    Platform._value2member_map_.pop("semaphores", None)


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[str]:
    """A platform that a plugin registers."""
    folder = tmp_path / "home" / "plugins" / "flags"
    write_folder(folder)
    (folder / "plugin.yaml").write_text("name: flags\nversion: '1'\nkind: platform\n")
    (folder / "__init__.py").write_text(
        "from .manifest import MANIFEST\n\n\n"
        "def register(ctx):\n    ctx.register_platform(MANIFEST)\n"
    )
    yield "plugins: {enabled: [flags]}\n"
    Platform._value2member_map_.pop("semaphores", None)


@pytest.fixture(params=["package", "plugin"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A home that knows the new platform, one way or the other."""
    yaml = request.getfixturevalue(request.param)
    path = tmp_path / "home"
    path.mkdir(exist_ok=True)
    (path / "config.yaml").write_text(CONFIG + yaml)
    return path


@asynccontextmanager
async def running(home: Path, environ: dict[str, str]) -> AsyncIterator[GatewayRunner]:
    settings = load_config(home, environ)
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(load_gateway_config(settings), settings, db, home)
    runner._model = ScriptedModel(itertools.repeat(echo))
    await runner.start()
    yield runner
    await runner.stop()
    await db.close()


def test_its_section_may_come_from_the_environment(home: Path) -> None:
    environ = {"SEMAPHORE_FLAG": "red", "SEMAPHORE_PEOPLE": "ada, bob"}
    platforms = load_gateway_config(load_config(home, environ)).platforms
    config = platforms[Platform.of("semaphores")]
    assert config.enabled, "its secret is there"
    assert config.allowed_users == ("ada", "bob")
    assert config.extra == {"flag": "red"}


def test_it_can_be_set_up(home: Path) -> None:
    said: list[str] = []
    answers = iter(["semaphores", "ada"])
    assert set_up(home, lambda _: next(answers), lambda _: "red", said.append) == 0
    number = said[0].partition(") Semaphores")[0].split()[-1]
    assert (home / ".env").read_text() == "SEMAPHORE_FLAG=red\nSEMAPHORE_PEOPLE=ada\n"
    assert set_up(home, lambda _: number, lambda _: "RED", said.append) == 1
    assert said[-1] == "No. Nothing was changed."


def test_the_documentation_has_its_settings(package: str) -> None:
    pages = generated()
    assert "| `platforms.semaphores.hill` | text |  | which hill it stands on |" in pages["keys"]
    assert "| `SEMAPHORE_FLAG` | `platforms.semaphores.flag` |" in pages["variables"]


async def test_it_runs(home: Path) -> None:
    environ = {"SEMAPHORE_FLAG": "red", "SEMAPHORE_PEOPLE": "ada"}
    async with running(home, environ) as runner:
        assert runner.supervisor.states == {"semaphores": "connected"}
        adapter = runner.adapters[Platform.of("semaphores")]
        assert isinstance(adapter, LocalAdapter)
        assert adapter.manifest is find_manifest("semaphores")
        assert (adapter.capabilities.max_length, adapter.capabilities.edits) == (80, False)
        await adapter.receive("hello", user_id="ada")
        assert await adapter.wait_for(1) == ["RE: HELLO"]
        (entry,) = runner.session_store.list_sessions()
        assert entry.platform == "semaphores"
        row = await runner._session_db.get_session(entry.session_id)
        assert row is not None and "You wave flags." in str(row["system_prompt"])


async def test_its_adapter_has_a_host(home: Path) -> None:
    from gateway.media import MediaTooLargeError
    from gateway.session import SessionSource

    async def data() -> AsyncIterator[bytes]:
        yield b"x" * 11

    (home / "config.yaml").open("a").write("gateway: {max_inbound_media_bytes: 10}\n")
    environ = {"SEMAPHORE_FLAG": "red", "SEMAPHORE_PEOPLE": "ada"}
    async with running(home, environ) as runner:
        platform = Platform.of("semaphores")
        adapter = runner.adapters[platform]
        receive = adapter.receive_file  # type: ignore[attr-defined]
        stranger = SessionSource(platform, "1", user_id="eve")
        assert await receive("1", stranger, "a.txt", data()) is None
        with pytest.raises(MediaTooLargeError):
            await receive("1", SessionSource(platform, "1", user_id="ada"), "a.txt", data())
        assert adapter.host.home == home
        assert not adapter.host.serves(Platform.TELEGRAM)
        assert not hasattr(adapter, "runner") and not hasattr(adapter, "_runner")


INSTEAD = """
from gateway.platforms.local.adapter import LocalAdapter

def register(ctx):
    ctx.register_platform(
        "telegram", "Telegram by pigeon", LocalAdapter, lambda: True,
        allow_all_env="PIGEONS_FOR_ALL", platform_hint="You write on very small paper.",
    )
"""


async def test_a_plugin_in_the_place_of_ours_is_configured_as_ours_is(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "pigeons"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: pigeons\nversion: '1'\nkind: platform\n")
    (folder / "__init__.py").write_text(INSTEAD)
    (tmp_path / "config.yaml").write_text(CONFIG + "plugins: {enabled: [pigeons]}\n")
    environ = {"TELEGRAM_BOT_TOKEN": "12345:secret", "PIGEONS_FOR_ALL": "1"}
    async with running(tmp_path, environ) as runner:
        config = runner.config.platforms[Platform.TELEGRAM]
        assert (config.token, config.allow_all) == ("12345:secret", True)
        adapter = runner.adapters[Platform.TELEGRAM]
        assert isinstance(adapter, LocalAdapter)
        assert adapter.host.home == tmp_path, "it has a host, though it was made with a function"
        await adapter.receive("hello")
        assert await adapter.wait_for(1) == ["re: hello"]
        (entry,) = runner.session_store.list_sessions()
        row = await runner._session_db.get_session(entry.session_id)
        assert row is not None and "very small paper" in str(row["system_prompt"])
