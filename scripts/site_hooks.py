"""What `make site` shows beside the pages of docs/: README, CONTRIBUTING and CHANGELOG, and the reference of the public names.

MkDocs calls the functions `on_…`. Nothing is written into docs/, and the package is read, not imported.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BESIDE = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that are pages of the site, too, and their names there."""

REFERENCE = "reference.md"
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in BESIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_with_links(text, ROOT)))
    files.append(File.generated(config, REFERENCE, content=reference()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let links out of docs/ lead to the pages of the site."""
    return markdown if page.file.generated_by else _with_links(markdown, (DOCS / page.file.src_uri).parent)


def _with_links(text: str, folder: Path) -> str:
    """The text of a page in this folder, with links for the site. What it links to and the site lacks is a name there."""
    here = folder if folder.is_relative_to(DOCS) else DOCS  # the pages from outside stand beside those of docs/

    def moved(link: re.Match[str]) -> str:
        path, mark, anchor = link[2].partition("#")
        there = (folder / path).resolve()
        if "://" in path or not path or not there.is_relative_to(ROOT) or not there.is_file():
            return link[0]  # what leads nowhere ends the build, which is strict
        if there.is_relative_to(DOCS):
            page = there
        elif (beside := BESIDE.get(there.relative_to(ROOT).as_posix())) is None:
            return link[1]
        else:
            page = DOCS / beside
        return f"[{link[1]}]({Path(os.path.relpath(page, here)).as_posix()}{mark}{anchor})"

    return LINK.sub(moved, text)


def reference() -> str:
    """The page of the public names: those of the package first, then those of each public module."""
    package = griffe.load("spark_recmetrics", search_paths=[str(ROOT)])
    exported = [str(name) for name in package.exports or ()]
    modules = [name for name in exported if package.modules.get(name) is not None]
    lines = ["# Reference", "", "The public names, behind `import spark_recmetrics as srm`.", "", "## srm", ""]
    for name in exported:
        if name not in modules and not name.startswith("__"):
            lines += _entry(f"srm.{name}", package[name])
    for module in modules:
        own = package[module]
        lines += [f"## srm.{module}", "", own.docstring.value if own.docstring else "", ""]
        for name in own.exports or ():
            lines += _entry(f"srm.{module}.{name}", own[str(name)])
    return "\n".join(lines)


def _entry(name: str, found: griffe.Object | griffe.Alias) -> list[str]:
    path = found.target_path if isinstance(found, griffe.Alias) else found.path
    return [f"::: {path}", "    options:", f'      heading: "{name}"', f'      toc_label: "{name}"', ""]
