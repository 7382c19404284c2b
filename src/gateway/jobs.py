"""Jobs in the gateway: run here, asked and answered in its chats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.jobs.job import Job
from agent.jobs.targets import address_of, home_chat
from conversation.door import Abandoned, Door
from conversation.jobs import JobDoor, JobParts, job_of
from conversation.scheduler import Scheduler

from .asking import ChatAsker
from .config import Platform
from .media import folder_for
from .session import SessionEntry, SessionSource

if TYPE_CHECKING:
    from agent.config import Config
    from conversation.service import Conversations
    from hermes_state import AsyncSessionDB
    from tools.base import Asker

    from .agent_source import AgentSource
    from .asking import Questions
    from .chat_turns import ChatTurns
    from .delivery import Delivery
    from .platforms.base import PlatformAdapter
    from .session_store import SessionStore


@dataclass(frozen=True, slots=True)
class GatewayJobs:
    """What the jobs of a gateway need of it."""

    db: AsyncSessionDB
    settings: Config
    store: SessionStore
    agents: AgentSource
    adapters: Mapping[Platform, PlatformAdapter]
    questions: Questions
    delivery: Delivery
    turns: ChatTurns
    is_running: Callable[[], bool]

    def scheduler(self) -> Scheduler:
        """What claims and runs them."""
        return Scheduler(self.parts())

    def parts(self) -> JobParts:
        """What their turns need."""
        return JobParts(
            self.db,
            self.settings,
            self.conversations,
            build=self._build,
            address=lambda job: address_of(self.settings, self.db.sync, job),
            home=lambda job: home_chat(self.settings, self.db.sync, job.user_id),
            chat_session=self._chat_session,
            send=self.delivery.wake_chat,
            other_door=self.turns.door_of,
            is_running=self.is_running,
        )

    @property
    def conversations(self) -> Conversations:
        """Those that its chats are in too."""
        return self.turns.conversations

    def door_of(self, turn: Abandoned) -> Door[Any] | None:
        """The door of a job's abandoned turn; None if it is none of a job."""
        job_id = job_of(turn.row)
        return None if job_id is None else JobDoor(self.parts(), job_id)

    def _entry(self, job: Job) -> SessionEntry | None:
        entry = self.store.entry(job.settings.session_key)
        return entry if entry is not None and entry.origin is not None else None

    def _chat_session(self, job: Job) -> str | None:
        """The session that a job's chat is in, begun if it is in none."""
        entry = self._entry(job)
        if entry is None or entry.origin is None:
            return None
        return self.store.get_or_create_session(entry.origin).session_id

    async def _build(self, job: Job, session_id: str, home: Mapping[str, Any] | None) -> Any:
        from agent.jobs.building import build_job_agent

        entry = self._entry(job) if job.settings.where == "chat" else None
        facts: dict[str, Any] = {}
        platform = "cron"
        if entry is not None and entry.origin is not None:
            source = entry.origin
            platform = source.platform.value
            facts = {
                "session_key": entry.session_key, "chat_id": source.chat_id,
                "chat_type": source.chat_type, "thread_id": source.thread_id,
                "display_name": source.chat_name or source.user_name,
            }  # fmt: skip
        asker = self._asker(job, home)
        agent = await self.db.at_hand(
            lambda: build_job_agent(
                self.settings, self.db.sync, job, session_id,
                shared_model=self.agents.shared_model, asker=asker, session_facts=facts,
                platform=platform,
            )
        )  # fmt: skip
        if entry is not None and entry.origin is not None:
            agent.workspace.uploads = folder_for(
                self.settings.home, entry.origin.platform.value, entry.origin.chat_id
            )
        agent.holders.add(
            "chat bindings",
            lambda rotation: self.store.follow(rotation.old_session_id, rotation.new_session_id),
        )
        return agent

    def _asker(self, job: Job, home: Mapping[str, Any] | None) -> Asker | None:
        """The chat that is asked for approval, if the job is to ask."""
        to = job.settings.to if job.settings.deliver == "chat" else home
        if job.settings.approvals != "ask" or not to:
            return None
        source = SessionSource(
            Platform.of(str(to["platform"])), str(to["chat_id"]), thread_id=to.get("thread_id")
        )
        key = str(to["session_key"])
        return ChatAsker(self.questions, self.adapters, self.delivery, key, source)
