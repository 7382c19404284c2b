"""Settings that tools need are seen inside, unless there is a secret in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.wall import places

TOKEN = "np" + "m_" + "Ab3dEf6h9J" * 4

SETTINGS = [
    (".npmrc", "registry=https://registry.example.org/\n",
     f"//r.example.org/:_authToken={TOKEN}\n"),
    (".config/pip/pip.conf", "[global]\nindex-url = https://pypi.example.org/simple\n",
     "[global]\nindex-url = https://joe:s3cr3t99@pypi.example.org/simple\n"),
    (".condarc", "channels:\n  - conda-forge\n",
     "channels:\n  - https://c.example.org/t/jo-7c9e6679-7425-40de-944b-e07fc1f90ae7/x\n"),
    (".gradle/gradle.properties", "org.gradle.jvmargs=-Xmx2g\n", "ossrhPassword=s3cr3t99\n"),
    (".yarnrc.yml", "nodeLinker: node-modules\n", f"npmAuthToken: {TOKEN}\n"),
    (".bundle/config", 'BUNDLE_PATH: "vendor"\n', 'BUNDLE_GEMS__EXAMPLE__ORG: "joe:s3cr3t99"\n'),
    (".m2/settings.xml", "<settings><localRepository/></settings>\n",
     "<server><username>joe</username><password>s3cr3t99</password></server>\n"),
    (".cargo/config.toml", "[build]\njobs = 4\n", '[registries.x]\ntoken = "s3cr3t99abc"\n'),
]  # fmt: skip


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_settings_are_hidden_while_there_is_a_secret_in_them(
    walled: object, run: Callable[..., str]
) -> None:
    files = [write(Path.home() / name, harmless) for name, harmless, _ in SETTINGS]
    command = "cat " + " ".join(f"~/{name}" for name, _, _ in SETTINGS) + " 2>&1; true"
    seen = run(command)
    assert all(harmless.split("\n")[0] in seen for _, harmless, _ in SETTINGS)
    for file, (_, _, secret) in zip(files, SETTINGS, strict=True):
        file.write_text(secret)
    seen = run(command)
    assert not any(
        harmless.split("\n")[0] in seen for _, harmless, _ in SETTINGS if len(harmless) > 40
    )
    assert "example.org" not in seen
    assert "ossrhPassword" not in seen
    assert "username" not in seen


@pytest.mark.parametrize(("name", "harmless", "secret"), SETTINGS, ids=lambda value: value[:12])
def test_what_makes_settings_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, harmless: str, secret: str
) -> None:
    monkeypatch.setattr(places, "homes", lambda: (tmp_path,))
    hermes = write(tmp_path / ".hermes/config.yaml", "").parent
    file = write(tmp_path / name, harmless)
    assert file not in places.hidden_places(hermes, {})
    file.write_text(secret)
    assert file in places.hidden_places(hermes, {})


def test_settings_are_read_again_only_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "homes", lambda: (tmp_path,))
    read: list[str] = []
    redact = places.redact
    monkeypatch.setattr(places, "redact", lambda text: read.append(text) or redact(text))
    file = write(tmp_path / ".npmrc", "registry=https://registry.example.org/\n")
    for _ in range(3):
        assert file not in places.hidden_places(tmp_path / ".hermes", {})
    assert len(read) == 1
    file.write_text(f"_authToken={TOKEN}\n")
    assert file in places.hidden_places(tmp_path / ".hermes", {})
    assert len(read) == 2


def test_settings_too_long_to_be_read_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "homes", lambda: (tmp_path,))
    file = write(tmp_path / ".npmrc", "a=b\n")
    os.truncate(file, 300_000)
    assert file in places.hidden_places(tmp_path / ".hermes", {})
    named = write(tmp_path / "elsewhere", f"_authToken={TOKEN}\n")
    assert named in places.hidden_places(tmp_path, {"NPM_CONFIG_USERCONFIG": str(named)})
