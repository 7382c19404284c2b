"""What a secret is: how tokens begin, what secrets are called, what is no secret after all.

One table for everything that must know: masking (`redact`), the environment of commands
(`tools/terminal/environ.py`), exports, and which settings files a wall hides. Formats are those
that their makers publish.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

# Prefix and the shortest rest that is surely a token, for rests of letters, digits, "_" and "-".
PREFIXES = {
    # Models
    "sk-ant-": 16, "sk-proj-": 16, "sk-svcacct-": 16, "sk-admin-": 16, "sk-or-v1-": 16,
    "sk-lf-": 16, "sk-": 20, "AIza": 30, "AQ.": 30, "hf_": 20, "gsk_": 20, "xai-": 20, "r8_": 20,
    "pplx-": 20, "nvapi-": 20, "csk-": 20, "fw_": 20, "tgp_v1_": 20, "voyage-": 30, "ABSK": 60,
    "lsv2_pt_": 20, "lsv2_sk_": 20, "pcsk_": 20, "api_org_": 20, "jina_": 30, "pa-": 40,
    # Code hosts and package registries
    "ghp_": 20, "gho_": 20, "ghu_": 20, "ghs_": 20, "ghr_": 20, "github_pat_": 20, "glpat-": 16,
    "gldt-": 16, "glrt-": 16, "glptt-": 16, "glcbt-": 16, "glimt-": 16, "glagent-": 20,
    "glft-": 16, "gloas-": 20, "glsoat-": 16, "glffct-": 16, "GR1348941": 16, "npm_": 20,
    "pypi-": 16, "dckr_pat_": 16, "dckr_oat_": 16, "rubygems_": 20, "CLOJARS_": 30, "ATATT3": 20,
    "ATCTT3": 20, "ATBB": 20, "ATOA": 40, "sgp_": 30, "squ_": 30, "sqp_": 30, "sqa_": 30,
    "bkua_": 30, "CCIPAT_": 20, "AKCp": 60, "cmVmdGtu": 50,
    # Chat and mail
    "xoxb-": 10, "xoxp-": 10, "xoxa-": 10, "xoxr-": 10, "xoxs-": 10, "xoxe-": 10, "xoxc-": 10,
    "xoxd-": 10, "xapp-": 10, "xoxe.xoxp-": 10, "xoxe.xoxb-": 10, "SG.": 20, "key-": 32,
    "syt_": 20, "xkeysib-": 30, "xsmtpsib-": 30, "re_": 24,
    # Payment and commerce
    "sk_live_": 10, "sk_test_": 10, "rk_live_": 10, "rk_test_": 10, "pk_live_": 10, "whsec_": 16,
    "sq0atp-": 20, "sq0csp-": 20, "sq0idp-": 20, "EAAAE": 50, "shpat_": 20, "shpss_": 20,
    "shpca_": 20, "shppa_": 20, "shpua_": 20, "FLWSECK-": 20, "FLWSECK_TEST-": 12,
    "duffel_live_": 20, "duffel_test_": 20, "EZAK": 50, "EZTK": 50, "shippo_live_": 20,
    "shippo_test_": 20, "access-production-": 30, "access-sandbox-": 30, "live_pub_": 30,
    # Clouds and services
    "dop_v1_": 20, "doo_v1_": 20, "dor_v1_": 20, "ya29.": 20, "GOCSPX-": 20, "glsa_": 20,
    "glc_": 30, "sntrys_": 20, "sntryu_": 20, "lin_api_": 20, "lin_oauth_": 20, "figd_": 20,
    "figdr_": 20, "ntn_": 20, "secret_": 40, "PMAK-": 20, "PMAT-": 20, "dapi": 32, "dkea": 32,
    "hvs.": 20, "hvb.": 20, "hvr.": 20, "NRAK-": 20, "NRII-": 20, "NRJS-": 16, "tvly-": 16,
    "fc-": 32, "exa_": 20, "sbp_": 20, "sb_secret_": 20, "vcp_": 20, "vck_": 20, "tskey-": 16,
    "AGE-SECRET-KEY-": 20, "EAACEdEose0cBA": 10, "phc_": 20, "phx_": 20, "pat-na1-": 20,
    "pat-eu1-": 20, "pscale_tkn_": 20, "pscale_pw_": 20, "pscale_oauth_": 20, "dp.pt.": 30,
    "dp.st.": 30, "dp.sa.": 30, "dp.ct.": 30, "dp.scim.": 30, "dp.audit.": 30, "HRKU-": 20,
    "nfp_": 30, "nfc_": 30, "pul-": 30, "pnu_": 30, "rdme_": 40, "rnd_": 24, "tfp_": 40,
    "aio_": 24, "dnkey-": 40, "fio-u-": 40, "p8e-": 30, "sm_pat_": 16, "t1.": 60, "AQVN": 30,
    "y0_": 30, "zpka_": 30, "ico-": 30, "fo1_": 40, "CFPAT-": 40, "patv1_": 30, "cfut_": 30,
    "cfat_": 30, "v1.0-": 60, "sess_": 40, "tk-us-": 40, "waka_": 30, "ptr_": 40, "ops_eyJ": 40,
}  # fmt: skip

# Tokens of a form that is more than a prefix, with a limit to what must be read to see it.
FORMS = r"""
    (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b
  | SK[0-9a-f]{32}\b
  | LTAI[A-Za-z0-9]{16,24}\b
  | [0-9a-f]{32}-us[0-9]{1,2}\b
  | [0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b
  | pat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b
  | [A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}
  | dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b
  | [0-9a-f]{36}NRAL\b
  | A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}\b
  | oy2[a-z0-9]{43}\b
  | s\.(?=[A-Za-z]{0,23}[0-9])[A-Za-z0-9]{24}\b
"""

ENVIRONMENT = (
    "HERMES_*", "AWS_*", "*_KEY", "*_KEYS", "*_KEY_ID", "*APIKEY*", "*API_KEY*", "*ACCESS_KEY*",
    "*PRIVATE_KEY*", "*SECRET*", "*TOKEN*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS",
    "*_PWD", "*_PAT", "*CREDENTIAL*", "*COOKIE*", "*WEBHOOK*", "*_AUTH", "*_AUTH_CONFIG", "*_DSN",
    "*_SALT", "*_CREDS", "*CONNECTION_STRING*",
)  # fmt: skip
"""Variables that no command gets, whatever they hold: patterns in capitals, wider than the names
below since nothing is lost by it. SSH_AUTH_SOCK stays: a socket to ask, not a key to copy."""

Kind = Literal["plain", "random", "unlikely"]
"""How sure a name is: of a secret whatever it looks like; of one if the value looks random; of
hardly anything (`pass`)."""

_PLAIN = frozenset({
    "password", "passwd", "passwort", "passphrase", "passcode", "pass", "pwd", "secret", "secrets",
    "token", "apikey", "authkey", "secretkey", "accesskey", "privatekey", "authtoken",
    "dbpass", "userpass", "rootpass", "sshpass", "smtppass", "dbpwd", "pw", "authpass", "psk",
})  # fmt: skip
_PLAIN_END = ("password", "passwd", "passphrase", "secret", "token", "apikey", "secretkey")
"""How a word ends that was written without marks between its parts: PGPASSWORD, accesstoken."""
_RANDOM = frozenset({
    "auth", "salt", "credential", "credentials", "creds", "cred", "otp", "pat", "jwt", "mnemonic",
    "bearer", "signature", "sig", "apisecret",
})  # fmt: skip
_PLAIN_KEYS = frozenset({
    "api", "secret", "access", "private", "account", "auth", "signing", "sign", "master", "client",
    "encryption", "encrypt", "decryption", "storage", "subscription", "functions", "function",
    "shared", "preshared", "pre", "hmac", "jwt", "aes", "cipher", "crypt", "crypto", "unseal",
    "recovery", "integration", "ingest", "license", "webhook", "jwk", "ssh", "gpg", "ssl", "tls",
    "deploy", "admin", "root", "server", "in", "nonce", "app", "application", "service",
})  # fmt: skip
_HARMLESS_KEYS = frozenset({
    "session", "primary", "foreign", "sort", "cache", "partition", "row", "dict", "map", "index",
    "unique", "public", "pub", "group", "object", "shard", "lookup", "hash", "routing", "message",
    "idempotency", "translation", "i18n", "natural", "bucket", "hot", "idx", "schema", "sequence",
    "range", "order", "item", "data", "dedupe", "host", "state", "param", "query", "registry",
    "config", "conversation", "thread", "metric", "label", "json", "column", "modifier", "arrow",
    "turn", "test", "react", "list", "element", "composite", "candidate", "surrogate",
    "publishable", "any", "which", "this", "the", "a", "same", "new", "old", "next",
    "current", "parent", "node",
    "file", "path", "record", "entry", "attribute", "field", "property", "tag", "store", "event",
    "issue", "project", "jira", "feature", "flag", "setting", "settings", "artifact", "restore",
    "job", "build", "ref", "s3", "blob", "image", "i", "search", "sorting", "grouping",
})  # fmt: skip
_HARMLESS_BEFORE = frozenset({
    "next", "continuation", "page", "pagination", "eos", "bos", "pad", "unk", "cls", "sep", "mask",
    "special", "stop", "has", "is", "no", "needs", "show", "hide", "require", "requires", "use",
    "with", "without", "allow", "lex", "current", "prev", "peek", "lookahead", "num", "count",
    "sync", "resume", "cancellation", "cancel", "design", "image", "public",
})  # fmt: skip
"""Before "token" or "password" these make something else of it."""
_SUFFIXES = frozenset({
    "prod", "production", "dev", "staging", "stage", "live", "old", "new", "b64", "base64", "value",
    "string", "str", "ro", "rw", "primary", "secondary", "data", "base", "default", "backup", "raw",
    "plain", "plaintext", "main", "text",
})  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@lru_cache(maxsize=4096)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case: DB_PASS, dbPass and db-pass are `db` and `pass`."""
    return tuple(word.lower() for word in _WORD.findall(name))


@lru_cache(maxsize=4096)
def name_kind(name: str) -> Kind | None:
    """How sure it is that a secret is called so; None if it is not."""
    words = list(name_words(name[-64:]))
    while len(words) > 1 and (words[-1] in _SUFFIXES or words[-1].isdigit()):
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in ("pass", "pw", "pwd") and not before:
        return "unlikely"
    if last in ("key", "keys"):
        return _key_kind(before)
    if last in _PLAIN or last.endswith(_PLAIN_END):
        return None if before in _HARMLESS_BEFORE else "plain"
    if last in _RANDOM:
        return None if before in _HARMLESS_BEFORE else "random"
    return None


def _key_kind(before: str) -> Kind | None:
    if not before or before in _HARMLESS_KEYS or before.isdigit():
        return None
    return "plain" if before in _PLAIN_KEYS else "random"


ANCHORS = "pass|pwd|secret|token|key|cred|auth|salt|otp|jwt|mnemonic|sig|psk|pw|pat"
"""Every name of a secret has one of these in it; each begins with a letter of its own or few."""
