"""The fenced blocks of the pages, and the commands in those of the shell."""

import dataclasses
import pathlib
import re
import shlex

LANGUAGES = {"sh", "python", "c", "toml", "cmake", "text"}


@dataclasses.dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks(tree, page):
    """Those of a page in their order. ValueError for one without a language that is known, or without an end."""
    found, begin, lines = [], None, []
    for number, line in enumerate((pathlib.Path(tree) / page).read_text().splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif begin is None:
            begin, lines = (number, line[3:]), []
            if begin[1] not in LANGUAGES:
                raise ValueError(f"{page}:{number}: a block of {begin[1] or 'no language'}: one of {', '.join(sorted(LANGUAGES))}")
        else:
            found.append(Block(page, begin[0], begin[1], "\n".join(lines)))
            begin = None
    if begin:
        raise ValueError(f"{page}:{begin[0]}: the block has no end")
    return found


def commands(text):
    """Each simple command of a shell text as a list of words. What stands behind a variable or a redirection is kept as it is."""
    found, pending = [], ""
    for line in text.replace("\\\n", " ").splitlines():
        pending += line
        try:
            lexer = shlex.shlex(pending, posix=True, punctuation_chars=";&|<>()")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:  # a quotation goes on in the next line
            pending += "\n"
            continue
        pending, command = "", []
        for word in [*words, ";"]:
            if re.fullmatch(r"[;&|()]+", word):
                found += [command] if command else []
                command = []
            else:
                command.append(word)
    if pending.strip():
        raise ValueError(f"a quotation has no end: {pending!r}")
    return found
