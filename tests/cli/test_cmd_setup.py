"""`hermes setup`: from nothing to an answer, and every way out of it and back."""

from __future__ import annotations

import json
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.config import load_config
from hermes_cli.setup import local_servers
from hermes_cli.setup.local_servers import LocalServer, find_local_servers
from hermes_cli.setup.talk import Talk
from hermes_cli.setup.wizard import Wizard

Answers = Callable[..., tuple[int, str]]


@pytest.fixture
def answers(cli: Any) -> Answers:
    """Runs the wizard with these answers; returns its exit code and all it said."""

    def run(
        *typed: str,
        model_only: bool = True,
        check: bool = True,
        servers: tuple[LocalServer, ...] = (),
        is_silent: bool = False,
    ) -> tuple[int, str]:
        left: Iterator[str] = iter(typed)
        heard: list[str] = []

        def ask(question: str) -> str:
            heard.append(question)
            try:
                return next(left)
            except StopIteration:
                raise EOFError from None

        talk = Talk(ask, ask, heard.append, is_silent=is_silent)
        wizard = Wizard(cli.home, talk, check=check, find_servers=lambda: list(servers))
        code = wizard.run(model_only=model_only)
        assert list(left) == [], "some answers were not asked for"
        return code, "\n".join(heard)

    return run


def config(cli: Any) -> str:
    return (cli.home / "config.yaml").read_text()


# The model


def test_a_server_that_answers_is_kept(cli: Any, server: Any, answers: Answers) -> None:
    server.say("here")
    code, said = answers("6", server.url, "my-key", "test-model")
    assert (code, "It answers." in said) == (0, True), said
    assert server.requests[0]["model"] == "test-model"
    assert cli("model").out == "custom:test-model\n"
    assert "CUSTOM_API_KEY=my-key" in (cli.home / ".env").read_text()
    assert stat.S_IMODE((cli.home / ".env").stat().st_mode) == 0o600
    assert ".env: CUSTOM_API_KEY set" in said
    assert "my-key" not in said
    server.say("hello")
    assert cli("chat", "-Q", "-q", "hi").out == "hello\n"


def test_a_key_that_is_refused_is_said_and_nothing_is_kept(
    cli: Any, server: Any, answers: Answers
) -> None:
    server.refuse(401)
    code, said = answers("6", server.url, "bad-key", "test-model", "q")
    assert code == 1
    assert "It does not answer" in said
    assert "bad-key" not in said
    assert list(cli.home.iterdir()) == []


def test_one_may_try_again_or_know_better(cli: Any, server: Any, answers: Answers) -> None:
    server.refuse(401)
    server.refuse(401)
    first = ("6", server.url, "k", "test-model")
    code, _ = answers(*first, "a", *first, "k")
    assert code == 0
    assert cli("model").out == "custom:test-model\n"


def test_without_a_check_or_a_key(cli: Any, answers: Answers) -> None:
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
def test_mistakes_change_nothing_and_are_asked_again(
    cli: Any, answers: Answers, typed: tuple[str, ...], part: str
) -> None:
    code, said = answers(*typed)
    assert code == 1
    assert part in said
    assert said.count("Which model provider?") == (2 if typed else 1)
    assert list(cli.home.iterdir()) == []


