"""What MkDocs runs while it builds the site: the version, and the pages that lie outside of this folder."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
# Pages of the repository that the documentation links to, and where they stand on the site.
OUTSIDE = {
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "bench/README.md": "project/bench.md",
    "bench/RESULTS.md": "project/results.md",
    "spec/journal.md": "project/journal.md",
}
_LINK = re.compile(r"(\]\()([^)#:\s]+)([)#])")


def on_config(config: Any) -> Any:
    """Build each version into a folder of its own, beside those that were built before."""
    config.site_name = f"Lockgate {VERSION}"
    config.site_dir = str(ROOT / "build" / "site" / VERSION)
    return config


def on_files(files: Files, config: Any) -> Files:
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Turn links that leave this folder into links between pages of the site."""
    outside = {place: path for path, place in OUTSIDE.items()}
    at = Path(page.file.src_uri)
    here = (ROOT / outside[at.as_posix()] if at.as_posix() in outside else ROOT / "docs" / at).parent

    def lead(found: re.Match[str]) -> str:
        target = Path(here, found[2]).resolve()
        name = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
        if name not in OUTSIDE and at.as_posix() not in outside:
            return found[0]
        place = OUTSIDE.get(name, name.removeprefix("docs/"))
        return f"{found[1]}{'../' * (len(at.parts) - 1)}{place}{found[3]}"

    return _LINK.sub(lead, markdown)


def on_post_build(config: Any) -> None:
    """List the versions that lie beside this one, for the chooser in the header."""
    folder = Path(config.site_dir).parent
    found = sorted((path.parent.name for path in folder.glob("*/index.html")), reverse=True)
    listed = [{"version": name, "title": name, "aliases": []} for name in found]
    (folder / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={VERSION}/index.html"><title>Lockgate</title>\n'
        f'<a href="{VERSION}/index.html">Lockgate {VERSION}</a>\n',
        encoding="utf-8",
    )
