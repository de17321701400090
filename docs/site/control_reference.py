"""The reference of the control API, made from proto/*.proto: calls, messages and errors, as pages by name."""

import collections
import re

import proto_source

FILES = ("control.proto", "requests.proto", "operation.proto", "node.proto", "store.proto", "timeline.proto", "error.proto")
# A line of a call's comment that lists errors, and one that goes on with it.
ROW = re.compile(r"  (?P<code>[A-Z][A-Z_]+(?:, [A-Z][A-Z_]+)*|otherwise as .*)(?:  +(?P<text>.*))?$")
MORE = re.compile(r" {6,}(?P<text>.*)$")
REASON = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\b(?:BUSY|EXPORTED|MEMLOCK|CANCELLED)\b|CUDA_<name>")
CODES = {
    "INVALID_ARGUMENT": "InvalidArgument", "NOT_FOUND": "NotFound", "PERMISSION_DENIED": "PermissionDenied",
    "UNAUTHENTICATED": "Unauthenticated", "FAILED_PRECONDITION": "FailedPrecondition", "ABORTED": "Aborted",
    "ALREADY_EXISTS": "AlreadyExists", "RESOURCE_EXHAUSTED": "ResourceExhausted", "DEADLINE_EXCEEDED": "DeadlineExceeded",
    "CANCELLED": "Cancelled", "UNAVAILABLE": "Unavailable", "DATA_LOSS": "DataLoss", "INTERNAL": "Internal",
}  # fmt: skip


def pages(tree):
    """The pages by name, and their text."""
    files = [proto_source.read(tree / "proto" / name) for name in FILES]
    (service,) = (element for element in files[0].elements if element.kind == "service")
    return {
        "index.md": overview(files[0], service),
        "calls.md": calls(service),
        "messages.md": messages(files),
        "errors.md": errors(files[0], service),
    }


