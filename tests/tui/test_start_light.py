"""What a session server loads before it is ready: nothing that only a turn needs."""

from __future__ import annotations

import subprocess
import sys


def test_a_server_is_ready_without_what_turns_need() -> None:
    heavy = ("agent.loop", "tools.files", "tools.objects", "tools.base", "httpx", "yaml", "numpy")
    program = f"import sys, tui_gateway.server; print(sorted({{*{heavy!r}}} & {{*sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
