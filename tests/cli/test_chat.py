"""`hermes chat` without a terminal: one question, one answer, an honest exit code."""

from __future__ import annotations

from pathlib import Path

from .conftest import Hermes, ModelServer


def test_one_question_quietly(hermes: Hermes, server: ModelServer) -> None:
    server.say("Par", "is.")
    done = hermes.run("chat", "-Q", "-q", "Capital of France?")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Paris.\n", "")
    with hermes.store() as db:
        (session,) = db.list_sessions_rich()
        assert (session["end_reason"], session["source"]) == ("cli_close", "cli")
        assert [m["content"] for m in db.get_messages(session["id"])] == [
            "Capital of France?",
            "Paris.",
        ]


def test_a_question_on_standard_input(hermes: Hermes, server: ModelServer) -> None:
    server.say("Paris.")
    done = hermes.run(stdin="Capital of France?\n")
    assert (done.returncode, done.stdout) == (0, "Paris.\n")
    assert "--resume" in done.stderr


def test_a_question_about_what_is_piped_in(hermes: Hermes, server: ModelServer) -> None:
    server.say("A list.")
    hermes.run("-q", "What is this?", stdin="one\ntwo\n")
    assert server.requests[0]["messages"][-1]["content"] == "What is this?\n\none\ntwo"


def test_conversations_go_on(hermes: Hermes, server: ModelServer) -> None:
    for answer in ("one", "two", "three", "four"):
        server.say(answer)
    hermes.run("-Q", "-q", "a")
    with hermes.store() as db:
        session_id = db.list_sessions_rich()[0]["id"]
        db.set_session_title(session_id, "Counting")
    assert hermes.run("-Q", "-q", "b", "--resume", session_id).returncode == 0
    assert hermes.run("-Q", "-q", "c", "--resume", "Counting").returncode == 0
    assert hermes.run("chat", "-Q", "-q", "d", "--continue").stdout == "four\n"
    with hermes.store() as db:
        assert db.session_count() == 1
        texts = [m["content"] for m in db.get_messages(session_id)]
    assert texts == ["a", "one", "b", "two", "c", "three", "d", "four"]
    systems = {request["messages"][0]["content"] for request in server.requests}
    assert len(systems) == 1


def test_what_a_person_can_put_right_is_said_plainly(hermes: Hermes, server: ModelServer) -> None:
    for arguments, stdin, expected in (
        (["--resume", "nothing", "-q", "x"], None, "There is no conversation 'nothing'"),
        (["--continue", "-q", "x"], None, "no conversation to continue"),
        ([], "  \n", "Nothing was asked"),
        (["--nonsense"], None, "what is '--nonsense' for?"),
        (["nonsense"], None, "there is no command 'nonsense'"),
    ):
        done = hermes.run(*arguments, stdin=stdin)
        assert (done.returncode, done.stdout) == (2, "")
        assert expected in done.stderr
        assert "Traceback" not in done.stderr
    with hermes.store() as db:
        assert db.session_count() == 0


def test_a_broken_configuration_names_the_place(bare_hermes: Hermes) -> None:
    bare_hermes.configure("model: [unclosed\n")
    done = bare_hermes.run("-q", "x")
    assert done.returncode == 2
    assert "config.yaml, line 2" in done.stderr
    bare_hermes.configure("model:\n  default: x\n  provider: opanai\n")
    done = bare_hermes.run("-q", "x")
    assert done.returncode == 2
    assert "openai" in done.stderr


def test_a_provider_that_refuses_is_an_error_and_kept(hermes: Hermes, server: ModelServer) -> None:
    server.refuse(401)
    done = hermes.run("-Q", "-q", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "key" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    with hermes.store() as db:
        session = db.list_sessions_rich()[0]
        assert [m["role"] for m in db.get_messages(session["id"])] == ["user", "assistant"]


def test_version_and_help() -> None:
    hermes = Hermes(Path("/"))
    assert hermes.run("--version").stdout.startswith("hermes ")
    assert hermes.run("version").stdout.startswith(hermes.run("--version").stdout)
    assert "examples:" in hermes.run("--help").stdout


def test_files_of_the_home_are_private(hermes: Hermes, server: ModelServer) -> None:
    server.say("ok")
    hermes.run("-Q", "-q", "x")
    home = hermes.home / ".hermes"
    for path in (home / "state.db", *(home / "logs").glob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
