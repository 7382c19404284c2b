"""A front end for tests: a real store, real agents, and a record of what it was asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.agent import AIAgent
from agent.config import load_config
from agent.ids import new_session_id
from agent.scripted import ScriptedModel, StepLike, say
from agent.slash import Exec, Result, Scope, Surface, run
from hermes_state import SessionDB
from tools.base import Workspace
from tools.registry import Registry


class Front(Surface):
    """One conversation of one person."""

    def __init__(
        self,
        db: SessionDB,
        home: Path,
        *,
        platform: str = "cli",
        user_id: str | None = None,
        scope: Scope = "cli",
    ) -> None:
        home.mkdir(exist_ok=True)
        super().__init__(db, load_config(home, {}))
        self.platform, self.user_id, self.scope = platform, user_id, scope
        self.steps: list[StepLike] = [lambda request: say("ok")] * 50
        self.tools = Registry()
        self.did: list[tuple[Any, ...]] = []
        self.is_running = False
        self.waiting: list[str] = []
        self._agent: AIAgent | None = None
        self._session_id = new_session_id()

    @property
    def session_id(self) -> str:
        return self._agent.session_id if self._agent else self._session_id

    @property
    def agent(self) -> AIAgent | None:
        return self._agent

    def build_agent(self) -> AIAgent:
        if self._agent is None:
            home = self.config.home
            self._agent = AIAgent(
                ScriptedModel(self.steps),
                db=self.db,
                session_id=self._session_id,
                platform=self.platform,
                user_id=self.user_id,
                tools=self.tools,
                workspace=Workspace(home, home),
            )
            self.apply_options()
        return self._agent

    @property
    def running(self) -> bool:
        return self.is_running

    def new_session(self, title: str | None) -> None:
        self.did.append(("new", title))
        self._go(new_session_id())

    def switch_session(self, session_id: str) -> None:
        self.did.append(("switch", session_id))
        self._go(session_id)

    def _go(self, session_id: str) -> None:
        self._session_id, self._agent, self.options = session_id, None, {}

    def queue(self, text: str) -> int:
        self.waiting.append(text)
        return len(self.waiting)

    def answer_approvals(self, choice: str, everything: bool = False) -> int:
        self.did.append(("answer", choice, everything))
        return 1

    def set_model(self, name: str) -> str:
        self.did.append(("model", name))
        return name

    def attach_image(self, path: Path) -> None:
        self.did.append(("image", path))

    def copy(self, text: str) -> None:
        self.did.append(("copy", text))

    def leave(self) -> None:
        self.did.append(("leave",))

    # For tests

    def ask(self, text: str) -> str:
        """Have a message answered."""
        return str(self.build_agent().run_conversation(text)["final_response"])

    def type(self, line: str) -> Result:
        """Run a command that must succeed."""
        result = run(self, line)
        assert not (isinstance(result, Exec) and result.failed), result.output
        return result

    def shown(self, line: str) -> str:
        """What a command that must succeed shows."""
        result = self.type(line)
        assert isinstance(result, Exec), result
        return result.output

    def refused(self, line: str) -> str:
        """What is shown for a command that must not succeed."""
        result = run(self, line)
        assert isinstance(result, Exec), result
        assert result.failed, result.output
        return result.output
