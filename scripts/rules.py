"""Reads file names from standard input and prints what breaks a rule of the tree: who may include
whom, length, first lines, stray paths. scripts/check calls it from the top of the tree."""

import collections
import os
import re
import sys

TOP_LEVEL = set(
    "CMakeLists.txt CMakePresets.json README.md LICENSE CHANGELOG.md "
    "proto common shim daemon cli python tests scripts docs packaging".split()
)
MAX_LINES = 400

# Folder: the folders whose headers it may include, besides its own. The longest folder that holds
# a file decides, so "shim" is the files that stand in shim/ itself; what is in no row (tests/) is free.
MAY_INCLUDE = {
    "common": [],
    "common/store": ["common", "proto"],
    "proto": ["common"],
    "shim/libc": ["common"],
    "shim/cuda": ["common", "proto", "shim/libc"],
    "shim/heap": ["common", "proto", "shim/libc", "shim/cuda"],
    "shim/ipc": ["common", "proto", "shim/libc", "shim/cuda", "shim/heap"],
    "shim/kernels": ["common/store"],
    "shim/pause": ["common", "proto", "shim/libc", "shim/cuda", "shim/heap", "shim/ipc", "shim/kernels"],
    "shim/include": [],
    "shim/stream": ["common", "common/store", "proto", "shim/libc", "shim/cuda", "shim/heap", "shim/pause", "shim/kernels", "shim/include"],
    "shim/agent": ["common", "proto", "shim/libc", "shim/cuda", "shim/heap", "shim/pause", "shim/include"],
    "shim": ["common", "proto", "shim/libc", "shim/cuda", "shim/heap", "shim/ipc", "shim/pause", "shim/stream", "shim/agent"],
    "shim/hooks": ["common", "proto", "shim/libc", "shim/cuda", "shim/heap", "shim/ipc", "shim/pause", "shim/include", "shim"],
    "daemon": ["common", "common/store", "proto"],
    "cli": ["common", "common/store", "proto"],
}
# Header pattern, and the files that alone may include it.
RESERVED = [
    (r"^(grpc|grpcpp)/|\.grpc\.pb\.h$", r"^(daemon/(service|status|main)[^/]*|cli/client[^/]*|tests/.*)$"),
    (r"^(absl|google/protobuf)/|\.pb\.h$", r"^(daemon|cli|tests)/"),
]

findings = 0


def find(path, line, text):
    global findings
    findings += 1
    print(f"{path}:{line}: {text}")


def lines_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read().splitlines()


def is_code(path, lines):
    endings = (".cc", ".h", ".c", ".S", ".py", ".sh", ".proto", ".cmake", "CMakeLists.txt")
    return path.endswith(endings) or bool(lines and lines[0].startswith("#!"))


def folder_rule(path):
    """The longest folder of MAY_INCLUDE that holds `path`, or None."""
    fitting = [f for f in MAY_INCLUDE if path.startswith(f + "/")]
    return max(fitting, key=len, default=None)


def check_top_level(paths):
    for name in sorted({p.split("/")[0] for p in paths}):
        if name not in TOP_LEVEL and not name.startswith("."):
            find(name, 1, "not on the list of the top level: move it into one of its folders")


def check_text(path, lines):
    for number, line in enumerate(lines, 1):
        if re.search(r"/wor[k]/|/hom[e]/\w|/roo[t]/", line):
            find(path, number, "names a path of one machine: use a relative one or a variable")
        if re.search(r"\b(TOD[O]|FIXM[E]|XX[X])\b(?!\(#\d+\))", line):
            find(path, number, "an open end without an issue: do it, or write it with (#number)")


def check_shape(path, lines):
    if len(lines) > MAX_LINES:
        find(path, MAX_LINES, f"{len(lines)} lines, {MAX_LINES} at most: split it by job")
    marks = ("//", "/*") if path.endswith((".cc", ".h", ".c", ".S", ".proto")) else ("#", '"""')
    opening = [line for line in lines[:2] if not line.startswith(("#!", "#pragma"))]
    named = path.endswith("CMakeLists.txt")  # its name and folder say its job
    if not named and not any(line.startswith(marks) for line in opening):
        find(path, 1, "opens without a comment: say its job in one sentence")
    if path.endswith(".h") and "#pragma once" not in lines:
        find(path, 1, "a header without #pragma once: add it")
    if path.endswith(".py"):
        try:
            compile("\n".join(lines) + "\n", path, "exec")
        except SyntaxError as error:
            find(path, error.lineno, f"does not parse: {error.msg}")


