"""Reads proto files with their comments, as this project writes them: one element a line, comments before it or behind it.
A comment behind a field goes on in the lines below that begin further right than the field."""

import dataclasses
import re

FIELD = re.compile(r"(?P<label>repeated |optional )?(?P<type>map<[^>]+>|[\w.]+) (?P<name>\w+) = (?P<number>\d+);")
VALUE = re.compile(r"(?P<name>[A-Z][A-Z0-9_]*) = (?P<number>\d+);")
CALL = re.compile(r"rpc (?P<name>\w+)\((?P<request>\w+)\) returns \((?P<stream>stream )?(?P<answer>\w+)\);")
BLOCK = re.compile(r"(?P<kind>message|enum|oneof|service) (?P<name>\w+) \{(?P<rest>.*)$")


@dataclasses.dataclass
class Element:
    """A message, enumeration, oneof, field, value or call; `comment` is a list of lines."""

    kind: str
    name: str
    comment: list
    type: str = ""
    number: int = 0
    request: str = ""
    elements: list = dataclasses.field(default_factory=list)

    def of(self, *kinds):
        return [element for element in self.elements if element.kind in kinds]


@dataclasses.dataclass
class File:
    name: str
    comment: list
    elements: list


def read(path):
    """The File at `path`. A line that is none of the above is a ValueError with its place."""
    root = Element("file", path.name, [])
    stack, pending, last, head = [root], [], None, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        indent, text = len(line) - len(line.lstrip()), line.strip()
        if text.startswith("//"):
            words = text[2:].removeprefix(" ")
            if last is not None and indent > last[1]:
                last[0].comment.append(words.strip())
            else:
                pending.append(words)
                last = None
            continue
        last = None
        if not text:
            pending = []
        elif text.startswith(("syntax", "package", "import")):
            head = pending if head is None else head
            pending = []
        elif text == "}":
            stack.pop()
            pending = []
        else:
            element, opens = _element(text, pending, f"{path.name}:{number}")
            stack[-1].elements.append(element)
            pending = []
            if opens:
                stack.append(element)
            else:
                last = element, indent
    return File(path.name, head or [], root.elements)


def _element(text, comment, place):
    """The element that a line begins, and whether its block goes on in the next."""
    code, _, behind = text.partition("//")
    code = code.strip()
    comment = [*comment, behind.strip()] if behind else list(comment)
    if match := BLOCK.match(code):
        element = Element(match["kind"], match["name"], comment)
        inside = match["rest"].strip()
        if not inside.endswith("}"):
            return element, True
        for part in re.findall(r"[^;]+;", inside[:-1]):
            element.elements.append(_element(part.strip(), [], place)[0])
        return element, False
    if match := CALL.fullmatch(code):
        return Element("call", match["name"], comment, (match["stream"] or "") + match["answer"], 0, match["request"]), False
    if match := VALUE.fullmatch(code):
        return Element("value", match["name"], comment, "", int(match["number"])), False
    if match := FIELD.fullmatch(code):
        return Element("field", match["name"], comment, (match["label"] or "") + match["type"], int(match["number"])), False
    raise ValueError(f"{place}: {text!r} is no element of a proto file as they are written here")
