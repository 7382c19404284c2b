"""Draws images/replicas.svg: `python docs/replicas_picture.py`."""

from __future__ import annotations

from pathlib import Path

PICTURE = Path(__file__).parent / "images" / "replicas.svg"
WIDTH, HEIGHT = 900, 500
ABOUT = (
    "People and programs reach two gateways, platforms through the one that holds them and the API"
    " through a load balancer; both gateways keep everything in one PostgreSQL, which tells them of"
    " each other's writes; each runs tools on its own machine."
)
STYLE = """
  .paper { fill: #ffffff; stroke: #d0d7de; }
  .box { fill: #f4f6f9; stroke: #57606a; }
  .store { fill: #e8f1fb; stroke: #2f6fb5; }
  .machine { fill: none; stroke: #8b949e; stroke-dasharray: 5 4; }
  .leaf { fill: #fbf6e6; stroke: #9a7b1f; }
  text { fill: #1f2328; font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
  .bold { font-weight: 600; }
  .small { font-size: 12px; fill: #57606a; }
  .line { stroke: #57606a; stroke-width: 1.4; fill: none; }
  .head { fill: #57606a; }
  .dash { stroke-dasharray: 4 4; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #161b22; stroke: #30363d; }
    .box { fill: #21262d; stroke: #8b949e; }
    .store { fill: #12283f; stroke: #58a6ff; }
    .machine { stroke: #6e7681; }
    .leaf { fill: #2d2710; stroke: #d2a722; }
    text { fill: #e6edf3; }
    .small { fill: #9da7b1; }
    .line { stroke: #9da7b1; }
    .head { fill: #9da7b1; }
  }
"""
ARROW = (
    '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
    ' orient="auto-start-reverse"><path class="head" d="M0 0 10 5 0 10z"/></marker></defs>'
)


def box(kind: str, x: int, y: int, width: int, height: int, *lines: str) -> list[str]:
    """A box with a heading and smaller lines beneath it, in its middle."""
    drawn = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>']
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    for number, line in enumerate(lines):
        style = "small" if number else "bold"
        drawn.append(
            f'<text class="{style}" x="{x + width / 2:g}" y="{top + 18 * number:g}"'
            f' text-anchor="middle">{line}</text>'
        )
    return drawn


def machine(x: int, name: str) -> list[str]:
    """A machine, with its name in its upper right corner, beside the lines that come in."""
    return [
        f'<rect class="machine" x="{x}" y="190" width="380" height="118" rx="10"/>',
        f'<text class="small" x="{x + 368}" y="209" text-anchor="end">{name}</text>',
    ]


def line(path: str, label: str = "", x: int = 0, y: int = 0, *, is_hint: bool = False) -> list[str]:
    """A line with an arrow at its end, and words beside it."""
    dash = " dash" if is_hint else ""
    drawn = [f'<path class="line{dash}" d="{path}" marker-end="url(#a)"/>']
    if label:
        drawn.append(f'<text class="small" x="{x}" y="{y}">{label}</text>')
    return drawn


def picture() -> str:
    """The whole of it."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" role="img" aria-labelledby="t d">',
        '<title id="t">Several gateways, one store</title>',
        f'<desc id="d">{ABOUT}</desc>',
        f"<style>{STYLE}</style>",
        ARROW,
        f'<rect class="paper" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
        *box("leaf", 40, 24, 250, 56, "Telegram, Matrix …", "one connection for each bot"),
        *box("leaf", 600, 24, 250, 56, "programs and webhooks", "HTTP"),
        *box("box", 600, 112, 250, 46, "load balancer", "any gateway will do"),
        *machine(40, "machine A: settings, logs, search-mirror.db"),
        *machine(480, "machine B: a home of its own, set up alike"),
        *box("box", 60, 222, 210, 70, "gateway A", "holds the bot", "runs the turns of its chats"),
        *box("box", 500, 222, 210, 70, "gateway B", "holds what others do not", "would take over"),
        *box("box", 292, 222, 110, 70, "tools", "files, commands"),
        *box("box", 732, 222, 110, 70, "tools", "files, commands"),
        *box(
            "store", 250, 370, 400, 106, "PostgreSQL: one primary",
            "conversations, inbox, outbox, routing",
            "who lives (replicas), who holds a bot (platform_leases),",
            "who runs a turn (turns)",
        ),
        *line("M85 80V220", "polls", 92, 112),
        *line("M725 80V110"),
        *line("M725 158V175H540V220", "API", 548, 170),
        *line("M600 135H125V220", "API", 400, 128),
        *line("M270 257H290"),
        *line("M710 257H730"),
        *line("M130 292V423H248", "SQL, a heartbeat", 138, 398),
        *line("M700 292V423H652", "SQL, a heartbeat", 708, 398),
        *line("M330 370V335H230V294", "notifications", 250, 328, is_hint=True),
        *line("M570 370V335H600V294", "notifications", 606, 328, is_hint=True),
        "</svg>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