def includes_of(lines):
    """(line number, header, quoted) for each #include."""
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match[2], match[1] == '"'


def check_includes(path, lines, existing, graph):
    own = folder_rule(path)
    for number, header, quoted in includes_of(lines):
        for pattern, holders in RESERVED:
            if re.search(pattern, header) and not re.match(holders, path):
                find(path, number, f"{header} may not be included here: see RESERVED in scripts/rules.py")
                break
        if header in existing:
            graph[path].append((header, number))
        elif quoted and not from_elsewhere(header) and not beside(path, header, existing):
            find(path, number, f"{header} does not exist: include by the path from the top of the tree")
        target = folder_rule(header)
        reachable = target is None or target == own or target in MAY_INCLUDE.get(own, [])
        if own and (header.startswith("tests/") or not reachable):
            find(path, number, f"{own}/ may not include {header}: see MAY_INCLUDE in scripts/rules.py")


def beside(path, header, existing):
    """The public headers, which are copied into other trees, include each other by name."""
    return path.startswith("shim/include/") and f"{os.path.dirname(path)}/{header}" in existing


def from_elsewhere(header):
    """Headers of libraries, and those that the build writes."""
    return header.startswith(("absl/", "google/", "grpcpp/")) or header.endswith((".pb.h", ".gen.h"))


def check_circles(graph):
    """Finds include circles between files; reports each once, where it closes."""
    done, trail = set(), []

    def visit(path):
        if path in done:
            return
        trail.append(path)
        for header, number in graph.get(path, []):
            if header in trail:
                circle = " -> ".join(trail[trail.index(header):] + [header])
                find(path, number, f"closes the circle {circle}: move what both need into a third file")
            else:
                visit(header)
        trail.pop()
        done.add(path)

    for path in sorted(graph):
        visit(path)


def check_folder_circles(graph):
    """Two folders that include each other are one folder with two names."""
    edges = collections.defaultdict(dict)
    for path, headers in graph.items():
        for header, number in headers:
            here, there = os.path.dirname(path), os.path.dirname(header)
            if here != there and not path.startswith("tests/"):
                edges[here].setdefault(there, (path, number))
    for here in sorted(edges):
        for there, (path, number) in edges[here].items():
            if here < there and here in edges.get(there, {}):
                back = edges[there][here]
                find(path, number, f"{here}/ and {there}/ include each other (back: {back[0]}:{back[1]}): cut one way")


def test_exists(name, existing, build_files):
    """Whether ctest has a test of that name, by the files that make it one."""
    kind, _, rest = name.partition(".")
    if kind in ("node", "gpu") and rest:
        return any(f"tests/{folder}/{rest}.py" in existing for folder in ("node", "gpu"))
    if kind == "fuzz" and rest:
        return f"tests/fuzz/{rest}_fuzz.cc" in existing
    by_source = any(p.startswith("tests/unit/") and p.endswith(f"/{name}.cc") for p in existing)
    return by_source or f"NAME {name} " in build_files


def check_failures(existing):
    """Each row of docs/failures.md names the tests that show it, and there are such tests."""
    path = "docs/failures.md"
    if path not in existing:
        return
    build_files = "".join(
        " ".join(lines_of(p)) + " " for p in existing if p.startswith("tests/") and p.endswith("CMakeLists.txt")
    )
    for number, line in enumerate(lines_of(path), 1):
        if not line.startswith("| ") or line.startswith(("| ---", "| what dies")):
            continue
        names = re.findall(r"`([^`]+)`", line.rstrip(" |").rpartition("|")[2])
        if not names:
            find(path, number, "names no test that shows it")
        for name in names:
            if not test_exists(name, existing, build_files):
                find(path, number, f"there is no test {name}")


def main():
    paths = [line.rstrip("\n") for line in sys.stdin]
    existing = set(paths)
    graph = collections.defaultdict(list)
    check_top_level(paths)
    for path in paths:
        if path == "LICENSE" or not os.path.isfile(path):
            continue
        lines = lines_of(path)
        check_text(path, lines)
        if is_code(path, lines):
            check_shape(path, lines)
        if path.endswith((".cc", ".h", ".c")):
            check_includes(path, lines, existing, graph)
    check_failures(existing)
    check_circles(graph)
    check_folder_circles(graph)
    return 1 if findings else 0


sys.exit(main())
