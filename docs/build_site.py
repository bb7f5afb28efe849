"""Build the documentation site, without a network: `make docs`, into build/site.

Pages are the Markdown files of the repository; docs/index.md is the table of contents.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "build/site_source"
STYLE = "docs/site.css"
PAGES = ("*.md", "docs/images", STYLE, "validation/pages", ":!:tests", ":!:validation/data")
SETTINGS = ROOT / "build/mkdocs.yml"
# light or dark as the system is set, until a reader chooses one
PALETTE = [
    {"media": f"(prefers-color-scheme{mode})", **look, "toggle": {"icon": icon, "name": name}}
    for mode, look, icon, name in (
        ("", {}, "material/brightness-auto", "Use light colors"),
        (": light", {"scheme": "default"}, "material/brightness-7", "Use dark colors"),
        (": dark", {"scheme": "slate"}, "material/brightness-4", "Follow the system"),
    )
]


def copied() -> None:
    """Copy the pages and images that git tracks."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    listed = ["git", "-C", str(ROOT), "ls-files", *PAGES]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603 - our own words
    for name in (text for text in names if text.endswith((".md", ".svg", ".png", ".css"))):
        target = SOURCE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)


def contents() -> list[dict[str, Any]]:
    """Return the sections of docs/index.md with their pages, in order."""
    sections: list[dict[str, Any]] = [{"perfatlas": "README.md"}]
    for part in (ROOT / "docs/index.md").read_text("utf-8").split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        rows = re.findall(r"^\| \[[^\]]*\]\(([^)#]+\.md)\)", body, flags=re.MULTILINE)
        pages = [os.path.normpath(f"docs/{page}") for page in rows]
        if pages:
            sections.append({title: pages})
    return sections


def main() -> int:
    """Build the site; the tests check its links."""
    copied()
    settings = {
        "site_name": "perfatlas",
        "docs_dir": str(SOURCE),
        "site_dir": str(ROOT / "build/site"),
        "theme": {
            "name": "material",
            "font": False,
            "features": ["toc.follow"],
            "palette": PALETTE,
        },
        "extra_css": [STYLE],
        "markdown_extensions": ["tables", "fenced_code", {"toc": {"permalink": True}}],
        "plugins": ["material/search"],
        "use_directory_urls": False,
        "nav": contents(),
    }
    SETTINGS.write_text(json.dumps(settings), "utf-8")  # YAML includes JSON
    build(load_config(str(SETTINGS)))
    sys.stdout.write(f"documentation: {ROOT / 'build/site/index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
