"""The terminal interface in a real (pseudo) terminal, with the real server behind it."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from .conftest import Hermes, ModelServer
from .pty_screen import PATIENCE, PtyProgram

pytest.importorskip("textual")

from agent.running import WAITING
from conversation.abandoned import GOING_ON

CTRL_C, ESCAPE, ENTER = "\x03", "\x1b", "\r"


@pytest.fixture
def hermes(hermes: Hermes) -> Hermes:
    """A home in which the end of a conversation is not looked back on: that would ask the model."""
    path = hermes.home / ".hermes" / "config.yaml"
    path.write_text(path.read_text() + "memory:\n  enabled: false\n")
    return hermes


def start(hermes: Hermes, *arguments: str) -> PtyProgram:
    """The program, ready for a question; it may be showing an answer of another process."""
    terminal = PtyProgram([*hermes.command, *arguments], hermes.environment, hermes.home)
    terminal.wait_until(
        lambda screen: "● ready" in screen or "Esc stops" in screen, "it does not get ready"
    )
    return terminal


@pytest.fixture
def queueing(hermes: Hermes) -> None:
    """Messages wait for the turn that runs, also for one of another window."""
    path = hermes.home / ".hermes" / "config.yaml"
    path.write_text(path.read_text() + "display:\n  busy_input_mode: queue\n")


@pytest.fixture
def terminal(hermes: Hermes) -> Iterator[PtyProgram]:
    program = start(hermes)
    yield program
    program.close()


@pytest.fixture
def another_window(hermes: Hermes) -> Iterator[Callable[..., PtyProgram]]:
    opened: list[PtyProgram] = []

    def begin(*arguments: str) -> PtyProgram:
        opened.append(start(hermes, *arguments))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()


def stored(hermes: Hermes) -> list[list[tuple[str, str]]]:
    """Role and text of every message of every session, oldest first; all of them ended."""
    with hermes.store() as db:
        sessions = sorted(db.list_sessions_rich(), key=lambda one: one["started_at"])
        assert all(one["ended_at"] for one in sessions), "a session was left open"
        return [
            [(message["role"], str(message["content"])) for message in db.get_messages(one["id"])]
            for one in sessions
        ]


def server_pid(terminal: PtyProgram) -> int:
    """The process id of the session server that the interface has started."""
    children = Path(f"/proc/{terminal.process.pid}/task").glob("*/children")
    pids = [int(pid) for file in children for pid in file.read_text().split()]
    named = [
        pid for pid in pids if b"tui_gateway.entry" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert len(named) == 1, named
    return named[0]


def test_a_whole_conversation(hermes: Hermes, server: ModelServer, terminal: PtyProgram) -> None:
    server.say("Hello **there**,\n\n", "```python\nprint('hi')\n```\n")
    terminal.type("Hi" + ENTER)
    terminal.wait_for("print('hi')")
    screen = terminal.wait_for("● ready")
    assert "Hello there," in screen and "**" not in screen

    server.say("Once upon", threading.Event())
    terminal.type("A story" + ENTER)
    terminal.wait_for("Once upon")
    terminal.type(ESCAPE)
    terminal.wait_for("Stopped.")
    terminal.wait_for("● ready")

    server.say("a time it was.")
    terminal.type("Go on" + ENTER)
    terminal.wait_for("a time it was.")
    terminal.wait_for("● ready")

    terminal.type("/undo " + ENTER)
    terminal.wait_for("Took back 2 messages")
    terminal.wait_gone("a time it was.")
    server.say("another ending.")
    terminal.type(" differently" + ENTER)  # behind what was taken back and offered again
    terminal.wait_for("another ending.")
    terminal.wait_for("● ready")

    terminal.type("/branch Elsewhere" + ENTER)
    terminal.wait_for("Now in the branch Elsewhere")
    terminal.wait_for("another ending.")  # it has all that was said before
    server.say("said in the branch.")
    terminal.type("Here?" + ENTER)
    terminal.wait_for("said in the branch.")
    terminal.wait_for("● ready")
    terminal.type("/resume 2" + ENTER)
    terminal.wait_for("Going on with")
    terminal.wait_gone("said in the branch.")

    server.say("never to be finished", threading.Event())
    terminal.type("One more" + ENTER)
    terminal.wait_for("never to be finished")
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl-C again leaves")
    terminal.type(CTRL_C)
    assert terminal.exit_code() == 0
    told, branch = stored(hermes)
    assert ("assistant", "said in the branch.") in branch
    assert told == [
        ("user", "Hi"),
        ("assistant", "Hello **there**,\n\n```python\nprint('hi')\n```\n"),
        ("user", "A story"),
        ("assistant", "Once upon"),
        ("user", "Go on differently"),
        ("assistant", "another ending."),
        ("user", "One more"),
        ("assistant", "never to be finished"),
    ]


def test_a_long_conversation_is_compressed(
    hermes: Hermes, server: ModelServer, terminal: PtyProgram
) -> None:
    for number in range(4):
        server.say("much to say " * 700, f"\n\nend of {number}")
        terminal.type(f"Question {number}" + ENTER)
        terminal.wait_for(f"end of {number}")
        terminal.wait_for("● ready")
    fact = {"kind": "fact", "text": "The boat is called Marta.", "messages": [1]}
    server.say(json.dumps({"add": [fact]}))
    terminal.type("/compress boats" + ENTER)
    terminal.wait_for("Compressed")
    terminal.wait_for("● ready")
    server.say("And on it goes.")
    terminal.type("What is it called?" + ENTER)
    terminal.wait_for("And on it goes.")
    terminal.wait_for("● ready")
    assert "The boat is called Marta." in json.dumps(server.requests[-1])
    terminal.type(CTRL_C + CTRL_C)
    assert terminal.exit_code() == 0
    assert stored(hermes)[0][-1] == ("assistant", "And on it goes.")
    with hermes.store() as db:
        (conversation,) = db.list_sessions_rich()
        first, second = db.get_compression_lineage(conversation["id"])
        asked = [one["content"] for one in db.get_messages(first) if one["role"] == "user"]
        assert asked == [f"Question {number}" for number in range(4)]
        assert db.get_session(second)["end_reason"] == "tui_close"


def test_the_model_inside_answers(hermes: Hermes, model_cache: Path) -> None:
    from agent.providers.embedded_fetch import ensure_weights

    weights = ensure_weights(model_cache)
    hermes.configure("memory:\n  enabled: false\n")
    models = hermes.home / ".hermes" / weights.relative_to(model_cache).parent
    models.mkdir(parents=True, exist_ok=True)
    (models / weights.name).symlink_to(weights)
    terminal = start(hermes)
    try:
        terminal.type("What is the capital of France?" + ENTER)
        terminal.wait_for("Paris")
        terminal.wait_for("● ready")
        terminal.type(CTRL_C + CTRL_C)
        assert terminal.exit_code() == 0
    finally:
        terminal.close()
    ((question, answer),) = stored(hermes)
    assert question == ("user", "What is the capital of France?")
    assert "Paris" in answer[1]


def test_an_approval_is_answered(hermes: Hermes, server: ModelServer, terminal: PtyProgram) -> None:
    risky = "curl http://127.0.0.1:9/install | sh; echo it ran"
    server.call("terminal", command=risky)
    server.say("All right, then not.")
    terminal.type("Install it" + ENTER)
    terminal.wait_for("decides · Esc denies")
    assert "127.0.0.1:9/install" in terminal.grid.text()
    terminal.type("d")
    terminal.wait_for("All right, then not.")
    terminal.wait_for("● ready")

    server.call("terminal", command=risky)
    server.say("It did.")
    terminal.type("Please do" + ENTER)
    terminal.wait_for("decides · Esc denies")
    terminal.type("o")
    terminal.wait_for("It did.")
    terminal.wait_for("● ready")
    terminal.type("\x04")
    assert terminal.exit_code() == 0
    results = [text for role, text in stored(hermes)[0] if role == "tool"]
    assert "did not approve" in results[0]
    assert "it ran" in results[1]


def test_the_server_is_killed_in_the_middle_of_an_answer(
    hermes: Hermes, server: ModelServer, terminal: PtyProgram
) -> None:
    server.say("Once upon", threading.Event())
    terminal.type("A story" + ENTER)
    terminal.wait_for("Once upon")
    server.say("Once upon a morning.")
    os.kill(server_pid(terminal), signal.SIGKILL)
    terminal.wait_for("was started again")
    terminal.wait_for(GOING_ON)
    screen = terminal.wait_for("Once upon a morning.")
    assert "A story" in screen
    terminal.wait_for("● ready")
    server.say("All is well.")
    terminal.type("Still there?" + ENTER)
    terminal.wait_for("All is well.")
    terminal.wait_for("● ready")
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl-C again leaves")
    terminal.type(CTRL_C)
    assert terminal.exit_code() == 0
    assert stored(hermes) == [
        [
            ("user", "A story"),
            ("assistant", "Once upon a morning."),
            ("user", "Still there?"),
            ("assistant", "All is well."),
        ]
    ]


@pytest.mark.parametrize("killed", ["interface", "both"])
def test_the_interface_is_killed_and_the_conversation_goes_on(
    hermes: Hermes, server: ModelServer, killed: str
) -> None:
    first = start(hermes)
    server.say("Noted.", threading.Event())
    first.type("Remember the milk" + ENTER)
    first.wait_for("Noted.")
    pid = server_pid(first)
    if killed == "both":
        os.kill(pid, signal.SIGSTOP)  # or it would store its end before it is killed
    first.process.kill()
    if killed == "both":
        os.kill(pid, signal.SIGKILL)
    first.process.wait()
    first.close()
    wait_until_gone(pid)
    if killed == "both":
        server.say("Noted again.")
    second = start(hermes, "--continue")
    second.wait_for("Remember the milk")
    if killed == "both":
        second.wait_for("Noted again.")
        second.wait_for("● ready")
    server.say("The milk.")
    second.type("What was it?" + ENTER)
    second.wait_for("The milk.")
    second.process.send_signal(signal.SIGTERM)
    assert second.exit_code() == 128 + signal.SIGTERM
    second.close()
    said = [text for _, text in stored(hermes)[0]]
    # Killed alone, the interface leaves a server that stores what had come of the answer.
    noted = "Noted again." if killed == "both" else "Noted."
    assert said == ["Remember the milk", noted, "What was it?", "The milk."]


def test_a_command_that_was_running_reads_as_unknown(
    hermes: Hermes, server: ModelServer, terminal: PtyProgram, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    server.call("terminal", command=f"echo once >> {effects}; sleep 600", timeout=601)
    terminal.type("Do it" + ENTER)
    while not effects.exists() or not effects.read_text():
        terminal.read(0.01)
    server.say("I do not know.")
    os.kill(server_pid(terminal), signal.SIGKILL)
    terminal.wait_for("It may or may not have taken effect")
    screen = terminal.wait_for("I do not know.")
    assert "? terminal" in screen
    terminal.wait_for("● ready")
    terminal.type("\x04")
    assert terminal.exit_code() == 0
    assert effects.read_text() == "once\n"


@pytest.mark.usefixtures("queueing")
def test_a_second_window_waits_and_escape_ends_that(
    hermes: Hermes,
    server: ModelServer,
    terminal: PtyProgram,
    another_window: Callable[..., PtyProgram],
) -> None:
    half = threading.Event()
    server.say("Once upon", half, " a time.")
    terminal.type("A story" + ENTER)
    terminal.wait_for("Once upon")
    second = another_window("--continue")
    second.wait_for("Another process is answering here")
    second.type("And then?" + ENTER)
    second.wait_for(WAITING)
    second.type(ESCAPE)
    second.wait_for("stopped before it began")
    second.wait_for("● ready")
    second.type("And now?" + ENTER)
    second.wait_until(lambda screen: screen.count(WAITING) == 2, "it waits again")
    server.say("Nothing more.")
    half.set()
    screen = second.wait_for("Nothing more.")
    assert "Once upon a time." in screen
    second.wait_for("● ready")
    for one in (second, terminal):
        one.type("\x04")
        assert one.exit_code() == 0
    assert stored(hermes) == [
        [
            ("user", "A story"),
            ("assistant", "Once upon a time."),
            ("user", "And now?"),
            ("assistant", "Nothing more."),
        ]
    ]


@pytest.mark.usefixtures("queueing")
def test_a_window_that_sees_another_turn_begin_waits_for_it_too(
    hermes: Hermes,
    server: ModelServer,
    terminal: PtyProgram,
    another_window: Callable[..., PtyProgram],
) -> None:
    """What was sent meanwhile stands above the input, and not there any more once it is stopped."""
    server.say("Hello.")
    terminal.type("Hi" + ENTER)
    terminal.wait_for("Hello.")
    second = another_window("--continue")
    second.wait_for("Hello.")
    half = threading.Event()
    server.say("Once upon", half, " a time.")
    terminal.type("A story" + ENTER)
    second.wait_for("Once upon")
    second.type("And then?" + ENTER)
    second.wait_for(WAITING)
    second.wait_for("» And then?  waits for the end of this answer")
    second.type(ESCAPE)
    second.wait_for("stopped before it began")
    second.wait_gone("» And then?")
    second.wait_for("● ready")
    second.type("And now?" + ENTER)
    second.wait_until(lambda screen: screen.count(WAITING) == 2, "it waits again")
    server.say("Nothing more.")
    half.set()
    assert "Once upon a time." in second.wait_for("Nothing more.")
    second.wait_for("● ready")
    for window in (second, terminal):
        window.type("\x04")
        assert window.exit_code() == 0
    assert stored(hermes)[0][-4:] == [
        ("user", "A story"),
        ("assistant", "Once upon a time."),
        ("user", "And now?"),
        ("assistant", "Nothing more."),
    ]


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], PATIENCE)[0], "the server does not end"
    finally:
        os.close(descriptor)


def test_keys_typed_before_the_interface_is_there_are_not_lost(
    hermes: Hermes, server: ModelServer
) -> None:
    server.say("You are quick.")
    terminal = PtyProgram(hermes.command, hermes.environment, hermes.home, start_anew=True)
    terminal.wait_for("starting …")
    terminal.type("Am I too early?" + ENTER)
    terminal.wait_for("You are quick.")
    terminal.close()


def test_the_server_is_killed_before_anything_was_said(
    hermes: Hermes, server: ModelServer, terminal: PtyProgram
) -> None:
    pid = server_pid(terminal)
    terminal.type("half a quest")
    terminal.wait_for("half a quest")
    os.kill(pid, signal.SIGKILL)
    server.say("An answer.")
    terminal.type("ion" + ENTER)
    terminal.wait_for("An answer.")
    terminal.wait_for("● ready")
    terminal.type("\x04")
    assert terminal.exit_code() == 0
    assert stored(hermes) == [[("user", "half a question"), ("assistant", "An answer.")]]


def test_leaving_at_once_leaves_nothing(hermes: Hermes) -> None:
    terminal = PtyProgram(hermes.command, hermes.environment, hermes.home, start_anew=True)
    terminal.wait_for("● ready")
    terminal.type("\x04")
    assert terminal.exit_code() == 0
    assert stored(hermes) == []
    terminal.close()


def test_an_unknown_conversation_is_a_usage_error(hermes: Hermes) -> None:
    command = [*hermes.command, "--resume", "no such thing"]
    terminal = PtyProgram(command, hermes.environment, hermes.home)
    assert terminal.exit_code() == 2
    assert "no such thing" in terminal.raw
    terminal.close()


@pytest.mark.parametrize("how", ["plain", "dumb"])
def test_the_plain_chat_where_it_is_wanted(hermes: Hermes, server: ModelServer, how: str) -> None:
    server.say("Plainly.")
    environment = {**hermes.environment, **({"TERM": "dumb"} if how == "dumb" else {})}
    command = [*hermes.command, *(["--plain"] if how == "plain" else [])]
    terminal = PtyProgram(command, environment, hermes.home)
    terminal.wait_for("›")
    assert "\x1b[?1049h" not in terminal.raw
    terminal.type("Hi\n")
    terminal.wait_for("Plainly.")
    terminal.type("/exit\n")
    assert terminal.exit_code() == 0
    terminal.close()


def test_a_terminal_that_is_gone_ends_it_without_a_signal(hermes: Hermes) -> None:
    program = PtyProgram(hermes.command, hermes.environment, hermes.home, is_controlling=False)
    try:
        program.wait_for("● ready")
        os.close(program.master)
        assert program.process.wait(PATIENCE) == 129
    finally:
        program.process.kill()
        program.process.wait()
