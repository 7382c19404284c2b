"""The examples and the README's Python run as they are written."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from . import forked

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

_spec = importlib.util.spec_from_file_location(
    "example_provider", ROOT / "tests" / "tui" / "scripted_provider.py"
)
assert _spec is not None
assert _spec.loader is not None
scripted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(scripted)

ALONE = {
    "first_agent.py": ["Hello, Ada!", "You are Ada.", ">>>Ada<<<"],
    "own_tool.py": ["3 × pear: 2.40", "Three pears cost 2.40."],
}
"""Those that bring their own model, and what they print."""
ASKING = {"bot.py", "json_rpc_client.py", "daily_summary.sh"}
"""Those that ask the configured one; a test each."""


def run(
    *command: str | Path, folder: Path, stdin: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with `hermes` on its path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path}
    words = [str(part) for part in command]
    if words[0] == "hermes":
        words[0] = str(Path(sys.executable).with_name("hermes"))
        done = forked.run(words, input=stdin, environ=environ, cwd=folder)
    elif words[0] == sys.executable and Path(words[1]).name in ASKING:
        done = forked.run(words[1:], input=stdin, environ=environ, cwd=folder)
    else:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def python(*command: str | Path, folder: Path, stdin: str = "") -> str:
    return run(sys.executable, *command, folder=folder, stdin=stdin).stdout


def use_model(url: str) -> Path:
    """Let the home of this test ask the model there; returns the home."""
    home = Path(os.environ["HERMES_HOME"])
    (home / "config.yaml").write_text(
        f"model: {{default: scripted, provider: custom, base_url: '{url}'}}\n"
        "auxiliary: {title_generation: {enabled: false}}\n"
    )
    return home


def test_every_example_is_run_here_and_on_the_page() -> None:
    scripts = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
    assert scripts == ASKING | set(ALONE)
    page = (EXAMPLES / "README.md").read_text()
    plugins = {f"plugins/{path.parent.name}" for path in EXAMPLES.glob("plugins/*/plugin.yaml")}
    assert plugins
    for name in scripts | plugins:
        assert f"| [{name}](" in page


@pytest.mark.parametrize("name", sorted(ASKING | set(ALONE)))
def test_an_example_says_how_to_run_it(name: str) -> None:
    head = "\n".join((EXAMPLES / name).read_text().splitlines()[:12])
    assert re.search(rf"Run it: .*examples/{re.escape(name)}", head)


@pytest.mark.parametrize("name", ALONE)
def test_an_example(name: str, tmp_path: Path) -> None:
    output = python(EXAMPLES / name, folder=tmp_path)
    for line in ALONE[name]:
        assert line in output


async def test_the_bot(tmp_path: Path) -> None:
    bot = EXAMPLES / "bot.py"
    async with scripted.ScriptedProvider() as provider:
        use_model(provider.url)
        told = "Hello!\n/status\nStill there?\n"
        first = await asyncio.to_thread(python, bot, folder=tmp_path, stdin=told)
        again = await asyncio.to_thread(python, bot, folder=tmp_path, stdin="Again!\n")
    assert first.startswith("You said: Hello!\nSession: ")
    assert first.endswith("\nYou said: Still there?\n")
    assert again == "You said: Again!\n"
    said = [one["content"] for one in provider.requests[-1]["messages"] if one["role"] == "user"]
    assert [text.strip() for text in said] == ["Hello!", "Still there?", "Again!"]


def test_the_bot_is_ten_lines_long() -> None:
    body = (EXAMPLES / "bot.py").read_text().partition("async def bot() -> None:\n")[2]
    lines = body.partition("\n\n\n")[0].splitlines()
    assert len(lines) == 10


async def test_the_client_over_pipes(tmp_path: Path) -> None:
    client = EXAMPLES / "json_rpc_client.py"
    dangerous = scripted.script(
        "delete",
        scripted.call("terminal", command="rm -rf /nowhere/at/all"),
        scripted.say("Not so."),
    )
    async with scripted.ScriptedProvider() as provider:
        use_model(provider.url)
        answer = await asyncio.to_thread(python, client, "Hi", "there", folder=tmp_path)
        denied = await asyncio.to_thread(python, client, dangerous, folder=tmp_path)
    assert answer == "You said: Hi there\n"
    assert denied == "Not so.\n"
    (result,) = (one for one in provider.requests[-1]["messages"] if one["role"] == "tool")
    assert "did not approve" in result["content"]


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a provider that takes no key."""

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            """Nothing on the test's output."""

    with HTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def test_a_client_whose_provider_refuses(refusing: str, tmp_path: Path) -> None:
    use_model(refusing)
    client = EXAMPLES / "json_rpc_client.py"
    done = run(sys.executable, client, "Hi", folder=tmp_path, code=1)
    assert done.stdout.strip() == ""
    assert "401" in done.stderr or "key" in done.stderr


