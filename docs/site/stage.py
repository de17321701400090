"""Lays out what mkdocs reads: the pages of docs/, README.md and python/README.md with links that hold in the site, the
sources that they name as text files, and the references that are made from the sources. Builds no page itself.

usage: stage.py FOLDER
"""

import os
import pathlib
import re
import shutil
import sys

import control_reference
import header_reference

TREE = pathlib.Path(__file__).resolve().parents[2]
# Files of the tree that are pages of the site, beside docs/*.md.
PAGES = {
    "README.md": "index.md",
    "python/README.md": "python.md",
    "proto/control.proto": "reference/calls.md",
    "shim/include/parkade/parkade.h": "reference/parkade_h.md",
    "shim/include/parkade/parkade_store.h": "reference/parkade_store_h.md",
}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


class Stage:
    """One layout in `folder`, which is made anew. `problems`: a line for each link that leads nowhere."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.pages = {page.relative_to(TREE).as_posix(): page.name for page in sorted((TREE / "docs").glob("*.md"))} | PAGES
        self.sources = set()
        self.problems = []

    def build(self):
        if self.folder.is_dir():
            shutil.rmtree(self.folder)
        (self.folder / "reference").mkdir(parents=True)
        for source, page in self.pages.items():
            if source.endswith(".md"):
                (self.folder / page).write_text(self.rewritten(source, page))
        for name, text in {**control_reference.pages(TREE), **header_reference.pages(TREE)}.items():
            (self.folder / "reference" / name).write_text(text)
        for source in sorted(self.sources):
            self.copy(source)

    def rewritten(self, source, page):
        """The text of a page, its links relative to where it stands in the site. Code blocks are left alone."""
        lines, inside = [], False
        for number, line in enumerate((TREE / source).read_text().splitlines(), 1):
            inside ^= line.lstrip().startswith("```")
            if not inside:
                line = LINK.sub(lambda match, number=number: self.link(match, source, page, number), line)
            lines.append(line)
        return "\n".join(lines) + "\n"

    def link(self, match, source, page, number):
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        named = os.path.normpath(os.path.join(os.path.dirname(source), target))
        if named not in self.pages and not (TREE / named).exists():
            self.problems.append(f"{source}:{number}: there is no {named}")
            return match[0]
        if named in self.pages:
            there = self.pages[named]
        else:
            self.sources.add(named)
            there = f"source/{named}.txt"
        path = os.path.relpath(there, os.path.dirname(page) or ".")
        return f"[{match['text']}]({path}{'#' + anchor if anchor else ''})"

    def copy(self, source):
        """A file as text, which every browser shows; a folder as its README, or the list of its files."""
        whence, to = TREE / source, self.folder / f"source/{source}.txt"
        to.parent.mkdir(parents=True, exist_ok=True)
        if whence.is_dir():
            readme = whence / "README.md"
            names = sorted(entry.name for entry in whence.iterdir() if not entry.name.startswith(("_", ".")))
            to.write_text(readme.read_text() if readme.exists() else f"{source}\n\n" + "\n".join(names) + "\n")
        else:
            shutil.copyfile(whence, to)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    stage = Stage(sys.argv[1])
    stage.build()
    sys.exit("\n".join(stage.problems) or 0)


if __name__ == "__main__":
    main()
