"""The reference of the public C headers, made from their declarations and comments: a page for each header."""

import re

HEADERS = ("parkade.h", "parkade_store.h")
CALL = re.compile(r"^PARKADE(?:_STORE)?_CALL\((?P<name>\w+),\s*(?P<rest>.*)\)$", re.DOTALL)
CONSTANT = re.compile(r"^(?P<name>PARKADE_\w+) = (?P<value>-?\d+),?$")
DEFINE = re.compile(r"^#define (?P<name>PARKADE_[A-Z_]+) (?P<value>\d+)(?:\s*/\* (?P<comment>.*?) \*/)?$")


def pages(tree):
    return {name.replace(".", "_") + ".md": page(name, (tree / "shim/include/parkade" / name).read_text()) for name in HEADERS}


def page(name, text):
    opening, rest = text.split("*/", 1)
    lines = [f"# {name}", "", *prose(comment_of(opening + "*/")), ""]
    for title, found in (("Constants", constants(rest)), ("Structs", structs(rest)), ("Callbacks", callbacks(rest)), ("Functions", functions(rest))):
        if found:
            lines += [f"## {title}", "", *found]
    return "\n".join(lines) + "\n"


def comment_of(text):
    """A comment's words, line by line, without its signs."""
    words = [re.sub(r"^\s*(?:/\*|\*(?!/))? ?", "", line.replace("*/", "").rstrip()) for line in text.strip().splitlines()]
    return words


def prose(lines):
    """Comment lines as Markdown; what is indented is code."""
    out, code = [], False
    for line in lines:
        if line.startswith("  ") != code and line.strip():
            code = not code
            out += ["", "```c"] if code else ["```", ""]
        out.append(line[2:] if code else escaped(line))
    return out + (["```"] if code else [])


def escaped(text):
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<>|*_\[\]])", r"\\\1", part) for part in parts)


def joined(text):
    return escaped(" ".join(" ".join(comment_of(text)).split()))


def constants(text):
    rows = []
    for match in re.finditer(r"(?:/\*(?P<before>(?:(?!\*/).)*)\*/\n)?^enum \{\n(?P<inside>.*?)^\};", text, re.MULTILINE | re.DOTALL):
        what = joined(match["before"]) if match["before"] else ""
        for line in match["inside"].splitlines():
            code, _, comment = line.partition("/*")
            if found := CONSTANT.match(code.strip()):
                rows.append((found["name"], found["value"], joined(comment) if comment else what))
    for line in text.splitlines():
        if found := DEFINE.match(line):
            rows.append((found["name"], found["value"], escaped(found["comment"] or "")))
    lines = [f"| `{name}` | {value} | {meaning} |" for name, value, meaning in rows]
    return ["| name | value | meaning |", "| --- | --- | --- |", *lines, ""] if lines else []


def structs(text):
    lines = []
    for match in re.finditer(r"(?:/\*(?P<before>(?:(?!\*/).)*)\*/\n)?^typedef struct \{\n(?P<inside>.*?)^\} (?P<name>\w+);", text, re.MULTILINE | re.DOTALL):
        lines += [f"### {match['name']}", ""]
        if match["before"]:
            lines += [joined(match["before"]), ""]
        lines += ["| member | meaning |", "| --- | --- |"]
        lines += [f"| `{code}` | {meaning} |" for code, meaning in members(match["inside"])] + [""]
    return lines


def callbacks(text):
    """Types of functions."""
    found = re.findall(r"^typedef (\w+ \(\*parkade_\w+\)\([^;]*\));", text, re.MULTILINE)
    return ["```c", *(f"typedef {code};" for code in found), "```", ""] if found else []


def members(inside):
    """Each declaration with the comment before it, which counts until the next one, or behind it."""
    found, before = [], ""
    for part in re.finditer(r"/\*.*?\*/|[^;/]+;", inside, re.DOTALL):
        text = part[0].strip()
        if not text.startswith("/*"):
            found.append([" ".join(text.rstrip(";").split()), before])
            before = ""
        elif found and "\n" not in inside[: part.start()].rpartition(";")[2]:
            found[-1][1] = joined(text)  # on the declaration's own line
        else:
            before = joined(text)
    return found


def functions(text):
    """Each PARKADE_CALL with the comment before it, and plain inline functions."""
    lines = []
    for match in re.finditer(r"/\*(?P<comment>(?:(?!\*/).)*)\*/\n(?P<call>PARKADE(?:_STORE)?_CALL\((?:[^\n]*\n)*?(?=\n|#|/\*|\Z))", text, re.DOTALL):
        for code in re.split(r"\n(?=PARKADE)", match["call"].strip()):
            lines += declared(code, match["comment"])
    for match in re.finditer(r"^(?:PARKADE(?:_STORE)?_CALL\(.*?\)\)$)", text, re.MULTILINE | re.DOTALL):
        if f"### {CALL.match(match[0])['name']}" not in lines:
            lines += declared(match[0], "")
    for match in re.finditer(r"/\* (?P<comment>[^\n]*) \*/\nstatic inline (?P<code>int parkade_\w+\([^)]*\))", text):
        name = match["code"].removeprefix("int ").partition("(")[0]
        lines += [f"### {name}", "", "```c", match["code"] + ";", "```", "", joined(match["comment"]), ""]
    return lines


def declared(code, comment):
    found = CALL.match(code)
    parameters, depth = "", 0
    for sign in found["rest"]:
        parameters += sign
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign == ")":
            break
    parameters = " ".join(parameters.split())
    return [f"### {found['name']}", "", "```c", f"int {found['name']}{parameters};", "```", "", *prose(comment_of("/*" + comment)), ""]
