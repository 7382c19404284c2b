"""Credentials stay with Hermes unless somebody names them."""

from __future__ import annotations

import pytest

from tools.terminal.environ import child_environment, is_secret


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "API_SERVER_KEY", "OPENAI_KEY", "GITHUB_TOKEN",
        "GH_TOKEN", "TELEGRAM_BOT_TOKEN", "HF_TOKEN_PATH", "CLIENT_SECRET", "SECRET_KEY_BASE",
        "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "HERMES_HOME", "HERMES_YOLO_MODE", "PGPASSWORD",
        "MYSQL_PWD", "SMTP_PASS", "GPG_PASSPHRASE", "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_DEVOPS_EXT_PAT", "SLACK_WEBHOOK_URL", "SENTRY_DSN", "NPM_AUTH",
        "DOCKER_AUTH_CONFIG", "SESSION_COOKIE", "deploy_token", "SSH_PRIVATE_KEY", "dbPassword",
        "AUTH_SALT", "AZURE_STORAGE_CONNECTION_STRING",
    ],
)  # fmt: skip
def test_names_of_credentials_are_recognised(name: str) -> None:
    assert is_secret(name, "x")
    assert child_environment({name: "x"}) == {}
    assert child_environment({name: "x"}, [name]) == {name: "x"}


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "PWD", "OLDPWD", "LANG", "TERM", "USER", "SSH_AUTH_SOCK", "KEYBOARD",
        "DISPLAY", "EDITOR", "VIRTUAL_ENV", "KUBECONFIG", "DOCKER_HOST", "COMPASS", "MONKEY",
    ],
)  # fmt: skip
def test_ordinary_names_pass(name: str) -> None:
    assert child_environment({name: "x"}) == {name: "x"}


def test_a_password_inside_an_address_is_a_credential_too() -> None:
    environ = {
        "DATABASE_URL": "postgres://me:hunter22@db/app",
        "HTTPS_PROXY": "http://:pw@proxy:80",
        "SITE": "https://example.org:8080/a@b",
    }
    assert child_environment(environ) == {"SITE": "https://example.org:8080/a@b"}
    assert child_environment(environ, ["DATABASE_URL"])["DATABASE_URL"]


def test_a_token_under_a_harmless_name_is_a_credential_too() -> None:
    token = "gh" + "p_" + "Ab3dEf6h" * 5
    assert child_environment({"EXTRA": token, "NOTE": "see ghp_"}) == {"NOTE": "see ghp_"}


def test_what_may_pass_can_be_named_by_pattern() -> None:
    environ = {"AWS_REGION": "eu", "AWS_SECRET_ACCESS_KEY": "x", "GH_TOKEN": "y"}
    assert child_environment(environ, ["AWS_*"]) == {
        "AWS_REGION": "eu",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
