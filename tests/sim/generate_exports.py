"""Writes the part of the simulated driver that follows from cuda.h: a weak definition of every name,
which the real ones in api/ replace, the table behind cuGetProcAddress, and the error names.

Usage: generate_exports.py PREPROCESSED_CUDA_H INCLUDE_DIR OUT
"""

import collections
import re
import sys

DECLARATION = re.compile(r"CUresult\s+(cu\w+)\s*\(([^;]*)\)\s*;")
NAME = re.compile(r"(cu\w+?)(?:_v(\d))?(_ptsz|_ptds)?$")
TYPEDEF = re.compile(r"PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)\(")
ERROR = re.compile(r"^\s*(CUDA_(?:SUCCESS|ERROR_\w+))\s*=\s*(\d+)", re.M)


def parameters(text):
    """The declared parameters as (type, name) pairs."""
    result = []
    for part in text.split(","):
        part = " ".join(part.split())
        if part not in ("", "void"):
            kind, name = re.match(r"(.*?)(\w+)$", part).groups()
            result.append((kind.replace(" *", "*").strip(), name))
    return result


def body(name, params, functions):
    """What a name does that has no definition of its own."""
    base, version, stream = NAME.match(name).groups()
    arguments = ", ".join(p for _, p in params)
    types = [t for t, _ in params]
    if stream:
        plain = name[: -len(stream)]
        if [t for t, _ in functions.get(plain, [])] == types:
            return f"PerThreadDefaultStream scope;\n  return {plain}({arguments});"
    elif not version:
        for newer in range(9, 1, -1):
            other = f"{base}_v{newer}"
            if other in functions and [t for t, _ in functions[other]] == types:
                return f"return {other}({arguments});"
    return f'return Call<"{name}">([] {{ return CUDA_ERROR_NOT_SUPPORTED; }});'


def resolver_rows(functions, typedefs):
    """(base name, version, per-thread, exported name), the n-th version of a name with the n-th
    of its exported names."""
    exported = collections.defaultdict(list)
    for name in functions:
        base, version, stream = NAME.match(name).groups()
        exported[base, stream or ""].append((int(version or 1), name))
    versions = collections.defaultdict(set)
    for base, version, stream in TYPEDEF.findall(typedefs):
        versions[base, stream].add(int(version))
    for key in sorted(exported):
        names = [name for _, name in sorted(exported[key])]
        if len(names) != len(versions[key]):
            sys.exit(f"cuda.h has {names}, the typedefs have versions {sorted(versions[key])}")
        for version, name in zip(sorted(versions[key]), names):
            yield key[0], version, "true" if key[1] else "false", name


def main():
    preprocessed, include, out = sys.argv[1:]
    with open(preprocessed, encoding="utf-8") as f:
        text = f.read()
    functions = {name: parameters(args) for name, args in DECLARATION.findall(text)}
    typedefs = ""
    for header in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"):
        with open(f"{include}/{header}", encoding="utf-8") as f:
            typedefs += f.read()

    lines = [
        "// Written by generate_exports.py from cuda.h.",
        '#include "tests/sim/driver.h"',
        '#include "tests/sim/exports.h"',
        "using namespace parkade::sim;",
    ]
    for name, params in functions.items():
        declared = ", ".join(f"[[maybe_unused]] {t} {p}" for t, p in params)
        lines.append(f'extern "C" [[gnu::weak]] CUresult {name}({declared}) {{')
        lines.append(f"  {body(name, params, functions)}\n}}")
    lines.append("namespace parkade::sim {\nconst Export kExports[] = {")
    for base, version, stream, name in resolver_rows(functions, typedefs):
        lines.append(f'    {{"{base}", {version}, {stream}, reinterpret_cast<void*>(&{name})}},')
    lines.append("};\nconst size_t kExportCount = sizeof kExports / sizeof *kExports;")
    lines.append("const ErrorName kErrorNames[] = {")
    for name, number in ERROR.findall(text):
        words = name.removeprefix("CUDA_").removeprefix("ERROR_").lower().replace("_", " ")
        lines.append(f'    {{{number}, "{name}", "{words}"}},')
    lines.append("};\nconst size_t kErrorNameCount = sizeof kErrorNames / sizeof *kErrorNames;")
    lines.append("}  // namespace parkade::sim")
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


main()
