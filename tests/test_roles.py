"""The golden list of what each role may call."""

from __future__ import annotations

from tui_gateway import methods, rpc
from tui_gateway.clients import OPERATE
from tui_gateway.permitted import NEEDS

from . import golden_roles


def test_the_roles_may_call_what_the_golden_list_says() -> None:
    """A new tool, command, method or route is put there on purpose: python -m tests.golden_roles"""
    assert golden_roles.text() == golden_roles.FILE.read_text(encoding="utf-8")


def test_every_method_says_whom_it_is_for() -> None:
    methods.load()
    methods.load_rest()
    for_all = {name for name, method in rpc.METHODS.items() if method.scope != OPERATE}
    assert for_all == set(NEEDS)
