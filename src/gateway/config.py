"""What the gateway is told: platforms, who resets when, how many at once.

Plain data; `config_load` reads it from config.yaml and the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from .platforms.registry import find_manifest


class Platform(StrEnum):
    """Where messages come from."""

    LOCAL = "local"
    TELEGRAM = "telegram"
    DISCORD = "discord"
    WHATSAPP = "whatsapp"
    WHATSAPP_CLOUD = "whatsapp_cloud"
    SLACK = "slack"
    SIGNAL = "signal"
    MATTERMOST = "mattermost"
    MATRIX = "matrix"
    HOMEASSISTANT = "homeassistant"
    EMAIL = "email"
    SMS = "sms"
    DINGTALK = "dingtalk"
    API_SERVER = "api_server"
    WEBHOOK = "webhook"
    MSGRAPH_WEBHOOK = "msgraph_webhook"
    FEISHU = "feishu"
    WECOM = "wecom"
    WECOM_CALLBACK = "wecom_callback"
    WEIXIN = "weixin"
    BLUEBUBBLES = "bluebubbles"
    QQBOT = "qqbot"
    YUANBAO = "yuanbao"
    RELAY = "relay"
    IRC = "irc"
    LINE = "line"
    NTFY = "ntfy"
    TEAMS = "teams"
    GOOGLE_CHAT = "google_chat"
    SIMPLEX = "simplex"
    PHOTON = "photon"
    RAFT = "raft"
    XMPP = "xmpp"

    @classmethod
    def of(cls, name: str) -> Platform:
        """The platform with this name; one that is found later gets a member of its own."""
        try:
            return cls(name)
        except ValueError:
            if find_manifest(name) is None:
                raise
            added = str.__new__(cls, name)
            added._name_, added._value_ = name.upper(), name
            cls._value2member_map_[name] = added
            return added


@dataclass(slots=True)
class PlatformConfig:
    """One platform as configured."""

    enabled: bool = False
    token: str = field(default="", repr=False)
    allowed_users: tuple[str, ...] = ()
    """Whom it listens to; nobody but those who paired if empty."""
    admins: tuple[str, ...] = ()
    """Who may use the commands that concern the whole gateway."""
    allow_all: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Every further key of the section, for the adapter."""


@dataclass(slots=True)
class ResetPolicy:
    """When a conversation begins anew by itself."""

    mode: str = "none"
    """none, idle, daily or both."""
    at_hour: int = 4
    idle_minutes: int = 1440
    notify: bool = True
    notify_exclude_platforms: tuple[str, ...] = ("api_server", "webhook")
    bg_process_max_age_hours: float = 24.0

    def expired_because(self, last_used: datetime, now: datetime) -> str | None:
        """ "idle" or "daily" if a session last used then is over by now; None if it goes on."""
        idle = timedelta(minutes=self.idle_minutes)
        if self.mode in ("idle", "both") and now > last_used + idle:
            return "idle"
        if self.mode in ("daily", "both") and last_used < last_boundary(self.at_hour, now):
            return "daily"
        return None


def last_boundary(at_hour: int, now: datetime) -> datetime:
    """The most recent time the clock showed `at_hour`, local time."""
    boundary = now.replace(hour=at_hour, minute=0, second=0, microsecond=0)
    return boundary if boundary <= now else boundary - timedelta(days=1)


@dataclass(slots=True)
class GatewayConfig:
    """Everything the gateway needs to know."""

    platforms: dict[Platform, PlatformConfig] = field(default_factory=dict)
    reset: ResetPolicy = field(default_factory=ResetPolicy)
    reset_by_type: dict[str, ResetPolicy] = field(default_factory=dict)
    reset_by_platform: dict[str, ResetPolicy] = field(default_factory=dict)
    reset_triggers: tuple[str, ...] = ("/new", "/reset")
    workspaces: str = ""
    """Where the agent works for each person, with `{person}` for their folder; empty: for all where
    the gateway was started."""
    group_sessions_per_user: bool = True
    thread_sessions_per_user: bool = False
    max_concurrent_sessions: int | None = None
    """Turns at once; None for as many as come."""
    busy_input_mode: str = "interrupt"
    message_parts_wait: float = 1.0
    """Seconds to wait for further parts of an album or a split text; 0 takes each as a message."""
    unauthorized_dm_behavior: str = "pair"
    """pair: a stranger gets a code; ignore: nothing."""
    streaming: Mapping[str, Any] = field(default_factory=dict)
    max_inbound_media_bytes: int = 128 * 1024 * 1024
    media_days: int = 365
    """How long files that came with messages are kept; 0: as long as a conversation names them."""
    media_bytes: int = 2 * 1024 * 1024 * 1024
    """How much of them is kept for each person, the oldest going first; 0: everything."""
    session_store_max_age_days: int = 90
    drain_timeout: float = 20.0
    max_restarts: int = 3
    """So many restarts within `restart_window` seconds, and no more."""
    restart_window: float = 60.0
    cache_size: int = 128
    cache_bytes: int = 256 * 1024 * 1024
    cache_idle_seconds: float = 3600.0

    def policy_for(self, platform: str, chat_type: str) -> ResetPolicy:
        """The policy of a chat: its platform's, else its type's, else the default."""
        return (
            self.reset_by_platform.get(platform) or self.reset_by_type.get(chat_type) or self.reset
        )
