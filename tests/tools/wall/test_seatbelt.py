"""The profile for macOS, as text: there is no Mac here to try it on."""

from __future__ import annotations

from pathlib import Path

from tools.wall.policy import Wall
from tools.wall.seatbelt import profile


def test_inner_places_come_after_outer_ones_and_the_last_rule_holds() -> None:
    wall = Wall(
        writable=(Path("/Users/me/work"),),
        hidden=(Path("/Users/me/.ssh"), Path("/Users/me/work/keys")),
        readable=(Path("/Users/me"),),
    )
    rules = profile(wall, 4711).splitlines()
    places = [rule for rule in rules if "/Users" in rule]
    assert places == [
        '(allow file-read* (subpath "/Users/me"))',
        '(deny file-read* file-write* (subpath "/Users/me/.ssh"))',
        '(allow file-read* file-write* (subpath "/Users/me/work"))',
        '(deny file-read* file-write* (subpath "/Users/me/work/keys"))',
    ]
    assert '(allow network-outbound (remote ip "localhost:4711"))' in rules
    assert "(deny file-write*)" in rules


def test_names_with_quotes_cannot_end_a_rule() -> None:
    wall = Wall((Path('/tmp/a"))(allow default)(("'),), ())
    assert '(subpath "/tmp/a\\"))(allow default)((\\"")' in profile(wall, None)
