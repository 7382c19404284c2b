"""Certificates are read once for all clients of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import PlatformConfig
from hermes_base.certificates import certificates


def test_they_are_read_anew_only_where_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = certificates()
    assert certificates() is first
    import certifi

    chosen = tmp_path / "some.pem"
    chosen.write_text(Path(certifi.where()).read_text().partition("\n\n")[0])
    monkeypatch.setenv("SSL_CERT_FILE", str(chosen))
    assert certificates() is not first
    assert len(certificates().get_ca_certs()) < len(first.get_ca_certs())


def test_a_bot_for_every_attempt_does_not_read_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("telegram")
    import ssl

    from gateway.platforms.telegram.adapter import TelegramAdapter

    certificates()
    read: list[object] = []
    load = ssl.SSLContext.load_verify_locations

    def loads(self: ssl.SSLContext, *args: object, **named: object) -> None:
        read.append(args)
        load(self, *args, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", loads)
    adapter = TelegramAdapter(PlatformConfig(token="1:x"), lambda event: None)
    for _ in range(3):
        adapter._new_bot()
    assert read == []
