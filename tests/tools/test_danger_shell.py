"""What real shells run is what the analysis has seen.

Random scripts are run by bash and dash, with a program `probe` that notes its arguments and hardly
anything else to be found. Whatever probe was started with must be among the commands that the
analysis came to, unless it said that it is not sure.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tools.danger.budget import Budget, TooComplex
from tools.danger.paths import Places
from tools.danger.walk import Walker

from .. import seeds, skips

PROBE = """#!/bin/sh
[ $# -gt 0 ] && printf '%s\\037' "$@" >> "$PROBED"
printf '\\036' >> "$PROBED"
"""
TOOLS = ("bash", "sh", "cat", "base64", "rev", "tr", "xargs", "timeout", "env", "echo", "printf")
HOME = "/home/ada"


class Ground:
    """A folder with a `probe`, and what happened there."""

    def __init__(self, folder: Path) -> None:
        self.work, self.bin, self.log = folder / "work", folder / "bin", folder / "probed"
        self.bin.mkdir()
        (self.bin / "probe").write_text(PROBE)
        (self.bin / "probe").chmod(0o755)
        for tool in TOOLS:
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)

    def really(self, shell: str, script: str) -> list[list[str]]:
        """What probe is started with when a shell runs the script."""
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "d1" / "d2").mkdir(parents=True)
        self.log.write_text("")
        child = subprocess.Popen(
            [str(shutil.which(shell)), "-c", script],
            cwd=self.work,
            env={"PATH": str(self.bin), "HOME": HOME, "PROBED": str(self.log), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            child.wait(60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # whatever it left in the background
            child.wait()
        entries = self.log.read_text(errors="replace").split("\x1e")[:-1]
        return [entry.split("\x1f")[:-1] for entry in entries]

    def seen(self, shell: str, script: str) -> list[str] | None:
        """The commands that the analysis came to; None if it is not sure of them."""
        places = Places(str(self.work), HOME, f"{HOME}/.hermes")
        walker = Walker(places, {"HOME": HOME, "IFS": " \t\n"}, Budget(), str(self.work))
        walker.is_plain_sh = shell != "bash"
        try:
            walker.script(script)
        except TooComplex:
            return None
        return None if walker.dangers else walker.commands


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def is_among(arguments: list[str], seen: list[str]) -> bool:
    wanted = " ".join(["probe", *arguments])
    wanted = re.sub(r"/dev/fd/\d+", "/dev/fd/1001", wanted)
    for command in seen:
        signs = {"…": ".*", "*": ".*", "?": ".", " ": " ?"}
        pattern = "".join(signs.get(char, re.escape(char)) for char in command)
        if command == wanted or (
            set("…*?[") & set(command) and re.fullmatch(pattern, wanted, re.S)
        ):
            return True
    return False


class Writer:
    """Writes random scripts that a shell accepts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def literal(self) -> str:
        return self.pick(
            "a", "b", "x1", "probe", "a b", "a*c", "", "-", "robe", "$A", "{", "'", '"', "\\", "#",
            "~", "a,b", "!", "=", "[a]",
        )  # fmt: skip

    def quoted(self, text: str) -> str:
        way = self.random.randrange(4)
        if way == 0:
            return '"' + re.sub(r'(["\\$`])', r"\\\1", text) + '"'
        if way == 1:
            return "".join("\\" + char for char in text) or "''"
        if way == 2:
            return "$'" + "".join(f"\\x{ord(char):02x}" for char in text) + "'"
        return shlex.quote(text)

    def word(self, depth: int = 2) -> str:
        if depth <= 0:
            return self.quoted(self.literal())
        name, inner = self.pick("A", "B", "C"), self.pick("a", "probe", '"$A"', "$B", "'a b'")
        operator = self.pick(
            ":-a", "-$A", ":+probe", "+'q'", "#p", "##*", "%e", "%%?", "/a/z", "//b/", "/#p/", "^^",
            ":0:1", ":1", ": -1", ':="x y"', '#"*"', "/\\//z",
        )  # fmt: skip
        return self.pick(
            self.quoted(self.literal()), self.quoted(self.literal()), f"${name}", f'"${name}"',
            f"${{{name}{operator}}}", f"$(echo {inner})", f"`echo {inner}`", f'"$(echo {inner})"',
            f"$(printf '%s' {inner} | rev)", f"$(cat <<< {inner})", f"$(echo {inner} | tr a-c x-z)",
            f"{{{inner},b}}", f"${name}{{a,b}}", '"$@"', "$*", "$1", "~", "{1..3}", '"$PWD"',
            self.quoted(self.literal()) + f"${name}",
        )  # fmt: skip

    def probe(self) -> str:
        name = self.pick(
            "probe", "probe", 'pro""be', "$P", '"$P"', "$(echo probe)", "pr\\obe", "${Q:-probe}",
            "$'\\x70robe'", '"$@" probe',
        )  # fmt: skip
        return " ".join([name, *(self.word() for _ in range(self.random.randrange(3)))])

    def command(self, depth: int = 4) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.probe()
        one, other = self.command(depth - 1), self.command(depth - 1)
        name, word = self.pick("A", "B", "C", "P"), self.word(1)
        test = self.pick("true", "false", '[ -n "$A" ]', '[ "$B" = a ]', "[[ $C == p* ]]")
        move = self.pick("cd d1", "cd nowhere", "cd ..", "cd d1/d2", 'cd "$A"', "cd -")
        text, encoded = shlex.quote(one), base64.b64encode(one.encode()).decode()
        return self.pick(
            f"{name}={word}; {one}", f"{name}+={word}; {one}", f"{one}; {other}", f"{{ {one}; }}",
            f"{test} || {{ {one}; }}", f"( {one} ); {other}", f"{name}={word} {other}",
            f"{one} && {other}",
            f"if {test}; then {one}; else {other}; fi", f"for {name} in {word} a; do {one}; done",
            f"f() {{ {one}; }}; f {word}", f"g() {{ local A={word}; {one}; }}; g; {other}",
            f"eval {text}", f"bash -c {text} x {word}", f"bash <<'E{depth}'\n{one}\nE{depth}\n:",
            f"bash <<E{depth}\n{one}\nE{depth}\n:", f"echo {encoded} | base64 -d | bash",
            f"printf %s {text} | bash", f"env A={word} bash -c {text}",
            f"echo {word} | xargs probe",
            f"case {word} in a) {one};; p*) {other};; *) probe;; esac", f"set -- {word}; {one}",
            f"export {name}={word}; bash -c {text}", f"unset {name}; {one}", f"timeout 9 {other}",
            f"printf %s {text} > s.sh; bash s.sh", f"read {name} <<< {word}; {one}",
            f"trap {text} EXIT",
            f'a=({word} {word}); probe "${{a[@]}}" ${{a[1]}}', f"{move}; {one}", f"{move} && {one}",
            f"{move} || exit; {one}", f'({move}; {one}); probe "$PWD"', f'{one}; probe "$PWD"',
        )  # fmt: skip

    def script(self) -> str:
        values = " ".join(f"{name}={self.quoted(self.literal())}" for name in "ABC")
        return f"P=probe {values}\n{self.command()}"


# No `while`, and no function that could call itself: none of this may run for ever.
SOUP = [
    ";", "&&", "||", "|", "(", ")", "{ ", " }", "<<E\n", "<<'E'\n", "<<-E\n", "\nE\n", "\tE\n",
    "\n", "'", '"', "`", "$(", "probe ", "probe a ", " a ", " b", "#", " # ", " ", "if ",
    " then ", "else ", "fi", "case a in ", "a) ", "*) ", ";;", "esac", "\\", "\\\n", "\\\n",
    "$((", "))", "((", "[[ ", " ]]", "<<< ", "&> ", "<(", "> f ", "< f", "function g ", "g() ",
    "! ", "for i in ", "do ", "done", "true ", "false ", "eval ", "in ", "$i", "${x:-", "}",
    "${#", "$x", "x=", '"$x"', "$'", "\\x61", "&", "echo ", "=", "[", "] ", "~", "-", "1", "2>",
    ">& -", ">&2", "\t", "time ", "{a,b}", "x+=", "|&", "coproc ", " -p ", "\\'", '\\"', '$"',
    "x=probe ", "x=a;", '"$(', '")', "<&", "#}", "\\`",
]  # fmt: skip


def soup(seed: int) -> str:
    """Signs and words in any order; now and then a shell finds sense in them."""
    chance = random.Random(seed)
    text = "".join(chance.choice(SOUP) for _ in range(chance.randrange(2, 12)))
    return text if "probe" in text else text + chance.choice(";\n ") + "probe z"


@pytest.mark.parametrize("block", range(5))
def test_scripts_that_make_sense(ground: Ground, block: int) -> None:
    sure = 0
    for seed in range(block * 40, block * 40 + 40):
        script = Writer(seed).script()
        seen = ground.seen("bash", script)
        if seen is None:
            continue
        sure += 1
        for arguments in ground.really("bash", script):
            assert is_among(arguments, seen), f"seed {seed}: {arguments} in\n{script}"
    assert sure > 10  # the test would mean nothing if everything were unclear


FOUND = (26319466002862,)
"""Seeds with which a search found something."""


@pytest.mark.fuzz
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_scripts_that_hardly_make_sense(ground: Ground, shell: str) -> None:
    skips.need(shell)
    ran = 0
    first = 10_000 * (seeds.fuzz_seed() or 0)
    for seed in (*FOUND, *range(first, first + seeds.times(500, 3_000))):
        script = soup(seed)
        seen = ground.seen(shell, script)
        if seen is None:
            continue
        for arguments in ground.really(shell, script):
            ran += 1
            # Judged as bash reads it: dash leaves a tilde behind = as it is, a file of that name.
            read = [re.sub(r"=~$", f"={HOME}", argument) for argument in arguments]
            is_seen = is_among(arguments, seen) or (shell == "dash" and is_among(read, seen))
            assert is_seen, f"seed {seed}: {arguments} in {script!r}"
    assert ran > 20