async def test_the_daily_summary(tmp_path: Path) -> None:
    notes = tmp_path / "my notes.txt"
    notes.write_text("Ada called.\n")
    command = ("sh", EXAMPLES / "daily_summary.sh", notes, tmp_path / "all summaries")
    async with scripted.ScriptedProvider() as provider:
        use_model(provider.url)
        done = await asyncio.to_thread(run, *command, folder=tmp_path)
        (summary,) = (tmp_path / "all summaries").iterdir()
        await asyncio.to_thread(run, *command, folder=tmp_path)
    assert done.stdout == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d\.md", summary.name)
    assert summary.read_text() == "You said: Sum up these notes in five points.\n\nAda called.\n"
    assert len(provider.requests) == 1, "a day that has its summary is left alone"


def test_a_summary_that_fails(refusing: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Ada called.")
    command = ("sh", EXAMPLES / "daily_summary.sh", "notes.txt", "summaries")
    home = use_model(refusing)
    assert "tries again" in run(*command, folder=tmp_path, code=1).stderr
    (home / "config.yaml").write_text("model: [nonsense]\n")
    assert "hermes doctor" in run(*command, folder=tmp_path, code=2).stderr
    assert not list((tmp_path / "summaries").iterdir())
    assert "usage:" in run(*command[:2], "missing.txt", "x", folder=tmp_path, code=2).stderr


async def test_the_plugin_in_the_program(tmp_path: Path) -> None:
    prompt = scripted.script(
        "noting",
        scripted.call("note_down", text="buy milk"),
        scripted.call("note_down", text="the password is 1234"),
        scripted.say("Noted."),
    )
    async with scripted.ScriptedProvider() as provider:
        home = use_model(provider.url)
        shutil.copytree(EXAMPLES / "plugins" / "notebook", home / "plugins" / "notebook")
        run("hermes", "plugins", "enable", "notebook", folder=tmp_path)
        done = await asyncio.to_thread(run, "hermes", "-Q", "-q", prompt, folder=tmp_path)
    assert done.stdout == "Noted.\n"
    assert (home / "notebook.txt").read_text() == "buy milk\n"
    results = [one for one in provider.requests[-1]["messages"] if one["role"] == "tool"]
    assert "Passwords do not belong" in results[-1]["content"]


@pytest.mark.parametrize(
    ("page", "expected"), [("README.md", "Hello!"), ("docs/tools.md", "3 words")]
)
def test_the_python_on_a_page(page: str, expected: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    # Those that talk to a running gateway are run where there is one: tests/docs/test_readme.py.
    blocks = [block for block in blocks if "base_url" not in block]
    assert blocks
    outputs = [python("-c", block, folder=tmp_path) for block in blocks]
    assert expected in outputs[0]


def test_the_tools_page_names_every_tool(tmp_path: Path) -> None:
    from tools.toolsets import default_tools

    page = (ROOT / "docs" / "tools.md").read_text()
    for tool in default_tools({}, tmp_path):
        assert f"`{tool.name}`" in page and f"`{tool.toolset}`" in page, tool.name


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/tools.md",
        "examples/README.md",
    ],
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_architecture_page_names_every_module() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for path in (ROOT / "src" / "hermes_state").glob("*.py"):
        if not path.name.startswith(("__init__", "search_")):
            assert path.name in page, f"{path.name} is not on the architecture page"
