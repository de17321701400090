"""The site builds in strict mode, its links lead to pages and headings, and a reader's browser asks no other server."""

import html.parser
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse

TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PARKADE_BUILD_DIR", TREE / "build/release")).resolve()
sys.path.insert(0, str(TREE / "docs/site"))
import stage  # noqa: E402

SKIPPED = 77


class Page(html.parser.HTMLParser):
    """Of one page: links that a reader follows, what the browser fetches by itself, and anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.fetched, self.anchors = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("href") and found.get("rel") != "canonical":
            self.fetched.append(found["href"])
        elif found.get("src"):
            self.fetched.append(found["src"])


def is_elsewhere(link):
    return bool(urllib.parse.urlsplit(link).scheme or link.startswith("//"))


def problems_of(site):
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are from the server's root
        name = path.relative_to(site)
        for link in page.fetched:
            if is_elsewhere(link):
                yield f"{name} has the browser ask for {link}"
        for link in page.links:
            if is_elsewhere(link):
                continue
            target, _, anchor = urllib.parse.unquote(link).partition("#")
            there = (path.parent / target).resolve() if target else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                yield f"{name}: {link} leads to no file"
            elif anchor and there in pages and anchor not in pages[there].anchors:
                yield f"{name}: {link} leads to no heading"
    for style in site.rglob("*.css"):
        if any(f"url({sign}http" in style.read_text() for sign in ("", "'", '"')):
            yield f"{style.relative_to(site)} asks another server"
    for page in (TREE / "docs").glob("*.md"):
        if not (site / f"{page.stem}.html").is_file():
            yield f"docs/{page.name} is not in the site"
        elif f"{page.stem}.md" not in (TREE / "docs/site/mkdocs.yml").read_text():
            yield f"docs/{page.name} is not in the navigation"


def refuses_what_is_not_there():
    trial = stage.Stage("unused")
    trial.link(stage.LINK.match("[a page](docs/no-such-page.md)"), "README.md", "index.md", 1)
    if trial.problems != ["README.md:1: there is no docs/no-such-page.md"]:
        yield f"a link that leads nowhere was taken: {trial.problems}"


def main():
    with tempfile.TemporaryDirectory(prefix="docs-", dir=BUILD if os.access(BUILD, os.W_OK) else None) as folder:
        done = subprocess.run([TREE / "scripts/docs", folder], capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr, sep="")
        if done.returncode:
            sys.exit(SKIPPED if done.returncode == SKIPPED else 1)
        found = [*refuses_what_is_not_there(), *problems_of(pathlib.Path(folder) / "site")]
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
