"""docs/protocol.md says what the server does: every method, event, error code and shape."""

from __future__ import annotations

import ast
import re
import typing
from pathlib import Path

import pytest
from method_calls import Gateway, until
from shape_checks import check

import tui_gateway
from agent.scripted import call, say
from tui_gateway import methods, rpc
from tui_gateway.protocol_page import AREAS, CODES, renewed
from tui_gateway.shapes_events import BARE, EVENTS

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
SOURCE = Path(tui_gateway.__file__).parent
methods.load_rest()


def trees() -> dict[Path, ast.Module]:
    return {
        path: ast.parse(path.read_text())
        for path in SOURCE.rglob("*.py")
        if not path.name.startswith("client")
    }


def test_the_page_is_current() -> None:
    page = PAGE.read_text()
    assert renewed(page) == page, "run: python -m tui_gateway.protocol_page docs/protocol.md"


def test_every_method_is_on_the_page_with_its_parameters() -> None:
    page = PAGE.read_text().partition("## Methods")[2].partition("## Events")[0]
    for one in rpc.METHODS.values():
        rows = [line for line in page.splitlines() if line.startswith(f"| `{one.name}` |")]
        assert len(rows) == 1, one.name
        assert one.summary and one.summary in rows[0]
        for name, (_, required) in rpc.parameters(one.run).items():
            assert f"`{name}{'' if required else '?'}` " in rows[0]
    first_words = [word for words in AREAS.values() for word in words]
    assert len(first_words) == len(set(first_words))


def test_every_link_leads_somewhere() -> None:
    page = PAGE.read_text()
    headings = {line[4:].strip().lower() for line in page.splitlines() if line.startswith("### ")}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= headings


def emitted() -> set[str]:
    """Every type of event that is written in the source."""
    found = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in ("_emit", "emit", "emit_text", "Question", "add") and node.args:
                    found |= {one for one in map(text_of, node.args) if one and EVENT(one)}
            elif isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if key is not None and text_of(key) == "type" and "." in text_of(value):
                        found.add(text_of(value))
    return found


def text_of(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def EVENT(text: str) -> bool:
    return text == "error" or re.fullmatch(r"[a-z]+\.[a-z]+", text) is not None


def test_every_event_is_declared_and_on_the_page() -> None:
    assert emitted() == set(EVENTS)
    assert set(BARE) == {name for name, shape in EVENTS.items() if shape is None}
    for name in EVENTS:
        assert f"| `{name}` |" in PAGE.read_text()


def test_every_error_code_is_explained() -> None:
    constants: dict[tuple[str, str], int] = {}
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                try:
                    value = ast.literal_eval(node.value)
                except ValueError:
                    continue
                if isinstance(value, int):
                    constants[path.stem, node.targets[0].id] = value
    used = {value for (module, name), value in constants.items() if module == "rpc_errors"}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RpcError":
                for name in ast.walk(node.args[0]):
                    if isinstance(name, ast.Constant) and isinstance(name.value, int):
                        used.add(name.value)
                    elif isinstance(name, ast.Name) and name.id.isupper():
                        key = (path.stem, name.id)
                        used.add(constants[key if key in constants else ("rpc_errors", name.id)])
    assert used == set(CODES)


@pytest.mark.parametrize("module", [*methods.FIRST, *methods.REST])
def test_every_file_of_methods_is_loaded(module: str) -> None:
    files = {path.stem for path in (SOURCE / "methods").glob("*.py")} - {"__init__"}
    assert module in files and files == {*methods.FIRST, *methods.REST}


def test_events_have_their_shapes(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    gateway.script(
        [
            call("read_file", path="a.txt"),
            say("It says ", "text.", reasoning="Let me see."),
            say("A summary."),
            *[say("ok")] * 40,
        ]
    )
    sid = gateway.open(title="Named")
    gateway.ask(sid, "What does it say?")
    gateway.call("prompt.background", session_id=sid, text="Look it up.")
    # What came of it is told in a turn of its own, behind which a prompt would wait.
    until(lambda: gateway.events(sid, "background.complete"))
    until(lambda: not gateway.db.has_notes(gateway.key(sid)))
    gateway.settle(sid)
    for number in range(30):
        gateway.ask(sid, f"Stone number {number}: " + "granite and slate " * 60)
    gateway.call("session.compress", session_id=sid)
    gateway.call("slash.exec", session_id=sid, command="/copy")
    gateway.call("slash.exec", session_id=sid, command="/clear")
    seen = set()
    for event in gateway.events(sid):
        seen.add(event["type"])
        shape = EVENTS[event["type"]]
        if shape is None:
            assert "payload" not in event
        else:
            check(event["payload"], shape, event["type"])
    assert seen >= {
        "message.start", "message.delta", "message.complete", "tool.start", "tool.complete",
        "reasoning.delta", "session.info", "session.title", "session.switched", "status.update",
        "clipboard.copy", "screen.clear",
    }  # fmt: skip


def test_shapes_can_be_read() -> None:
    for one in rpc.METHODS.values():
        assert typing.is_typeddict(typing.get_type_hints(one.run)["return"]), one.name
