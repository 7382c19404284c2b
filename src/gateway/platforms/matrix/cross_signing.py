"""The identity of the account, which signs its device: without it, other clients take the device
for one that its owner does not know, and newer ones do not talk to it at all.

Three Ed25519 keys: the account's own, one that signs its devices, one that signs other people. They
are made once and kept with the device's keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nio.api import Api  # type: ignore[import-untyped]
from unpaddedbase64 import decode_base64, encode_base64

_USAGES = {"master": "master", "self_signing": "self", "user_signing": "user"}


class Identity:
    """The three keys."""

    def __init__(self, user_id: str, seeds: Mapping[str, str] | None = None) -> None:
        """`seeds` are those that were kept; new ones without."""
        from Crypto.PublicKey import ECC

        self._user_id = user_id
        self._keys: dict[str, Any] = {}
        for usage in _USAGES:
            if seeds is None:
                self._keys[usage] = ECC.generate(curve="ed25519")
            else:
                seed = decode_base64(seeds[usage])
                self._keys[usage] = ECC.construct(curve="ed25519", seed=seed)

    @property
    def seeds(self) -> dict[str, str]:
        """What is kept."""
        return {usage: encode_base64(key.seed) for usage, key in self._keys.items()}

    def public(self, usage: str) -> str:
        """A public key."""
        return str(encode_base64(self._keys[usage].public_key().export_key(format="raw")))

    def uploaded(self) -> dict[str, Any]:
        """The public keys as a server takes them."""
        keys: dict[str, Any] = {}
        for usage in _USAGES:
            public = self.public(usage)
            keys[f"{usage}_key"] = {
                "user_id": self._user_id, "usage": [usage], "keys": {f"ed25519:{public}": public},
            }  # fmt: skip
        for usage in ("self_signing", "user_signing"):
            self._sign(keys[f"{usage}_key"], "master")
        return keys

    def sign_device(self, device: Mapping[str, Any]) -> dict[str, Any]:
        """The device's public keys, signed."""
        signed = {name: part for name, part in device.items() if name != "unsigned"}
        self._sign(signed, "self_signing")
        return signed

    def _sign(self, content: dict[str, Any], usage: str) -> None:
        from Crypto.Signature import eddsa

        plain = {name: part for name, part in content.items() if name != "signatures"}
        signature = eddsa.new(self._keys[usage], "rfc8032").sign(
            Api.to_canonical_json(plain).encode()
        )
        signatures = json.loads(json.dumps(content.get("signatures") or {}))
        own = signatures.setdefault(self._user_id, {})
        own[f"ed25519:{self.public(usage)}"] = encode_base64(signature)
        content["signatures"] = signatures


def signed_devices(
    user_id: str, answer: Mapping[str, Any], master: str, verify: Any
) -> dict[str, str]:
    """The devices (and their keys) that somebody signed, according to a server's answer.

    `master` is the public key that they are known to have; `verify` checks one signature. Nothing
    is believed that this key has not signed, by way of the key that signs devices.
    """
    own = _part(_part(answer, "self_signing_keys"), user_id)
    if not verify(dict(own), master, user_id, master):
        return {}
    signing = next(iter(_part(own, "keys").values()), None)
    if not isinstance(signing, str):
        return {}
    found = {}
    for device_id, device in _part(_part(answer, "device_keys"), user_id).items():
        key = _part(_part({"": device}, ""), "keys").get(f"ed25519:{device_id}")
        if isinstance(key, str) and verify(dict(device), signing, user_id, signing):
            found[device_id] = key
    return found


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
