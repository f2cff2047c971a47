"""MkDocs hooks of `make site`. They add README, CONTRIBUTING, CHANGELOG and the reference of the public names to docs/.

MkDocs calls the functions `on_…`. They write nothing into docs/, and read the package without importing it.
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
ADDED = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that become pages of the site, and the names of these pages."""

REFERENCE = "reference.md"
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in ADDED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_with_links(text, ROOT)))
    files.append(File.generated(config, REFERENCE, content=reference()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Point links that leave docs/ to the pages of the site."""
    return markdown if page.file.generated_by else _with_links(markdown, (DOCS / page.file.src_uri).parent)


def _with_links(text: str, folder: Path) -> str:
    """The text of a page in this folder, with links for the site. Links to files that are not on the site become plain text."""
    here = folder if folder.is_relative_to(DOCS) else DOCS  # the added pages are next to those of docs/

    def site_link(link: re.Match[str]) -> str:
        path, mark, anchor = link[2].partition("#")
        target = (folder / path).resolve()
        if "://" in path or not path or not target.is_relative_to(ROOT) or not target.is_file():
            return link[0]  # a dead link fails the strict build
        if target.is_relative_to(DOCS):
            page = target
        elif (added := ADDED.get(target.relative_to(ROOT).as_posix())) is None:
            return link[1]
        else:
            page = DOCS / added
        return f"[{link[1]}]({Path(os.path.relpath(page, here)).as_posix()}{mark}{anchor})"

    return LINK.sub(site_link, text)


def reference() -> str:
    """The page of the public names: first those of the package, then those of each public module."""
    package = griffe.load("spark_recmetrics", search_paths=[str(ROOT)])
    exported = [str(name) for name in package.exports or ()]
    modules = [name for name in exported if package.modules.get(name) is not None]
    lines = [
        "# Reference",
        "",
        "The public names of the package, imported as `import spark_recmetrics as srm`.",
        "",
        "## srm",
        "",
    ]
    for name in exported:
        if name not in modules and not name.startswith("__"):
            lines += _entry(f"srm.{name}", package[name])
    for name in modules:
        module = package[name]
        lines += [f"## srm.{name}", "", module.docstring.value if module.docstring else "", ""]
        for member in module.exports or ():
            lines += _entry(f"srm.{name}.{member}", module[str(member)])
    return "\n".join(lines)


def _entry(name: str, member: griffe.Object | griffe.Alias) -> list[str]:
    path = member.target_path if isinstance(member, griffe.Alias) else member.path
    return [f"::: {path}", "    options:", f'      heading: "{name}"', f'      toc_label: "{name}"', ""]
