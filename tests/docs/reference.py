"""The generated reference is complete: what protoc and the library know of the API stands in it, and so does every word of the
comments that it is made from."""

import os
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PARKADE_BUILD_DIR", TREE / "build/release")).resolve()
sys.path[:0] = [str(TREE / "docs/site"), str(BUILD / "python")]
import control_reference  # noqa: E402
import header_reference  # noqa: E402
import parkade  # noqa: E402
import proto_source  # noqa: E402
from google.protobuf import descriptor_pb2  # noqa: E402

INTERNAL = {"parkade_version"}  # of the library and parkade_is_present()


def words(text):
    """A text as its words alone, so that markup and line ends make no difference."""
    text = text.replace("\\", "").replace("&lt;", "<").replace("&gt;", ">")
    return " " + " ".join(re.findall(r"\w+", re.sub(r"\]\([^)]*\)", "]", text))) + " "


def messages_of(file):
    def inside(message, outer):
        name = f"{outer}{message.name}"
        if message.options.map_entry:
            return
        yield name, message
        for inner in message.nested_type:
            yield from inside(inner, f"{name}.")
    for message in file.message_type:
        yield from inside(message, "")


def section(page, heading):
    """The text beneath a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)} \{{#[^}}]*\}}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    return found and found[1]


def missing_of_the_api(pages):
    descriptors = descriptor_pb2.FileDescriptorSet.FromString((BUILD / "python/parkade/control.binpb").read_bytes())
    files = [file for file in descriptors.file if file.package == "parkade.v1"]
    count = 0
    for file in files:
        enums = [(enum.name, enum) for enum in file.enum_type]
        for name, message in messages_of(file):
            enums += [(f"{name}.{enum.name}", enum) for enum in message.enum_type]
            text = section(pages["messages.md"], name)
            if text is None:
                yield f"message {name}"
                continue
            for field in message.field:
                count += 1
                if not re.search(rf"^\| `{field.name}` \| .* \| {field.number} \|", text, re.MULTILINE):
                    yield f"field {name}.{field.name} = {field.number}"
        for name, enum in enums:
            text = section(pages["messages.md"], name) or ""
            yield from (f"value {v.name}" for v in enum.value if f"| `{v.name}` | {v.number} |" not in text)
        for service in file.service:
            yield from (f"call {call.name}" for call in service.method if section(pages["calls.md"], call.name) is None)
    if count < 200:
        yield f"more than {count} fields: the descriptors were not read"


def missing_comments(text, known, where):
    """Lines of comments whose words are not in the pages. `known`: words of the pages."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r"//(.*)$", line):
            if (found := words(match[1])).strip() and found not in known:
                yield f"{where}:{number}: {match[1].strip()}"


def missing_of_errors(pages):
    for code, kind in control_reference.CODES.items():
        if getattr(parkade, kind).code != code:
            yield f"parkade.{kind} is not {code}"
    for reason in ("NO_PROCESS", "NO_OPERATION", "UID_MISMATCH", "SHIM_STALLED", "SCRATCH_IN_USE", "BACKUP_CORRUPT", "STILL_RUNNING"):
        if reason not in pages["errors.md"].replace("\\", ""):
            yield f"reason {reason}"


def missing_of_headers(pages):
    exported = subprocess.run(["nm", "-D", "--defined-only", BUILD / "lib/libparkade.so"], capture_output=True, text=True, check=True).stdout
    functions = set(re.findall(r" T (parkade_\w+)$", exported, re.MULTILINE)) - INTERNAL
    everything = "".join(pages.values())
    yield from (f"function {name}" for name in sorted(functions) if f"### {name}\n" not in everything)
    if len(functions) < 15:
        yield f"more than {len(functions)} functions: the library was not read"
    for header in header_reference.HEADERS:
        text = (TREE / "shim/include/parkade" / header).read_text()
        page = pages[header.replace(".", "_") + ".md"]
        known = words(page)
        names = set(re.findall(r"^  (PARKADE_\w+) = ", text, re.MULTILINE)) | set(re.findall(r"^PARKADE\w*_CALL\((\w+)", text, re.MULTILINE))
        names |= set(re.findall(r"^(?:\} (?=parkade_\w+;)|typedef int \(\*)(parkade_\w+)", text, re.MULTILINE))
        yield from (f"{header}: {name}" for name in sorted(names) if name not in page)
        for comment in re.findall(r"^/\*((?:(?!\*/).)*)\*/\n(?=PARKADE\w*_CALL)", text, re.MULTILINE | re.DOTALL):
            lines = [re.sub(r"^ \* ?", "", line) for line in comment.splitlines()]
            yield from (f"{header}: {line}" for line in lines if words(line).strip() and words(line) not in known)


def main():
    control = control_reference.pages(TREE)
    known = words("\n".join(control.values()))
    found = [*missing_of_the_api(control), *missing_of_errors(control), *missing_of_headers(header_reference.pages(TREE))]
    for name in control_reference.FILES:
        # What a file says of itself as a whole stands in none of its elements, but for the first.
        text = (TREE / "proto" / name).read_text()
        head = 0 if name == "control.proto" else text.index("package parkade.v1;")
        found += missing_comments(text[head:], known, name)
    try:
        proto_source._element("oneway rpc Pause();", [], "here")
        found.append("a refusal of what is no element")
    except ValueError:
        pass
    print("\n".join(f"missing: {line}" for line in found))
    sys.exit(1 if found else 0)


main()
