"""`hermes setup`: from nothing to a model that answers, and every way out of it."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_cli.setup_wizard import Wizard


@pytest.fixture
def answers(cli: Any) -> Callable[..., tuple[int, str]]:
    """Runs the wizard with these answers; returns its exit code and all it said."""

    def run(*typed: str, platform: bool = False, check: bool = True) -> tuple[int, str]:
        left: Iterator[str] = iter(typed)
        heard: list[str] = []

        def ask(question: str) -> str:
            heard.append(question)
            try:
                return next(left)
            except StopIteration:
                raise EOFError from None

        wizard = Wizard(cli.home, check=check, ask=ask, ask_secret=ask, say=heard.append)
        return wizard.run(platform=platform), "\n".join(heard)

    return run


def test_a_server_that_answers_is_kept(cli: Any, server: Any, answers: Any) -> None:
    server.say("here")
    code, said = answers("6", server.url, "my-key", "test-model")
    assert (code, "It answers." in said) == (0, True), said
    assert server.requests[0]["model"] == "test-model"
    assert cli("model").out == "custom:test-model\n"
    assert "CUSTOM_API_KEY=my-key" in (cli.home / ".env").read_text()
    assert stat.S_IMODE((cli.home / ".env").stat().st_mode) == 0o600
    server.say("hello")
    assert cli("chat", "-Q", "-q", "hi").out == "hello\n"


def test_a_key_that_is_refused_is_said_and_nothing_is_kept(
    cli: Any, server: Any, answers: Any
) -> None:
    server.refuse(401)
    code, said = answers("6", server.url, "bad-key", "test-model", "q")
    assert code == 1
    assert "It does not answer" in said
    assert "bad-key" not in said
    assert not (cli.home / ".env").exists()
    assert not (cli.home / "config.yaml").exists()


def test_one_may_try_again_or_know_better(cli: Any, server: Any, answers: Any) -> None:
    server.refuse(401)
    server.refuse(401)
    first = ("6", server.url, "k", "test-model")
    code, _ = answers(*first, "a", *first, "k")
    assert code == 0
    assert cli("model").out == "custom:test-model\n"


def test_without_a_check_or_a_key(cli: Any, answers: Any) -> None:
    assert answers("2", "sk-x", "", check=False)[0] == 0
    assert cli("model").out.startswith("openai:gpt-6.1-sol")
    code, said = answers("7")
    assert code == 0
    assert "local:" in said
    assert cli("model").out.startswith("local:")


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        (("opnai",), "Did you mean openai?"),
        (("99",), "There is no provider"),
        (("6", "ftp://x"), "no address"),
        (("1", ""), "Without a key"),
        (("6", "http://127.0.0.1:9/v1", "", ""), "the name of a model"),
        ((), "Stopped"),
    ],
)
def test_mistakes_change_nothing(cli: Any, answers: Any, typed: tuple[str, ...], part: str) -> None:
    code, said = answers(*typed)
    assert code == 1
    assert part in said
    assert list(cli.home.iterdir()) == []


def test_a_chat_platform_comes_after_the_model(cli: Any, answers: Any) -> None:
    code, _ = answers("7", "y", "3", platform=True)
    assert code == 0
    assert "API_SERVER_KEY" in (cli.home / ".env").read_text()


def test_the_command_reads_piped_answers(hermes: Any, server: Any) -> None:
    server.say("here")
    done = hermes.run("setup", "--model-only", stdin=f"6\n{server.url}\nkey\nother-model\n")
    assert done.returncode == 0, done
    assert "other-model" in (Path(hermes.home) / ".hermes" / "config.yaml").read_text()
    assert hermes.run("setup", "--no-check").returncode == 1
