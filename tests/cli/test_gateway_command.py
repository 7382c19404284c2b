"""`hermes gateway` and `hermes pairing`, as somebody at a terminal uses them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.config.env import parse_dotenv
from gateway import process
from gateway.status import GatewayLock, GatewayRunningError, running_pid
from gateway.systemd import UNIT_NAME, install_unit, quoted, stop_command
from hermes_cli.gateway_setup import set_up, write_env
from hermes_state import SessionDB

from .. import forked, seeds, skips


def hermes(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "HERMES_HOME": str(home)}
    if args[0] != "gateway" or args[1] in ("status", "stop"):
        return forked.run([str(Path(sys.executable).with_name("hermes")), *args], environ=environ)
    # How a gateway begins, and begins again, depends on how this process has.
    return subprocess.run(
        [sys.executable, "-m", "hermes_cli.main", *args],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_gateway_from_start_to_stop(tmp_path: Path) -> None:
    assert hermes(tmp_path, "gateway", "status").returncode == 3
    started = hermes(tmp_path, "gateway", "start")
    assert started.returncode == 0, started.stderr
    try:
        shown = json.loads(hermes(tmp_path, "gateway", "status", "--json").stdout)
        assert shown["state"] == "running"
        assert str(shown["pid"]) in started.stdout
        again = hermes(tmp_path, "gateway", "start")
        assert again.returncode == 2
        assert "running for this home already" in again.stderr
        restarted = hermes(tmp_path, "gateway", "restart")
        assert restarted.returncode == 0, restarted.stderr
        assert running_pid(tmp_path) == shown["pid"], "it executes itself again"
        again = json.loads(hermes(tmp_path, "gateway", "status", "--json").stdout)
        assert again["started_at"] > shown["started_at"]
        assert again["turns_running"] == again["waiting"] == 0
    finally:
        stopped = hermes(tmp_path, "gateway", "stop")
    assert "has ended" in stopped.stdout
    assert "No gateway was running" in hermes(tmp_path, "gateway", "stop").stdout
    assert (tmp_path / ".clean_shutdown").exists()


def test_a_gateway_that_works_is_not_ended_for_a_restart_that_would_fail(tmp_path: Path) -> None:
    assert hermes(tmp_path, "gateway", "restart").returncode == 0, "none ran: one is started"
    pid = running_pid(tmp_path)
    try:
        (tmp_path / "config.yaml").write_text("model: {provider: nowhere}\n")
        refused = hermes(tmp_path, "gateway", "restart")
        assert (refused.returncode, "nowhere" in refused.stderr) == (2, True)
        (tmp_path / "config.yaml").write_text("")
        loop = tmp_path / "gateway" / "restart_loop.json"
        loop.write_text(json.dumps({"restarts": [time.time()] * 3}))
        refused = hermes(tmp_path, "gateway", "restart")
        assert (refused.returncode, "3 times" in refused.stderr) == (2, True)
        assert pid is not None
        os.kill(pid, signal.SIGUSR1)
        while "No restart" not in (tmp_path / "logs" / "gateway.log").read_text():
            time.sleep(0.01)
        assert running_pid(tmp_path) == pid
    finally:
        hermes(tmp_path, "gateway", "stop")


def test_a_killed_gateway_does_not_block_the_next(tmp_path: Path) -> None:
    hermes(tmp_path, "gateway", "start")
    pid = running_pid(tmp_path)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while running_pid(tmp_path) is not None:
        pass
    assert not (tmp_path / ".clean_shutdown").exists()
    assert hermes(tmp_path, "gateway", "start").returncode == 0
    hermes(tmp_path, "gateway", "stop")


def test_one_gateway_per_home(tmp_path: Path) -> None:
    first, second = GatewayLock(tmp_path), GatewayLock(tmp_path)
    first.acquire()
    with pytest.raises(GatewayRunningError, match=str(os.getpid())):
        second.acquire()
    assert running_pid(tmp_path) == os.getpid()
    first.release()
    assert running_pid(tmp_path) is None
    second.acquire()
    second.release()


def test_pairing_by_command(tmp_path: Path) -> None:
    assert "Nobody yet" in hermes(tmp_path, "pairing", "list").stdout
    with SessionDB(tmp_path / "state.db") as db:
        code = db.offer_pairing("telegram", "42", "Ann")
    assert code is not None
    assert "asks to be let in" in hermes(tmp_path, "pairing", "list").stdout
    wrong = hermes(tmp_path, "pairing", "approve", "NOPE")
    assert (wrong.returncode, "wrong" in wrong.stderr) == (1, True)
    assert "Ann may now talk on telegram" in hermes(tmp_path, "pairing", "approve", code).stdout
    assert "may talk" in hermes(tmp_path, "pairing", "list").stdout
    assert hermes(tmp_path, "pairing", "revoke", "telegram", "42").returncode == 0
    assert hermes(tmp_path, "pairing", "revoke", "telegram", "42").returncode == 1


def test_a_bad_configuration_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: {provider: nowhere}\n")
    ended = hermes(tmp_path, "gateway", "run")
    assert ended.returncode == 2
    assert "nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_gateway_in_the_foreground_says_what_is_not_connected(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "config.yaml").write_text(
            f"platforms: {{api_server: {{enabled: true, port: {port}}}}}\n"
        )
        running = subprocess.Popen(
            [sys.executable, "-m", "hermes_cli.main", "gateway", "run"],
            env={**os.environ, "HERMES_HOME": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert running.stderr is not None
        try:
            assert "The gateway runs with api_server" in running.stderr.readline()
            assert "api_server is not connected" in running.stderr.readline()
        finally:
            running.terminate()
            running.communicate(timeout=60)


def test_setting_telegram_up(tmp_path: Path) -> None:
    token = "123456789:" + "a" * 35
    said: list[str] = []
    answers = iter(["1", "42"])
    assert set_up(tmp_path, lambda _: next(answers), lambda _: token, said.append) == 0
    kept = (tmp_path / ".env").read_text()
    assert f"TELEGRAM_BOT_TOKEN={token}" in kept
    assert "TELEGRAM_ALLOWED_USERS=42" in kept
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert token not in "".join(said)


@pytest.mark.parametrize(("first", "token"), [("99", ""), ("1", "not a token")])
def test_a_wrong_answer_changes_nothing(tmp_path: Path, first: str, token: str) -> None:
    said: list[str] = []
    assert set_up(tmp_path, lambda _: first, lambda _: token, said.append) == 1
    assert not (tmp_path / ".env").exists()
    assert "Nothing was changed" in said[-1]


def test_other_lines_of_the_env_file_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# mine\nOTHER=1\nMATRIX_PASSWORD=old\n")
    write_env(path, {"MATRIX_PASSWORD": "new one", "EMPTY": ""})
    assert path.read_text() == "# mine\nOTHER=1\nMATRIX_PASSWORD='new one'\n"


@given(st.text(min_size=1).filter(lambda text: text.isprintable() or "\n" in text or "\r" in text))
@settings(
    max_examples=seeds.examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example("it's 5\" of \\ and 'more' #1 = ${HOME}")
@example("a\r\nb'c")
@example(" leading and trailing ")
def test_a_password_is_read_back_as_it_was_given(tmp_path: Path, password: str) -> None:
    path = tmp_path / ".env"
    path.write_text("OTHER=1\n")
    write_env(path, {"MATRIX_PASSWORD": password, "MATRIX_USER_ID": "@me:here"})
    found, bad = parse_dotenv(path.read_text(encoding="utf-8"))
    assert found == {"OTHER": "1", "MATRIX_PASSWORD": password, "MATRIX_USER_ID": "@me:here"}
    assert bad == []


def test_a_unit_for_systemd(tmp_path: Path) -> None:
    path = install_unit(Path("/home/x/.hermes"), tmp_path)
    text = path.read_text()
    assert f'ExecStart="{sys.executable}" -m hermes_cli.main gateway run' in text
    assert 'Environment="HERMES_HOME=/home/x/.hermes"' in text
    assert "UMask=0077" in text


def read_word(written: str) -> str:
    """A quoted word as systemd reads it: escapes first, then specifiers."""
    assert written[0] == written[-1] == '"'
    inner = re.sub(r'(?<!\\)(?:\\\\)*"', "", written[1:-1])
    assert inner == written[1:-1], "a quote ends it early"
    assert "\n" not in written
    known = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}
    text = re.sub(r"\\(.)", lambda found: known[found[1]], inner)
    assert "%" not in text.replace("%%", "")
    return text.replace("%%", "%")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
@example('/srv/my "own" 100% home\\x\n\t')
def test_a_home_of_any_name_stays_one_word(name: str) -> None:
    assert read_word(quoted(name)) == name


@skips.needs("systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    home = tmp_path / 'my "own" 100% home'
    path = install_unit(home, tmp_path)
    said = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(path)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    about_it = [line for line in said.stderr.splitlines() if UNIT_NAME in line]
    assert about_it == []


@pytest.mark.parametrize(
    ("group", "environ", "command"),
    [
        (
            "0::/user.slice/user-7.slice/user@7.service/app.slice/hermes-gateway.service",
            "A=1\0SYSTEMD_EXEC_PID=42\0",
            "systemctl --user stop hermes-gateway.service",
        ),
        ("0::/system.slice/hermes.service", "SYSTEMD_EXEC_PID=42", "systemctl stop hermes.service"),
        ("0::/system.slice/editor.service", "SYSTEMD_EXEC_PID=7\0B=2", None),
        ("0::/user.slice/user-7.slice/session-3.scope", "A=1", None),
        ("0::/user.slice/user-7.slice/user@7.service", "SYSTEMD_EXEC_PID=42", None),
    ],
)
def test_who_keeps_a_process_running(
    tmp_path: Path, group: str, environ: str, command: str | None
) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42/cgroup").write_text(group + "\n")
    (tmp_path / "42/environ").write_text(environ)
    assert stop_command(42, tmp_path) == command
    assert stop_command(43, tmp_path) is None


def test_a_gateway_that_systemd_keeps_is_not_stopped_behind_its_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "stop_command", lambda pid: "systemctl --user stop it.service")
    lock = GatewayLock(tmp_path)
    lock.acquire()
    try:
        with pytest.raises(RuntimeError, match=r"Stop it with: systemctl --user stop it\.service"):
            process.stop_gateway(tmp_path)
        assert running_pid(tmp_path) == os.getpid()
    finally:
        lock.release()
