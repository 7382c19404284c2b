"""Secrets go, whatever surrounds them; ordinary text stays."""

from __future__ import annotations

import json
import string
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_base import redaction as module
from hermes_base.redaction import MASK, redact, redact_value, register_secret
from hermes_base.redaction.table import PREFIXES

# Every example is put together here, so that no scanner takes this file for a leak.
BODY = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9"
PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEow{1}\n{1}\n-----END {0}PRIVATE KEY-----"

TOKENS = [prefix + BODY * (1 + length // 38) for prefix, length in PREFIXES.items()] + [
    "AKIA" + "ABCDEFGH12345678",
    "ASIA" + "ABCDEFGH12345678",
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + "." + BODY,
    "SK" + "0123456789abcdef" * 2,
    "123456789:" + BODY[:35],
    "M" + BODY[:23] + ".GabCde." + BODY[:30],
]

PLACES = [
    ("password={}", "hunter22"),
    ("PASSWORD: {}", "hunter22"),
    ('"api_key": "{}"', "a b c d e f"),
    ('{{\\"token\\": \\"{}\\"}}', "abcdef123"),
    ("DB_PASSWD='{}'", "p w d 1"),
    ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG"),
    ("AccountKey={};Endpoint=x", "Zm9vYmFyYmF6cXV4"),
    ("Authorization: Bearer {}", "abc.def-123"),
    ("authorization: Basic {}", "dXNlcjpwYXNz"),
    ("'Authorization': '{}'", "rawtokenvalue"),
    ("curl -H 'X-Api-Key: {}'", "0123456789"),
    ("sent bearer {} to it", "abcdefghijklmnop"),
    ("postgresql://user:{}@db.example/x", "s3cr3t"),
    ("redis://:{}@cache:6379", "s3cr3t"),
    ("GET /v1?key={}&x=1", "0123456789"),
    ("GET /v1?x=1&sig={}", "a%2Bb%3D0123"),
    ("Set-Cookie: {}", "sid=abcd; Path=/"),
    ("https://discord.com/api/webhooks/123/{}", BODY),
    ("https://hooks.slack.com/services/{}", "T000/B000/" + BODY),
]

ORDINARY = [
    "max_tokens=4096, token_count: 12, tokens: 200000",
    "session_key=agent:main:telegram:dm:42 session=20260101_000000_abcdef",
    "def login(token: str, password: Optional[str] = None) -> bool:",
    "see https://example.com:8080/path?x=1 and mailto:someone@example.com",
    "npm_config_registry_is_set_somewhere hf_hub_download_of_a_model sk-learn-is-a-library-name",
    "the bearer of this letter; a secretary: Ms Smith; passes: 12",
    "password=$DB_PASSWORD token=<your token> secret: ***",
    "sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "src/agent/providers/embedded_fetch.py:120: error: incompatible types in assignment",
    "2026-01-01T10:00:00.123456+00:00 INFO 550e8400-e29b-41d4-a716-446655440000",
]


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:14])
@pytest.mark.parametrize(
    "around", ["{}", 'got "{}" back', "x={}&y", "https://h/bot{}/send", "({})."]
)
def test_known_tokens_go_wherever_they_stand(token, around):
    if "/bot" in around and not token[0].isdigit():
        around = "https://h/{}/send"
    cleaned = redact(around.format(token))
    assert MASK in cleaned
    assert token[-12:] not in cleaned
    assert redact(cleaned) == cleaned


@pytest.mark.parametrize(("place", "value"), PLACES)
def test_what_stands_where_secrets_stand_goes(place, value):
    cleaned = redact(f"before {place.format(value)} after\nnext line")
    assert value not in cleaned
    assert MASK in cleaned
    assert cleaned.endswith("\nnext line")
    assert cleaned.startswith("before ")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text):
    assert redact(text) == text


def test_enough_stays_to_recognise_the_secret():
    assert redact("key sk-ant-" + BODY) == f"key sk-ant-{MASK}"
    assert redact("password=hunter22 ok") == f"password={MASK} ok"
    assert redact("https://joe:pw123@h/") == f"https://joe:{MASK}@h/"


