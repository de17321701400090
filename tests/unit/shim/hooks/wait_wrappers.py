#!/usr/bin/env python3
"""Reads the machine code of the library's wrappers: those of names that pass a closed gate load the
driver's function and jump to it. No gate, no lock, nothing that a wait would pay for.

  wait_wrappers.py LIBRARY POLICY     exit status 77 where there is no objdump for this processor
"""
import platform
import re
import shutil
import subprocess
import sys

MOST = 14  # instructions on the way to the driver: those that keep arguments while the function is looked up
PASSING = ("wait", "query", "forward")

library, policy = sys.argv[1:]
if platform.machine() != "x86_64" or not shutil.which("objdump"):
    print("skipped: needs objdump and x86-64")
    sys.exit(77)

listing = subprocess.run(
    ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
).stdout
code = {}
for name, body in re.findall(r"^[0-9a-f]+ <(cu[A-Z]\w*)>:\n((?:\s+[0-9a-f]+:.*\n)+)", listing, re.M):
    code[name] = [line.split(":", 1)[1].split("#")[0].strip() for line in body.splitlines()]
rules = [line.split("#")[0].split() for line in open(policy, encoding="utf-8")]
rules = {words[0]: words[1] for words in rules if len(words) > 1 and words[0].startswith("cu")}

wrong, gates, seen = [], [], 0
for name, instructions in sorted(code.items()):
    gated = any("%fs:" in i or "tls" in i for i in instructions)  # the thread's slot at the gate
    if rules.get(name) in ("gate", "free", "track"):
        gates.append(gated)
    if rules.get(name) not in PASSING:
        continue
    seen += 1
    calls = [i for i in instructions if i.startswith("call")]
    ends = [n for n, i in enumerate(instructions) if re.match(r"(jmp|call)\s+\*%r", i)]
    if gated:
        wrong.append(f"{name}: passes, and looks at the gate")
    if any("FunctionSlow" not in i and not re.match(r"call\s+\*%r", i) for i in calls):
        wrong.append(f"{name}: calls {calls}")
    if not ends:
        wrong.append(f"{name}: does not reach the driver")
    elif rules[name] == "wait" and (ends[0] + 1 > MOST or calls[1:]):
        wrong.append(f"{name}: {ends[0] + 1} instructions before the driver, {len(calls)} calls")

# Most: a few share their code with others. It shows that a gate would be seen.
if sum(gates) < 0.9 * len(gates):
    wrong.append(f"only {sum(gates)} of {len(gates)} gated wrappers look at the gate: it is not recognised here")
waits = sorted(n for n, p in rules.items() if p == "wait")
wrong += [f"{name}: not in {library}" for name in waits if name not in code]
print("\n".join(wrong) or f"{seen} wrappers that pass the gate, {len(waits)} of them waits, jump straight to the driver")
sys.exit(1 if wrong or not waits else 0)
