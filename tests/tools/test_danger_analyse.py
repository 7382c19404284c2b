"""What the analysis takes into account besides the command, and how much work it makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.danger.analyse import LONGEST, analyse
from tools.danger.budget import Budget

from .. import seeds


@pytest.fixture
def look(tmp_path: Path) -> Callable[..., dict[str, bool]]:
    """Analyse for somebody who works in project/; gives pattern keys, and whether each is hard."""
    (tmp_path / "project").mkdir()

    def run(command: str, **given: Any) -> dict[str, bool]:
        found = analyse(
            command,
            tmp_path / "project",
            home=tmp_path / ".hermes",
            user_home=tmp_path,
            **given,
        )
        return {finding.pattern_key: finding.hard for finding in found}

    return run


def test_variables_that_were_set_before(look: Any) -> None:
    assert look("$TOOL -rf /") == {"unclear": False}
    assert look("$TOOL -rf /", environ={"TOOL": "rm"}) == {"delete-everything": True}
    assert look("$TOOL -la", environ={"TOOL": "ls"}) == {}


def test_where_a_command_starts(look: Any, tmp_path: Path) -> None:
    assert look("cat shadow") == {}
    assert look("cat shadow", start=Path("/etc")) == {"credentials": False}
    assert look("rm -rf *", start=Path("/")) == {"delete-everything": True}
    assert look("echo x > y", start=Path("..")) == {"write-outside": False}
    assert look("echo x > y", start=Path("src")) == {}
    assert look("cat .env", start=tmp_path / ".hermes") == {"own-credentials": True}


def test_what_is_typed_into_a_program(look: Any) -> None:
    assert look("bash", stdin="ls\n") == {}
    assert look("bash -i", stdin="rm -rf /\n") == {"delete-everything": True}
    assert look("python3 -i", stdin="import os; os.remove('x')\n") == {"code": False}
    assert look("cat", stdin="rm -rf /\n") == {}


def test_the_deny_list_sees_what_is_meant(look: Any) -> None:
    for command in ("git push", "g\\it 'push'", "X=push; git $X", "bash -c 'git   push'"):
        assert look(command, deny=["git push"]) == {"denied:git push": True}
    assert look("echo git pull", deny=["git push"]) == {}
    assert look("f(x)", deny=["f("])["denied:f("] is True  # not a pattern: taken as text


def test_scripts_on_disk_must_not_do_what_must_never_be_done(look: Any, tmp_path: Path) -> None:
    script = tmp_path / "project" / "clean.sh"
    script.write_text('#!/bin/sh\nrm -rf "$1" old\n')
    assert look("sh clean.sh build") == {}
    script.write_text("#!/bin/sh\necho hi\nrm -rf /\n")
    for command in ("sh clean.sh", "./clean.sh", ". ./clean.sh", "bash < clean.sh"):
        assert look(command), command
    assert look("./clean.sh") == {"delete-everything": True}


def test_a_link_is_what_it_leads_to(look: Any, tmp_path: Path) -> None:
    (tmp_path / ".hermes").mkdir()
    (tmp_path / ".hermes" / ".env").write_text("KEY=x")
    project = tmp_path / "project"
    (project / "notes").symlink_to(tmp_path / ".hermes" / ".env")
    (project / "away").symlink_to(tmp_path)
    (project / "build").symlink_to(tmp_path)
    assert look("cat notes") == {"own-credentials": True}
    assert look("echo x > away/file") == {"write-outside": False}
    assert look("rm -rf build") == {"delete-everything": True}


def test_a_shell_that_knows_less_reads_differently(look: Any) -> None:
    hidden = "eval $'\\x23;rm -rf /'"  # a comment for bash, two commands for others
    assert look(hidden) == {}
    assert look(hidden, is_plain_sh=True)["delete-everything"] is True
    assert look(f'sh -c "{hidden}"')["delete-everything"] is True
    assert look("echo a &>b rm -rf /")


def test_a_finding_says_what_it_is_about(tmp_path: Path) -> None:
    (finding,) = analyse("rm -rf /etc", tmp_path)
    assert (finding.pattern_key, finding.hard) == ("delete-everything", True)
    assert "/etc" in finding.description


# Work is counted, and a command that makes too much of it is not let through.

PIECES = [
    "a", "(", "$(", "`", "'", '"', '"$', "{a,", "{a,b}", "a;", "X=1;", "x=$x$x;", "\\", "<<E\n",
    "f(){ f;};", "[[ ", "$((", "((", "*", "[a", "a&&", "a||", "echo a|", "cat /etc/x ", "${x:-",
    "$'", "#", "bash -c ", "eval ", "xargs ", "env ", "sudo ", "if a;then b;fi;", "a=(b c);",
    "for x in a b;do c;done;", "case a in b)c;;esac;", "echo a>>b;", "cd a&&", "../", "?(", "~",
    "python3 -c '1';", "sed s/a/b/ f;", "\u200b", "\x1b", "ｒ", "printf %s a|",
    "f(){ g;g;};g(){ f;};",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_work_grows_no_faster_than_the_command(piece: str, tmp_path: Path) -> None:
    spent = []
    for size in (2_500, 5_000):
        budget = Budget()
        analyse((piece * size)[:size], tmp_path, budget=budget)
        spent.append(budget.spent)
    assert spent[1] <= 2.5 * spent[0] or spent[1] >= Budget().limit


@pytest.mark.parametrize("command", ["eval " * 20_000 + "x", "[[ " * 33_000, "(" * 100_000])
def test_what_makes_too_much_work_is_asked(command: str, tmp_path: Path) -> None:
    budget = Budget()
    assert analyse(command, tmp_path, budget=budget)
    assert budget.spent <= budget.limit + len(command)


def test_functions_that_double_end_somewhere(tmp_path: Path) -> None:
    doubling = "".join(f"f{n + 1}() {{ f{n}; f{n}; }}; " for n in range(60))
    found = analyse(f"f0() {{ ls; }}; {doubling} f60", tmp_path)
    assert "complex" in {finding.pattern_key for finding in found}


@pytest.mark.parametrize(
    ("command", "is_asked"),
    [
        ("awk '{ print $1 | \"sh\" }' f", True),
        ("awk '{ print $1 |\n  \"sh\" }' f", True),
        ("awk '{ print $1; x = a | b }' f", False),
        ("awk '/a|b/ { print }' f", False),
        ("sed -n '1p \n   e date' f", True),
        ("sed 's/a/b/;  w out' f", False),
        ("ruby -e 'open(\"| ls\")'", True),
        ("ruby -e 'x = opener; z > 1'", False),
        (f"chmod {'u+r,' * 50}o+w f", True),
        ("psql -c 'select 1 /* ; drop table a */'", False),
        ("psql -c 'select 1 /* unfinished; drop table a'", True),
    ],
)
def test_what_is_looked_at_once_is_seen_all_the_same(
    look: Any, command: str, is_asked: bool
) -> None:
    assert bool(look(command)) == is_asked


def test_a_command_too_long_is_asked_and_what_is_denied_stays_so(tmp_path: Path) -> None:
    command = "#" * LONGEST + "\nmkfs /dev/sda"
    assert [one.pattern_key for one in analyse(command, tmp_path)] == ["complex"]
    assert analyse(command, tmp_path, deny=["mkfs"])[0].hard


def test_a_long_command_is_looked_through_and_a_longer_one_asked(tmp_path: Path) -> None:
    text = "cat > notes <<'EOF'\n" + "a line of text, `with` $signs\n" * 3_000 + "EOF\n"
    assert len(text) > 85_000
    assert analyse(text, tmp_path) == []
    assert analyse(text + "rm -rf /", tmp_path)[0].hard
    assert analyse("#" * (LONGEST + 1), tmp_path)


@settings(max_examples=seeds.examples(60), deadline=None)
@given(
    st.lists(st.sampled_from([*PIECES, " ", "\n", "rm ", "x", "}", ")", "fi", "done"]), max_size=30)
)
def test_no_mixture_makes_it_fail(pieces: list[str]) -> None:
    assert isinstance(analyse("".join(pieces), Path("/home/ada/project")), list)