def escaped(text):
    """Words of a comment as Markdown: nothing of them is markup, but code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<>|*_\[\]])", r"\\\1", part) for part in parts)


def sentence(comment):
    return escaped(" ".join(" ".join(comment).split())).strip()


def overview(file, service):
    rows = [f"| [{call.name}](calls.md#{call.name.lower()}) | {first_sentence(call.comment)} |" for call in service.elements]
    lines = [
        "# API reference", "", "Made from the sources with their comments, by each build of this site.", "",
        *paragraphs(file.comment), "", "| call | what it does |", "| --- | --- |", *rows, "",
        "The messages are in [messages](messages.md), what a failed call says in [errors](errors.md). In Python: [the package](../python.md).",
        "In C: [parkade.h](parkade_h.md) and [parkade_store.h](parkade_store_h.md).",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def first_sentence(comment):
    return re.match(r".*?[.](?= [A-Z]|$)|.*", sentence(comment))[0]


def paragraphs(comment):
    """A comment's lines as paragraphs."""
    text = "\n".join(escaped(line) for line in comment)
    return [re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n")]


def parts(comment):
    """A call's comment in order: ("text", words) and ("errors", [(code, words)])."""
    found = []
    for line in comment:
        if match := ROW.match(line):
            if not found or found[-1][0] != "errors":
                found.append(("errors", []))
            found[-1][1].append([match["code"], match["text"] or ""])
        elif found and found[-1][0] == "errors" and (match := MORE.match(line)):
            found[-1][1][-1][1] += f" {match['text']}"
        elif found and found[-1][0] == "text":
            found[-1][1].append(line)
        else:
            found.append(("text", [line]))
    return found


def calls(service):
    lines = ["# Calls", "", "Of the service `parkade.v1.Control`. What each error means to an operator: [operations](../operations.md#when-something-is-refused).", ""]
    for call in service.elements:
        lines += [f"## {call.name} {{#{call.name.lower()}}}", "", f"{linked(call.request)} → {linked(call.type)}", ""]
        for kind, content in parts(call.comment):
            if kind == "text":
                lines += [sentence(content), ""]
            else:
                lines += ["| error | reasons |", "| --- | --- |"]
                lines += [f"| {escaped(code)} | {sentence([words])} |" for code, words in content] + [""]
    return "\n".join(lines) + "\n"


def linked(kind, page="messages.md"):
    """A type, with a link where it is one of ours."""
    def link(match):
        name = match[0]
        if name[0].islower() or "." in name:
            return name
        return f"[{name}]({page}#{name.lower()})"
    return escaped_type(re.sub(r"[A-Za-z][\w.]*", link, kind))


def escaped_type(text):
    return text.replace("<", "&lt;").replace(">", "&gt;")


def messages(files):
    lines = ["# Messages", ""]
    for file in files:
        for element in file.elements:
            if element.kind in ("message", "enum"):
                lines += described(element, element.name, 2)
    return "\n".join(lines) + "\n"


def described(element, name, level):
    """A message or enumeration, then those inside of it."""
    lines = [f"{'#' * level} {name} {{#{name.lower().replace('.', '-')}}}", ""]
    if element.comment:
        lines += comment_blocks(element.comment)
    if element.kind == "enum":
        lines += ["| value | number | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{value.name}` | {value.number} | {sentence(value.comment)} |" for value in element.elements] + [""]
        return lines
    own = {inner.name for inner in element.of("enum", "message")}
    fields = [(field, "") for field in element.of("field")] + [(field, one.name) for one in element.of("oneof") for field in one.elements]
    if fields:
        lines += ["| field | type | number | meaning |", "| --- | --- | --- | --- |"]
    for field, one in fields:
        kind = f"[{field.type}](#{name.lower()}-{field.type.lower()})" if field.type in own else linked(field.type, "")
        meaning = sentence(field.comment) + (f" One of `{one}`." if one else "")
        lines.append(f"| `{field.name}` | {kind} | {field.number} | {meaning.strip()} |")
    lines.append("" if fields else "No fields.")
    lines.append("")
    for inner in element.of("enum", "message"):
        lines += described(inner, f"{name}.{inner.name}", level + 1)
    return lines


def comment_blocks(comment):
    """A message's comment; lines that name a reason first become a list."""
    lines, reasons = [], False
    for line in comment:
        if match := re.match(r"  (\S+)  +(.*)$", line):
            lines += ([] if reasons else [""]) + [f"- {escaped(match[1])}: {escaped(match[2])}"]
            reasons = True
        elif reasons and MORE.match(line):
            lines[-1] += f" {escaped(line.strip())}"
        else:
            lines += ([""] if reasons else []) + [escaped(line)]
            reasons = False
    return [*lines, ""]


def in_brackets(text):
    """Codes in a text with what stands in brackets behind each: "NOT_FOUND (NO_PROCESS)"."""
    for match in re.finditer(r"\b([A-Z][A-Z_]+) \(", text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        if match[1] in CODES:
            yield match[1], text[match.end() : end - 1]


def reasons(service_comment, service):
    """(code, reason, call) for all that the comments name; call None: of any."""
    for code, words in in_brackets(" ".join(service_comment)):
        yield from ((code, reason, None) for reason in REASON.findall(words))
    for call in service.elements:
        for kind, content in parts(call.comment):
            if kind == "text":
                rows = in_brackets(" ".join(content))
            else:
                rows = [(code, words) for codes, words in content for code in codes.split(", ") if code in CODES]
            for code, words in rows:
                yield from ((code, reason, call.name) for reason in REASON.findall(words) if reason not in CODES or reason == "CANCELLED")


def errors(file, service):
    """What a call may fail with, by code: reasons with the calls that name them."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for code, reason, call in reasons(file.comment, service):
        found[code][reason].append(call)
    lines = [
        "# Errors", "",
        "A failed call has a gRPC status and a `google.rpc.ErrorInfo` with a reason, for programs, and metadata. Python raises the class beside the code.", "",
    ]  # fmt: skip
    for code in CODES:
        if code in found:
            lines += [f"## {code} {{#{code.lower()}}}", "", f"In Python `parkade.{CODES[code]}`.", "", "| reason | named by |", "| --- | --- |"]
            for reason, names in sorted(found[code].items()):
                named = [f"[{name}](calls.md#{name.lower()})" if name else "any call" for name in dict.fromkeys(names)]
                lines.append(f"| {escaped(reason)} | {', '.join(named)} |")
            lines.append("")
    return "\n".join(lines) + "\n"
