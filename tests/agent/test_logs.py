"""Log files: private, rotated without loss by several processes, redacted, never on stdout."""

from __future__ import annotations

import contextvars
import json
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config.schema import LoggingSettings
from agent.logs import setup_logging, stop_logging
from hermes_base.session_context import set_current_session_id


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    stop_logging()
    root.setLevel(level)


def test_records_go_to_the_files_of_their_level_and_nowhere_else(tmp_path, capfd):
    folder = setup_logging(tmp_path)
    log = logging.getLogger("agent.something")
    log.debug("too fine")
    log.info("started %s", "well")
    log.warning("odd")
    logging.getLogger("httpx").info("GET http://example/ 200")
    agent = (folder / "agent.log").read_text()
    assert "INFO agent.something: started well" in agent
    assert "WARNING agent.something: odd" in agent
    assert "too fine" not in agent
    assert "GET" not in agent
    assert "started" not in (folder / "errors.log").read_text()
    assert "odd" in (folder / "errors.log").read_text()
    assert capfd.readouterr() == ("", "")


def test_secrets_are_redacted_in_messages_arguments_and_tracebacks(tmp_path):
    folder = setup_logging(tmp_path)
    secret = "sk-ant-" + "Zz9" * 12
    log = logging.getLogger("x")
    log.info("using %s", secret)
    try:
        raise ValueError(f"refused {secret}")
    except ValueError:
        log.exception("failed with password=%s", "hunter22")
    text = (folder / "agent.log").read_text() + (folder / "errors.log").read_text()
    assert secret not in text
    assert "hunter22" not in text
    assert "ValueError: refused sk-ant-***" in text


def test_the_session_is_named(tmp_path):
    folder = setup_logging(tmp_path)

    def in_a_session() -> None:
        set_current_session_id("20260101_000000_abcdef")
        logging.getLogger("x").info("hello")

    contextvars.Context().run(in_a_session)
    assert "x [20260101_000000_abcdef]: hello" in (folder / "agent.log").read_text()


def test_files_are_private_and_rotated(tmp_path):
    folder = setup_logging(tmp_path, LoggingSettings(max_size_mb=0.01, backup_count=2))
    log = logging.getLogger("x")
    for number in range(600):
        log.info("line %d %s", number, "." * 40)
    names = sorted(path.name for path in folder.glob("agent.log*"))
    assert names == ["agent.log", "agent.log.1", "agent.log.2"]
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_size <= 11_000


def test_a_folder_that_is_gone_disturbs_nobody(tmp_path, capfd):
    folder = setup_logging(tmp_path)
    log = logging.getLogger("x")
    log.info("before")
    shutil.rmtree(folder)
    log.info("lost")
    log.info("lost, too")
    folder.mkdir()
    log.info("after")
    stop_logging()
    assert "after" in (folder / "agent.log").read_text()
    assert capfd.readouterr().err == ""


def test_a_second_setup_replaces_the_first(tmp_path):
    setup_logging(tmp_path / "one")
    folder = setup_logging(tmp_path / "two", LoggingSettings(level="DEBUG"))
    logging.getLogger("x").debug("once")
    assert (folder / "agent.log").read_text().count("once") == 1
    assert not (tmp_path / "one" / "logs" / "agent.log").exists()


WRITER = """
import logging, sys
from pathlib import Path
from agent.config.schema import LoggingSettings
from agent.logs import setup_logging
setup_logging(Path(sys.argv[1]), LoggingSettings(max_size_mb=0.02, backup_count=100))
for number in range(400):
    logging.getLogger("w").info("writer %s line %d end", sys.argv[2], number)
"""


def test_processes_that_rotate_at_the_same_time_lose_nothing(tmp_path: Path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "abc"
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    files = list((tmp_path / "logs").glob("agent.log*"))
    assert len(files) > 2
    found = re.findall(r"writer (\w) line (\d+) end\n", "".join(f.read_text() for f in files))
    assert len(found) == len(set(found)) == 1200


def test_a_gateway_keeps_what_is_its_own_in_a_file_of_its_own(tmp_path):
    folder = setup_logging(tmp_path, gateway=True)
    logging.getLogger("gateway.chat_turns").info("a turn")
    logging.getLogger("agent.loop").info("a step")
    own = (folder / "gateway.log").read_text()
    assert "a turn" in own
    assert "a step" not in own
    assert "a turn" in (folder / "agent.log").read_text()
    setup_logging(tmp_path / "other")
    logging.getLogger("gateway.chat_turns").info("no gateway")
    assert not (tmp_path / "other" / "logs" / "gateway.log").exists()


def test_lines_for_programs(tmp_path):
    folder = setup_logging(tmp_path, LoggingSettings(format="json"))
    secret = "sk-ant-" + "Zz9" * 12

    def work() -> None:
        set_current_session_id("s1")
        try:
            raise ValueError(f'refused "{secret}"')
        except ValueError:
            logging.getLogger("x").exception('two\nlines, api_key="%s"', secret)

    contextvars.copy_context().run(work)
    logging.getLogger("y").info("outside")
    first, second = map(json.loads, (folder / "agent.log").read_text().splitlines())
    assert (first["level"], first["logger"], first["session"]) == ("ERROR", "x", "s1")
    assert first["message"].startswith("two\nlines")
    assert "ValueError: refused" in first["exception"]
    assert secret not in json.dumps(first)
    assert (second["message"], second["session"]) == ("outside", None)
