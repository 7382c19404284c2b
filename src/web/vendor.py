"""Take the page's libraries out of their npm archives: `python -m web.vendor FOLDER`.

Run by hand when a version changes. FOLDER holds what `npm pack NAME@VERSION` fetched for every
entry of `SOURCES`. What is written is committed: `static/vendor/*.js`, `vendor.json` with the
version, licence and digest of each file, and `LICENSES`. Imports by a bare name become paths, so
that the page needs no import map, which would be an inline script.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent / "static" / "vendor"
RENAMED = (
    ('"preact/hooks"', '"./hooks.js"'),
    ('"@preact/signals-core"', '"./signals-core.js"'),
    ('"preact"', '"./preact.js"'),
)


class Source(NamedTuple):
    """A file of the page and the package it is from."""

    name: str
    package: str
    version: str
    members: tuple[str, ...]
    before: str = ""
    after: str = ""


SOURCES = (
    Source("preact.js", "preact", "11.2.0", ("dist/preact.mjs",)),
    Source("hooks.js", "preact", "11.2.0", ("hooks/dist/hooks.mjs",)),
    Source("htm.js", "htm", "3.1.1", ("dist/htm.module.js",)),
    Source("signals.js", "@preact/signals", "2.11.4", ("dist/signals.mjs",)),
    Source("signals-core.js", "@preact/signals-core", "1.14.5", ("dist/signals-core.mjs",)),
    Source("marked.js", "marked", "18.2.0", ("lib/marked.esm.js",)),
    Source(
        "temml.js", "temml", "0.13.5", ("dist/temml.min.js",), after="\nexport default temml;\n"
    ),
)


def main(folder: Path) -> None:
    """Write the files and what is known of them."""
    HERE.mkdir(parents=True, exist_ok=True)
    facts, licences = {}, {}
    for source in SOURCES:
        archive = folder / f"{source.package.lstrip('@').replace('/', '-')}-{source.version}.tgz"
        with tarfile.open(archive) as packed:
            texts = {name: _read(packed, name) for name in (*source.members, "package.json")}
            licences[source.package] = _read(packed, "LICENSE")
        text = _joined(source, texts)
        (HERE / source.name).write_text(text, encoding="utf-8")
        facts[source.name] = {
            "package": source.package,
            "version": source.version,
            "licence": json.loads(texts["package.json"])["license"],
            "members": list(source.members),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
    (HERE / "vendor.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    lines = [f"{'=' * 8} {name}\n\n{text.strip()}\n" for name, text in sorted(licences.items())]
    (HERE / "LICENSES").write_text("\n".join(lines), encoding="utf-8")


def _read(packed: tarfile.TarFile, name: str) -> str:
    file = packed.extractfile(f"package/{name}")
    assert file is not None, name
    return file.read().decode("utf-8")


def _joined(source: Source, texts: dict[str, str]) -> str:
    """One module of the members of a source."""
    text = "".join(texts[name] for name in source.members)
    for bare, path in RENAMED:
        text = text.replace(f"from{bare}", f"from{path}").replace(f"from {bare}", f"from {path}")
    lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL")]
    return source.before + "\n".join(lines) + source.after + ("" if source.after else "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