def test_enter_takes_what_needs_the_least(
    cli: Any, server: Any, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model inside; a server that was found; a key that is there; what is configured."""
    code, said = answers("")
    assert (code, cli("model").out.split(":")[0]) == (0, "local")
    (cli.home / "config.yaml").unlink()
    found = LocalServer("Ollama", server.url, "qwen3:8b")
    server.say("here")
    code, said = answers("", "", servers=(found,))
    assert (code, cli("model").out) == (0, "custom:qwen3:8b\n"), said
    assert "8) Ollama runs on this machine, with qwen3:8b" in said
    code, said = answers("", servers=(found,))
    assert (code, cli("model").out) == (0, "custom:qwen3:8b\n")
    assert "The model stays as it is." in said
    assert "Nothing was changed." in said
    (cli.home / "config.yaml").unlink()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-there")
    code, said = answers("", "", "", servers=(found,), check=False)
    assert (code, cli("model").out.split(":")[0]) == (0, "anthropic")
    assert "sk-ant-there" not in said


# Servers on this machine


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes, int], None]]:
    """A server that answers a question for its models with what it is told; alone on the list."""
    answer: list[Any] = [b"", 200]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/v1/models"
            self.send_response(answer[1])
            self.end_headers()
            self.wfile.write(answer[0])

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(local_servers, "PORTS", {server.server_port: "Ollama"})

    def tell(body: bytes, status: int = 200) -> None:
        answer[:] = [body, status]

    yield tell
    server.shutdown()
    server.server_close()


def test_a_server_is_found_with_a_model_to_talk_to(listed: Any) -> None:
    models = [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}, {"id": "llama"}]
    listed(json.dumps({"object": "list", "data": models}).encode(), 200)
    (found,) = find_local_servers()
    assert (found.label, found.model) == ("Ollama", "qwen3:8b")
    assert found.base_url.endswith("/v1")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 200), (b"hello", 200), (b"[]", 200), (b'{"data": 7}', 200), (b"{}", 404),
        (b'{"data": [7, {}, {"id": 7}, {"id": ""}]}', 200),
        (b'{"data": [{"id": "an-embedding"}]}', 200),
        (b'{"data": [{"id": "x\\u001b[2Jy"}]}', 200),
        (b'{"data": [{"id": "' + b"x" * 2_000_000 + b'"}]}', 200),
        (b"[" * 100_000, 200),
    ],
)  # fmt: skip
def test_what_is_no_model_server_is_passed_over(listed: Any, body: bytes, status: int) -> None:
    listed(body, status)
    assert find_local_servers() == []


def test_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_servers, "PORTS", {1: "nobody"})
    assert find_local_servers() == []


# The other steps


def test_all_steps_by_enter(cli: Any, answers: Answers) -> None:
    code, said = answers("", "", "", "", "", model_only=False)
    assert code == 0
    assert "Talk to it from a chat platform such as Telegram, too? [y/N]" in said
    settings = load_config(cli.home)
    assert settings.section("platforms") == {"web": {"enabled": True}}
    assert settings.terminal.mode == "guarded"
    (archive,) = (cli.home / "backups").glob("hermes-*.tar.gz")
    with tarfile.open(archive) as files:
        assert any(name.endswith("config.yaml") for name in files.getnames())
    assert "config.yaml: platforms.web.enabled: True" in said


def test_other_answers(cli: Any, answers: Answers) -> None:
    code, said = answers("7", "y", "3", "maybe", "n", "9", "2", "n", model_only=False)
    assert code == 0, said
    assert "Answer with y or n." in said
    assert "Answer with a number from 1 to 3." in said
    settings = load_config(cli.home)
    assert "web" not in settings.section("platforms")
    assert settings.terminal.mode == "plan"
    assert not list((cli.home / "backups").glob("*.tar.gz"))


def test_a_platform_is_set_up(cli: Any, answers: Answers) -> None:
    number = next(
        line.split(")")[0].split()[-1]
        for line in answers("7", "y", "0", "n", "1", "n", model_only=False)[1].split("   ")
        if line.endswith(" API") or "API" in line
    )
    code, said = answers("", "y", number, "n", "1", "n", model_only=False)
    assert code == 0, said
    assert "API_SERVER_KEY" in (cli.home / ".env").read_text()
    assert ".env: API_SERVER_KEY set" in said


def test_a_password_keeps_its_spaces() -> None:
    talk = Talk(lambda _: "x", lambda _: "secret ", lambda _: None)
    assert talk.raw_secret("Password: ") == "secret "
    assert Talk(is_silent=True).raw("Number: ") == ""


# And back


def test_a_step_is_undone(cli: Any, answers: Answers) -> None:
    (cli.home / "config.yaml").write_text("# mine\nagent: {max_turns: 9}\n")
    code, said = answers(
        "undo",  # nothing yet
        "7", "undo", "7",  # the model, at the question after it
        "n", "y", "2", "UNDO", "1",  # the wall, at the question of the backup
        "n", model_only=False,
    )  # fmt: skip
    assert code == 0, said
    assert "There is nothing to undo yet." in said
    assert "Undone: the model." in said
    assert "Undone: the wall." in said
    assert load_config(cli.home).terminal.mode == "guarded"
    assert config(cli).startswith("# mine\n")
    assert "terminal.mode" not in said.split("Changed:")[1]


def test_all_of_it_is_undone(cli: Any, server: Any, answers: Answers) -> None:
    before = "# mine\nagent: {max_turns: 9}\n"
    (cli.home / "config.yaml").write_text(before)
    server.say("here")
    answers("6", server.url, "my-key", "test-model", "n", "y", "1", "n", model_only=False)
    assert "test-model" in config(cli)
    record = cli.home / "backups" / "before-setup" / "record.json"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    said = cli("setup", "--undo").out
    assert "Undone: .env: CUSTOM_API_KEY removed" in said
    assert "my-key" not in said
    assert config(cli) == before
    assert not (cli.home / ".env").exists()
    assert "There is no set-up to undo." in cli.fails("setup", "--undo", code=1)


def test_nothing_is_undone_once_somebody_has_changed_it(cli: Any, answers: Answers) -> None:
    answers("7")
    assert cli("config", "set", "agent.max_iterations", "9").code == 0
    assert "changed after the set-up" in cli.fails("setup", "--undo", code=1)
    assert "max_iterations: 9" in config(cli)


def test_what_was_kept_before_a_stop_can_be_undone(cli: Any, answers: Answers) -> None:
    code, said = answers("7", model_only=False)
    assert (code, "Stopped" in said) == (1, True)
    assert cli("model").out.startswith("local:")
    cli("setup", "--undo")
    assert not (cli.home / "config.yaml").exists()


def test_a_record_that_is_torn(cli: Any, answers: Answers) -> None:
    answers("7")
    (cli.home / "backups" / "before-setup" / "record.json").write_text("{")
    assert "cannot be read" in cli.fails("setup", "--undo", code=1)
    assert "local" in config(cli)


def test_a_file_that_cannot_be_read_is_named_and_left(cli: Any) -> None:
    (cli.home / ".env").write_bytes(b"# caf\xe9\nX=1\n")
    assert "is not UTF-8 text" in cli.fails("setup", "--yes")
    assert (cli.home / ".env").read_bytes() == b"# caf\xe9\nX=1\n"


# In a script, and the program as a whole


def test_without_questions(cli: Any, server: Any, answers: Answers) -> None:
    found = LocalServer("Ollama", server.url, "qwen3:8b")
    server.say("here")
    code, said = answers(is_silent=True, model_only=False, servers=(found,))
    assert code == 0, said
    assert cli("model").out == "custom:qwen3:8b\n"
    server.refuse(500)
    (cli.home / "config.yaml").unlink()
    code, said = answers(is_silent=True, model_only=False, servers=(found,))
    assert code == 1
    assert "Nobody is there to be asked" in said


def test_the_command_reads_piped_answers_and_ends_with_an_answer(hermes: Any, server: Any) -> None:
    server.say("here")
    server.say("Hello from the model.")
    done = hermes.run("setup", "--model-only", stdin=f"6\n{server.url}\nkey\nother-model\n")
    assert done.returncode == 0, done
    assert done.stdout.index("Hello from the model.") < done.stdout.index("Ready.")
    assert "other-model" in (Path(hermes.home) / ".hermes" / "config.yaml").read_text()
    assert hermes.run("setup", "--no-check").returncode == 1


@pytest.mark.parametrize("answers", [True, False])
def test_a_script_sets_it_up_and_ends_with_an_answer(
    hermes: Any, server: Any, answers: bool
) -> None:
    home = Path(hermes.home) / ".hermes"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(
        f"model: {{provider: custom, default: mine, base_url: '{server.url}', api_key: k}}\n"
    )
    if answers:
        server.say("Hello.")
    else:
        server.refuse(401)
    done = hermes.run("setup", "--yes")
    assert done.returncode == (0 if answers else 1), done
    assert ("Hello." in done.stdout) is answers
    assert ("hermes doctor says what may be wrong" in done.stdout) is not answers
    assert "custom:mine, as it is configured" in done.stdout
