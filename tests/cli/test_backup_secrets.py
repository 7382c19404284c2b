"""`hermes backup --no-secrets`: no secret is in the archive, all else is, and a restore works."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_cli.secret_free import mask_config

SECRETS = [f"Zq7secret{n:02}xYw" for n in range(14)] + ["sk-ant-" + "a1B2" * 8]
CONFIG = f"""\
# My configuration: keep this line
model:
  default: claude   # the good one
  provider: custom
  base_url: http://me:{SECRETS[0]}@127.0.0.1:9/v1
  api_key: {SECRETS[1]}   # from the console
  max_tokens: 4096
  # api_key: {SECRETS[14]}
fallback_models:
  - {{model: other, api_key: "{SECRETS[2]}"}}
auxiliary: {{title_generation: {{api_key: '{SECRETS[3]}', enabled: true}}}}
platforms:
  telegram:
    enabled: false
    token: {SECRETS[4]}
    extra: {{bot_token: "${{TELEGRAM_TOKEN}}"}}
  api_server:
    enabled: false
    keys: {{ada: {SECRETS[5]}, eve: {SECRETS[6]}}}
mcp_servers:
  github:
    command: gh-mcp
    env: {{GITHUB_PAT: {SECRETS[7]}, DEBUG: "1"}}
    headers: {{Authorization: "Bearer {SECRETS[8]}"}}
    args: [--verbose, "--token=sk-ant-{"c3D4" * 8}"]
webhooks:
  secret: |
    {SECRETS[9]}
  webhookSecret: >-
    {SECRETS[10]}
display:
  skin: dark
"""


def test_only_secrets_are_taken_out_of_a_configuration() -> None:
    masked, places = mask_config(CONFIG)
    assert not any(secret in masked for secret in SECRETS)
    assert "c3D4c3D4" not in masked
    before, after = yaml.safe_load(CONFIG), yaml.safe_load(masked)
    assert after["model"] == {**before["model"], "api_key": "", "base_url": ""}
    assert after["display"] == before["display"]
    assert after["platforms"]["telegram"]["extra"] == {"bot_token": "${TELEGRAM_TOKEN}"}
    assert after["platforms"]["api_server"]["keys"] == {"ada": "", "eve": ""}
    assert after["mcp_servers"]["github"]["args"] == ["--verbose", ""]
    assert after["webhooks"] == {"secret": "", "webhookSecret": ""}
    assert "# My configuration: keep this line" in masked
    assert "  default: claude   # the good one\n" in masked
    assert 'api_key: ""   # from the console\n' in masked
    assert "model.api_key" in places and "platforms.api_server.keys.ada" in places
    assert mask_config(masked) == (masked, [])


@pytest.mark.parametrize("text", ["", "# nothing\n", "a: 1\nb: [x, y]\n", "just text\n"])
def test_what_has_no_secret_stays_as_it_is(text: str) -> None:
    assert mask_config(text) == (text, [])


def fill(home: Path) -> dict[str, str]:
    plugin = home / "plugins" / "weather"
    plugin.mkdir(parents=True)
    files = {
        "config.yaml": CONFIG,
        ".env": f"OPENAI_API_KEY={SECRETS[11]}\n",
        "auth.json": f'{{"token": "{SECRETS[12]}"}}',
        "plugins/weather/.env": f"KEY={SECRETS[13]}\n",
        "plugins/weather/plugin.py": "print('sunny')\n",
        "SOUL.md": "Be kind.\n",
    }
    for name, text in files.items():
        (home / name).write_text(text)
    return files


def test_no_secret_is_in_the_archive_and_a_restore_works(cli: Any, tmp_path: Path) -> None:
    with cli.store() as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
    files = fill(cli.home)
    archive = tmp_path / "given-away.tar.gz"
    said = cli("backup", "--no-secrets", "-o", str(archive))
    assert said.code == 0, said
    for name in (".env", "auth.json", "plugins/weather/.env", "config.yaml: model.api_key"):
        assert f"  {name}\n" in said.out
    whole = gzip.decompress(archive.read_bytes())
    assert not [secret for secret in SECRETS if secret.encode() in whole]
    with tarfile.open(archive) as opened:
        assert {"plugins/weather/plugin.py", "SOUL.md", "config.yaml"} <= set(opened.getnames())
    (cli.home / "plugins" / "weather" / "plugin.py").write_text("broken")
    restored = cli("restore", str(archive), "--yes")
    assert restored.code == 0, restored
    for name in ("plugins/weather/plugin.py", "SOUL.md", ".env", "auth.json"):
        assert (cli.home / name).read_text() == files[name], name
    assert (cli.home / "plugins/weather/.env").read_text() == files["plugins/weather/.env"]
    assert yaml.safe_load((cli.home / "config.yaml").read_text())["display"] == {"skin": "dark"}
    with cli.store() as db:
        assert db.message_count("s") == 1


@pytest.mark.sqlite
def test_points_have_no_secrets_either(cli: Any, tmp_path: Path) -> None:
    with cli.store() as db:
        db.create_session("s", "cli")
    fill(cli.home)
    points = tmp_path / "points"
    assert cli("backup", "increment", "--no-secrets", "--to", str(points)).code == 0
    target = tmp_path / "unpacked"
    target.mkdir()
    from hermes_cli.home_backup import unpack_point

    unpack_point(points, None, target)
    found = b"".join(path.read_bytes() for path in target.rglob("*") if path.is_file())
    assert b"Be kind." in found
    assert not [secret for secret in SECRETS if secret.encode() in found]


def test_a_configuration_that_cannot_be_read_is_left_out(cli: Any, tmp_path: Path) -> None:
    (cli.home / "config.yaml").write_text(f"model: [broken\napi_key: {SECRETS[0]}\n")
    archive = tmp_path / "given-away.tar.gz"
    said = cli("backup", "--no-secrets", "-o", str(archive))
    assert "config.yaml (it is not valid YAML" in said.out
    assert SECRETS[0].encode() not in gzip.decompress(archive.read_bytes())