@pytest.mark.parametrize("kind", ["", "RSA ", "OPENSSH ", "EC "])
def test_private_keys_go_also_when_cut_off(kind):
    pem = PEM.format(kind, BODY)
    assert BODY not in redact(f"a\n{pem}\nb")
    assert redact(f"a\n{pem}\nb").endswith(f"{MASK}\nb")
    assert BODY not in redact(pem[: len(pem) // 2])


def test_what_follows_a_masked_key_stays():
    once = redact(f"a\n{PEM.format('', BODY)}\nb")
    assert redact(once) == once


@pytest.mark.parametrize("before", ["KEY-----", "key_", "token-cookie-"])
def test_a_header_behind_another_name_is_still_a_header(before):
    text = f"{before}Authorization: Bearer "
    assert redact(f"{text}abc.def-123") == text + MASK


def test_a_private_key_separates_as_a_line_end_does():
    text = f"Cookie: a=b; c={PEM.format('', BODY)}"
    assert redact(f"{text}{TOKENS[0]} after") == f"Cookie: {MASK}{MASK}sk-ant-{MASK} after"


def test_registered_values_go_in_any_text(monkeypatch):
    monkeypatch.setattr(module, "_registered", ())
    register_secret("open sesame/1")
    register_secret("open sesame/1 and more")
    register_secret("short")
    register_secret(None)
    assert redact("say open sesame/1!") == f"say {MASK}!"
    assert redact("say open sesame/1 and more!") == f"say {MASK}!"
    assert redact("q=open%20sesame%2F1") == f"q={MASK}"
    assert redact("a short word") == "a short word"


pieces = st.one_of(
    st.text(max_size=12),
    st.sampled_from(TOKENS),
    st.sampled_from([place.format(value) for place, value in PLACES]),
    st.sampled_from(["password=", "token: ", "Bearer ", "://", "@", "\n", "***", PEM]),
    st.text(string.ascii_letters + string.digits + "._-:=/'\" ", max_size=30),
)


@given(
    st.lists(st.tuples(pieces, st.sampled_from([" ", "\n", ", ", "; "])), max_size=6).map(
        lambda pairs: "".join(piece + separator for piece, separator in pairs)
    )
)
@example("Password= Set-Cookie: sid=abcd; Path=/ ")
@example("Password= x-bearer abcdefghijklmnop")
@example("Password= my-auth: " + BODY)
def test_redacting_twice_changes_nothing_more(text):
    once = redact(text)
    assert redact(once) == once


@given(st.text(max_size=20), st.sampled_from(TOKENS), st.text(max_size=20))
def test_a_token_between_spaces_always_goes(before, token, after):
    assert token not in redact(f"{before} {token} {after}")


def test_letters_that_change_length_do_not_shift_the_mask():
    assert redact("İİİ password=hunter22 İ") == f"İİİ password={MASK} İ"
    letters = map(chr, range(sys.maxunicode + 1))
    assert [letter for letter in letters if len(letter.lower()) != 1] == ["İ"]


@given(
    st.lists(st.one_of(pieces, st.sampled_from(["sk-", "eyJ", ".", "-", "x" * 30])), max_size=8),
    st.integers(1, 60),
)
@example([PEM, "Authorization: Bearer abc.def-123"], 1)
def test_where_a_block_ends_makes_no_difference(parts, block):
    text = "".join(parts)
    whole = redact(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert redact(text) == whole


def test_values_keep_their_shape():
    value = {"a": [1, None, True, 2.5, {"b": "text"}], "token": "", "key": "x" * 9, "password": 5}
    assert redact_value(value) == value


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ({"password": "hunter22"}, {"password": MASK}),
        ({"db_password": "$DB_PASSWORD"}, {"db_password": "$DB_PASSWORD"}),
        ({"Authorization": "abcd"}, {"Authorization": MASK}),
        ({"max_token": "hunter22", "id": "token=hunter22"}, {"max_token": MASK}),
        (("password=hunter22",), [f"password={MASK}"]),
        ('{"password": "a\\"b\\"c"}', f'{{"password": "{MASK}"}}'),
        ('["echo \\"token=hunter22\\""]', f'["echo \\"token={MASK}\\""]'),
        ('{"n":1.0,  "m": [1]}', '{"n":1.0,  "m": [1]}'),
        ("{ token=hunter22", f"{{ token={MASK}"),
        ({TOKENS[0]: 1}, {f"sk-ant-{MASK}": 1}),
        ({"secret_" + BODY * 2: "0000000000"}, {f"secret_{MASK}": MASK}),
        (
            {"name": "secret_" + BODY * 2, "value": "0000000000"},
            {"name": f"secret_{MASK}", "value": MASK},
        ),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_values_lose_their_secrets(value, cleaned):
    if isinstance(cleaned, dict) and "id" in value:
        cleaned = {**cleaned, "id": value["id"]}
    assert redact_value(value, frozenset({"id"})) == cleaned


texts = st.one_of(pieces, st.text(max_size=5))
values = st.recursive(
    st.one_of(texts, st.none(), st.integers()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(texts, st.just("password")), inner, max_size=3),
        inner.map(json.dumps),
    ),
    max_leaves=8,
)


@given(values)
@example({"secret_" + BODY * 2: "0000000000"})
@example({"name": "secret_" + BODY * 2, "value": "0000000000"})
@example({"name": "token=hunter22", "value": "0000000000"})
def test_json_stays_json_and_twice_is_once(value):  # an object or a list, in which quotes count
    cleaned = redact_value(json.dumps([value]))
    json.loads(cleaned)
    assert redact_value(cleaned) == cleaned
