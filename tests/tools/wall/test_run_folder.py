"""The folder of a wall: what the agent reads and writes there cannot be turned against it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from tools.base import ToolContext, ToolError
from tools.code_execution import execute_code
from tools.processes.ledger import RUN_FOLDER
from tools.wall.guardhouse import guardhouse_of

from ... import seeds

Run = Callable[..., str]
_FOLDER = "F=$(dirname $(dirname $(find ~/.hermes/tool-runs -name command | head -1)));"
"""The folder of the conversation's walls, as a command finds it."""


def _soon(work: Callable[[], object]) -> None:
    """It must come to an end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "the agent waits for ever"


@pytest.mark.parametrize(
    "trick",
    [
        "rm -f $S; mkfifo $S",
        "rm -f $S; ln -s /dev/zero $S",
        "rm -f $S; mkdir $S",
        "rm -f $S; ln -s ~/.ssh/id_ed25519 $S",
        "truncate -s 1T $S",
        "rm -rf $(dirname $S)",
        "trap - EXIT; (printf '/%05000d\\0A=b\\0.\\0' 1) > $S; kill -9 $$",
        "trap - EXIT; (printf 'relative\\0A=b\\0.\\0') > $S; kill -9 $$",
    ],
)
def test_the_state_that_a_command_leaves_is_read_with_care(run: Run, trick: str) -> None:
    find = "S=$(find ~/.hermes/tool-runs -type f -name 'state*' | head -1);"
    _soon(lambda: run(f"{find} {trick}"))
    results: list[str] = []
    _soon(lambda: results.append(run("echo next")))
    assert results == ["next"]


@pytest.mark.parametrize("target", ["outside", ".ssh", ".hermes"])
def test_the_next_wall_does_not_follow_links_out_of_the_folder(
    run: Run, walled: ToolContext, target: str
) -> None:
    person = walled.workspace.root.parent
    (person / "outside").mkdir()
    (person / target / "secret").write_text("stolen")
    run(
        f"{_FOLDER} rm -rf $F/tmp $F/empty; mv $F/tmp $F/moved; ln -s ~/{target} $F/tmp;"
        f" ln -s ~/{target}/secret $F/empty; mkdir ~/.cache/mozilla"
    )
    text = run(
        f"cat /tmp/secret $TMPDIR/secret ~/.netrc; echo evil > /tmp/evil;"
        f" {_FOLDER} echo evil > $F/tmp/evil; true"
    )
    assert "stolen" not in text
    assert not (person / target / "evil").exists()


@pytest.mark.fuzz
def test_the_agent_does_not_write_through_links_in_the_folder(
    run: Run, walled: ToolContext
) -> None:
    """Something in the background replaces what the agent has just made, as fast as it can."""
    person = walled.workspace.root.parent
    swap = (
        "import os, sys, time\n"
        "folder, target, end = sys.argv[1], sys.argv[2], time.time() + 20\n"
        "known = set(os.listdir(folder))\n"
        "while time.time() < end and not os.path.exists('stop'):\n"
        "    for name in os.listdir(folder):\n"
        "        if name in known: continue\n"
        "        for part in ('command', 'script.py', 'state'):\n"
        "            try: os.symlink(target, f'{folder}/{name}/{part}')\n"
        "            except OSError: pass\n"
        "        try: os.rename(f'{folder}/{name}', f'{folder}/{name}.old')\n"
        "        except OSError: continue\n"
        "        known.add(name); known.add(name + '.old')\n"
        "        os.mkdir(f'{folder}/{name}')\n"
        "        for part in ('command', 'script.py', 'state'):\n"
        "            os.symlink(target, f'{folder}/{name}/{part}')\n"
    )
    (walled.workspace.root / "swap.py").write_text(swap)
    run(
        f"{_FOLDER} for d in $F $F/tmp $F/state; do"
        f" python3 swap.py $d {person}/evil >/dev/null 2>&1 & done"
    )
    for _ in range(seeds.times(6, 40)):
        for call in (
            lambda: run("echo evil"),
            lambda: execute_code.run(walled, code="print('evil')"),
        ):
            with suppress(ToolError, OSError):  # it may fail, if only nothing is written
                call()
    (walled.workspace.root / "stop").touch()
    assert not (person / "evil").exists()


def test_a_deep_tree_in_it_is_deleted_with_it(run: Run, walled: ToolContext) -> None:
    from tools.terminal.tool import close_terminal

    # Its path is longer than the system takes in one piece.
    deep = "import os\nfor _ in range(2100):\n    os.mkdir('d'); os.chdir('d')\n"
    (walled.workspace.root / "deep.py").write_text(deep)
    run(
        f"{_FOLDER} P=$PWD; for d in /tmp $F/tmp $F/state $F/*/; do (cd $d && python3 $P/deep.py);"
        " done; true"
    )
    text = execute_code.run(walled, code=deep + "print('made')")
    assert "made" in str(text)
    close_terminal(walled.workspace)
    assert list((walled.workspace.home / RUN_FOLDER).iterdir()) == []


def test_only_what_has_to_be_written_can_be(run: Run, walled: ToolContext) -> None:
    guardhouse = guardhouse_of(walled.workspace)
    assert guardhouse is not None
    run(f"{_FOLDER} touch $F/new; echo evil > $F/empty; rm -rf $F/tmp $F/state; true")
    assert guardhouse.folder.is_dir()
    assert not (guardhouse.folder / "new").exists()
    assert (guardhouse.folder / "empty").read_bytes() == b""
    assert (guardhouse.folder / "tmp").is_dir()
    assert (guardhouse.folder / "state").is_dir()
