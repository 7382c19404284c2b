"""The contract of `gateway/platforms/base.py`, as tests that every adapter passes.

How an adapter joins, in one file of its tests:

1. Write a `Place`: the other side of the adapter, its platform as a test plays it. Best is the real
   server; else a server of your own that answers as the real one does, and refuses what it refuses.
2. Subclass `AdapterConformance` and give it a fixture `place` that yields one.

```python
class TestMine(AdapterConformance):
    @pytest_asyncio.fixture
    async def place(self, tmp_path):
        async with MyServer() as server:
            yield MyPlace(server, tmp_path)
```

The first eight methods of `Place` have to be there. Each further one adds checks: the one that lets
another person write brings strangers, a hundred chats at once and hostile names; `go_away` brings
an outage of minutes; and so on. A check whose method is not there is skipped and says which it
needs; what the platform does not have at all is said in `Place.lacks`, and passes. What an adapter
does not claim in its `capabilities` is not asked of it.

Needs pytest and pytest-asyncio (`pip install 'hermes-thread[testing]'`); nothing of Hermes imports
this package.
"""

from __future__ import annotations

import pytest

# Before they are imported: a failed check says what was there instead.
pytest.register_assert_rewrite(
    f"{__name__}.adapter_checks", f"{__name__}.gateway_checks", f"{__name__}.kill_checks"
)

from .adapter_checks import AdapterChecks, running  # noqa: E402
from .clock import Clock  # noqa: E402
from .gateway_checks import GatewayChecks  # noqa: E402
from .kill_checks import KillChecks  # noqa: E402
from .place import Place, until  # noqa: E402
from .plugin import load_platform  # noqa: E402
from .serving import serving  # noqa: E402

__all__ = [
    "AdapterChecks", "AdapterConformance", "Clock", "GatewayChecks", "KillChecks", "Place",
    "load_platform", "running", "serving", "until",
]  # fmt: skip


@pytest.mark.asyncio
class AdapterConformance(AdapterChecks, GatewayChecks, KillChecks):
    """Every check: of the adapter by itself, with a gateway, and with one that is killed."""
