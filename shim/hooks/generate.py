#!/usr/bin/env python3
"""Writes the wrappers of every libcuda entry point from the toolkit's headers and policy.txt.

  generate.py --cc CC --include DIR --policy policy.txt --out DIR    writes entries.gen.h,
                                                    entries.gen.cc and wrappers.gen.cc into DIR
  generate.py --cc CC --include DIR --policy policy.txt --check      says what list and headers
                                                    disagree on; exit status 1 when they do
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

POLICIES = ("forward", "wait", "query", "gate", "copy", "free", "track", "custom")

# With this macro cuda.h declares every exported name, old versions and per-thread forms included.
ALL_NAMES = "#define __CUDA_API_VERSION_INTERNAL\n#define __CUDA_API_VERSION_INTERNAL_ODR\n"

Prototype = collections.namedtuple("Prototype", "name params args")
Rule = collections.namedtuple("Rule", "policy handler")
Version = collections.namedtuple("Version", "base per_thread since name")


def preprocess(cc, include, source):
    command = [cc, "-E", "-P", "-x", "c", "-isystem", include, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def read_prototypes(cc, include):
    """Every function that the headers declare, by name."""
    text = preprocess(cc, include, ALL_NAMES + "#include <cuda.h>\n#include <cudaProfiler.h>\n")
    found = {}
    for name, params in re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{}()]*)\)\s*;", text):
        params = " ".join(params.split())
        if params == "void":
            params = ""
        args = [re.search(r"(\w+)$", p.strip()).group(1) for p in params.split(",") if p.strip()]
        found[name] = Prototype(name, params, args)
    declared = set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", text))
    if declared != set(found):
        sys.exit(f"generate.py: cannot read the declaration of {sorted(declared - set(found))}")
    return found


def read_graphics_names(include):
    """Names of the headers for OpenGL, EGL and VDPAU, which the shim leaves alone."""
    found = set()
    for header in ("cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"):
        path = pathlib.Path(include) / header
        text = path.read_text() if path.exists() else ""
        found.update(re.findall(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(", text))
        found.update(n for pair in re.findall(r"#define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*)", text)
                     for n in pair)
    return sorted(found)


def split_name(name):
    """cuMemcpyHtoD_v2_ptds -> (cuMemcpyHtoD, True, 2)"""
    stem = re.sub(r"_pt[sd][sz]$", "", name)
    base, _, number = re.match(r"(.*?)(_v(\d+))?$", stem).groups()
    return base, stem != name, int(number or 1)


def read_versions(cc, include, prototypes):
    """The CUDA version since which (base, per_thread) means each exported name.

    The typedef headers give the versions, in PFN_<base>_v<version>[_ptsz|_ptds]; the n-th version of
    a base is its n-th exported name.
    """
    text = preprocess(cc, include,
                      ALL_NAMES + "#include <cudaTypedefs.h>\n#include <cudaProfilerTypedefs.h>\n")
    since = collections.defaultdict(set)
    for base, version, thread in re.findall(r"PFN_(cu[A-Z]\w*?)_v(\d+)(_pt[sd][sz])?\)", text):
        since[base, bool(thread)].add(int(version))
    names = collections.defaultdict(list)
    for name in prototypes:
        base, per_thread, number = split_name(name)
        names[base, per_thread].append((number, name))
    rows = []
    for key, numbered in names.items():
        if len(since[key]) != len(numbered):
            sys.exit(f"generate.py: {key}: versions {since[key]} do not fit {sorted(numbered)}")
        rows += [Version(*key, v, name) for v, (_, name) in zip(sorted(since[key]), sorted(numbered))]
    return sorted(rows)


def read_policy(path):
    """Rules by name, and the toolkit version that the list was made against."""
    rules, toolkit = {}, 0
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "toolkit":
            toolkit = int(words[1])
            continue
        policy = words[1] if len(words) > 1 else ""
        if policy not in POLICIES or len(words) != (3 if policy == "custom" else 2):
            sys.exit(f"{path}:{number}: not 'name policy' or 'name custom Handler': {line}")
        if words[0] in rules:
            sys.exit(f"{path}:{number}: {words[0]} stands in the list twice")
        rules[words[0]] = Rule(policy, words[2] if policy == "custom" else None)
    return rules, toolkit


def read_toolkit(include):
    text = (pathlib.Path(include) / "cuda.h").read_text()
    return int(re.search(r"^#define CUDA_VERSION (\d+)", text, re.M).group(1))


def disagreements(prototypes, rules, listed_toolkit, toolkit):
    found = [f"{n}: in the header, without a policy" for n in sorted(set(prototypes) - set(rules))]
    if toolkit >= listed_toolkit:
        found += [f"{n}: has a policy, but no header has it"
                  for n in sorted(set(rules) - set(prototypes))]
    return found


def write_entries(out, prototypes, versions, rules, graphics, toolkit):
    names = sorted(prototypes)
    (out / "entries.gen.h").write_text("\n".join([
        "// Generated by shim/hooks/generate.py: every entry point of libcuda, in name order.",
        "#pragma once",
        "#include <cstdint>",
        "namespace parkade::shim {",
        "enum class Entry : uint16_t {",
        *(f"  {name}," for name in names),
        "};",
        f"inline constexpr int kEntryCount = {len(names)};",
        f"inline constexpr int kToolkitVersion = {toolkit};",
        "}  // namespace parkade::shim",
        ""]))

    # One string and offsets into it: an array of pointers would cost a relocation for each name.
    offsets, at = [], 0
    for name in names:
        offsets.append(at)
        at += len(name) + 1
    (out / "entries.gen.cc").write_text("\n".join([
        "// Generated by shim/hooks/generate.py: names, policies and versions of the entry points.",
        '#include "shim/hooks/entries.h"',
        "namespace parkade::shim {",
        "const char kEntryNames[] =",
        *(f'    "{name}\\0"' for name in names),
        "    ;",
        "const uint16_t kEntryNameOffsets[kEntryCount] = {",
        *(f"    {offset}," for offset in offsets),
        "};",
        "const Policy kEntryPolicies[kEntryCount] = {",
        *(f"    Policy::k{rules[name].policy.capitalize()},  // {name}" for name in names),
        "};",
        "const EntryVersion kEntryVersions[] = {",
        *("    {Entry::%s, Entry::%s, %d, %s}," %
          (v.base, v.name, v.since, str(v.per_thread).lower()) for v in versions),
        "};",
        f"const int kEntryVersionCount = {len(versions)};",
        "const char kGraphicsNames[] =",
        *(f'    "{name}\\0"' for name in graphics),
        "    ;",
        "}  // namespace parkade::shim",
        ""]))


def wrapper(prototype, rule):
    name = prototype.name
    call = {"gate": "Gated", "copy": "Copied", "free": "Freed", "track": "Tracked"}.get(rule.policy, "Forward")
    template = f"decltype({name})"
    args = [f"Entry::{name}", *prototype.args]
    if rule.policy in ("copy", "custom"):
        args.insert(1, "__builtin_return_address(0)")
    if rule.policy == "custom":
        call, template = "Custom", f"decltype({name}), {rule.handler}"
    return [f"CUresult {name}({prototype.params}) {{",
            f"  return {call}<{template}>({', '.join(args)});",
            "}"]


def write_wrappers(out, prototypes, rules):
    lines = ["// Generated by shim/hooks/generate.py: the functions that libparkade.so exports.",
             '#include "shim/hooks/wrapper.h"',
             '#include "shim/hooks/handlers.h"',
             "using namespace parkade::shim;",
             'extern "C" {']
    for name in sorted(prototypes):
        lines += wrapper(prototypes[name], rules[name])
    lines += ['}  // extern "C"',
              "namespace parkade::shim {",
              "void FillWrapperAddresses(const void** out) {"]
    # Stores rather than a table of pointers, which would cost a relocation for each wrapper.
    lines += [f"  out[int(Entry::{n})] = reinterpret_cast<const void*>(&::{n});"
              for n in sorted(prototypes)]
    lines += ["}", "}  // namespace parkade::shim", ""]
    (out / "wrappers.gen.cc").write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()

    prototypes = read_prototypes(options.cc, options.include)
    rules, listed_toolkit = read_policy(options.policy)
    toolkit = read_toolkit(options.include)
    if options.check:
        found = disagreements(prototypes, rules, listed_toolkit, toolkit)
        print("\n".join(found) or f"{len(prototypes)} names, each with a policy")
        return 1 if found else 0

    for name in prototypes:
        rules.setdefault(name, Rule("gate", None))
    versions = read_versions(options.cc, options.include, prototypes)
    options.out.mkdir(parents=True, exist_ok=True)
    write_entries(options.out, prototypes, versions, rules, read_graphics_names(options.include),
                  toolkit)
    write_wrappers(options.out, prototypes, rules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
