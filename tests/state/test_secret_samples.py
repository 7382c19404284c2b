"""How many realistic secrets are masked, and how many harmless lines are left alone."""

from __future__ import annotations

from hermes_base.redaction import redact, redact_value

from .secret_samples import HARMLESS, SECRETS


def test_secrets_are_masked() -> None:
    passed = [
        text for text, secret in SECRETS if secret in redact(text) or secret[-8:] in redact(text)
    ]
    print(
        f"{len(SECRETS) - len(passed)} of {len(SECRETS)} secrets are masked; not:",
        *passed,
        sep="\n",
    )
    assert len(SECRETS) >= 220
    assert len(passed) <= len(SECRETS) * 3 // 100


def test_harmless_lines_stay() -> None:
    changed = [f"{line} -> {redact(line)}" for line in HARMLESS if redact(line) != line]
    print(f"{len(changed)} of {len(HARMLESS)} harmless lines are changed:", *changed, sep="\n")
    assert len(HARMLESS) >= 190
    assert len(changed) <= len(HARMLESS) * 2 // 100


def test_masking_again_changes_nothing() -> None:
    for text, _ in SECRETS:
        once = redact(text)
        assert redact(once) == once


def test_exports_mask_the_same() -> None:
    """Texts of an export go through the same table, also where they are entries of an object."""
    assert [
        text for text, secret in SECRETS if secret in str(redact_value({"content": text}))
    ] == []
    entries = {"DB_PASS": "hunter22!", "credentials": "same-origin", "token_count": "12345678"}
    assert redact_value(entries) == {**entries, "DB_PASS": "***"}
