"""`hermes gateway setup` for webhooks: a route with a secret, and a signed request to try it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.config.write import set_config_values

from ...config import Platform, PlatformConfig
from ...config_load import load_gateway_config
from ..manifest import Ask, Say
from .manifest import PORT
from .routes import RouteError, read_routes

TRY_IT = """\
Programs POST to {url}, signed with this secret:
  {secret}
To try it once the gateway runs:

SECRET={secret}
body='{{"hello": "world"}}'; now=$(date +%s); id=test-$now
signature=$(printf '%s.%s.%s' "$id" "$now" "$body" | openssl dgst -sha256 -hmac "$SECRET" -binary | base64)
curl {url} -d "$body" \\
  -H "webhook-id: $id" -H "webhook-timestamp: $now" -H "webhook-signature: v1,$signature"

"accepted" means that it is stored; {answer}
"""  # noqa: E501 - commands to be copied
KEPT = "the answer stays in the history: hermes sessions list --source webhook"
DELIVERED = "the answer comes to {chat}."


def set_up(home: Path, ask: Ask, ask_secret: Ask, say: Say) -> int:
    """Add a route to config.yaml, and say how a program uses it; returns the exit code."""
    platforms = load_gateway_config(load_config(home)).platforms
    section = platforms.get(Platform.WEBHOOK, PlatformConfig()).extra
    routes = section.get("routes")
    name = ask("Name of the route, e.g. builds: ").strip()
    if isinstance(routes, dict) and name in routes:
        say(f"There is a route {name} already, with a secret of its own. Nothing was changed.")
        return 1
    prompt = ask("What the agent is asked; {body} is what came (empty: whatever it calls for): ")
    chat = ask("Chat for the answers, e.g. telegram:42 (empty: kept in the history): ").strip()
    route: dict[str, Any] = {"secret": os.urandom(32).hex()}
    if prompt.strip():
        route["prompt"] = prompt.strip()
    if chat:
        platform, _, chat_id = chat.partition(":")
        route["deliver"] = {"platform": platform, "chat_id": chat_id}
    try:
        target = read_routes({name: route})[name].deliver
        if target is not None and not platforms.get(target.platform, PlatformConfig()).enabled:
            raise RouteError(f"{target.platform.value} is not set up yet: do that first.")
    except RouteError as error:
        say(f"{error} Nothing was changed.")
        return 1
    where = f"platforms.webhook.routes.{name}"
    set_config_values(
        home / "config.yaml",
        {
            "platforms.webhook.enabled": True,
            **{f"{where}.{key}": value for key, value in route.items()},
        },
    )
    url = f"http://{section.get('host') or '127.0.0.1'}:{section.get('port') or PORT}/hooks/{name}"
    answer = DELIVERED.format(chat=chat) if chat else KEPT
    say(TRY_IT.format(url=shlex.quote(url), secret=route["secret"], answer=answer))
    say(f"Kept in {home / 'config.yaml'}. Now run: hermes gateway start")
    return 0
