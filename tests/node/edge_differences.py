"""Runs a program of edge calls and compares two runs, by the differences that docs/semantics.md allows.

A line is `NAME: WORD...`, a word a code or `WHAT=VALUE`.
"""

import fnmatch
import re
import subprocess

import harness

TABLE = harness.TREE / "docs/semantics.md"
MOST = 5  # differences that may be written down


class Difference:
    """A row of the table: `cases`, `words` (patterns, separated by blanks), `bare`, `parked`."""

    def __init__(self, cells):
        cases, self.words, self.bare, self.parked, self.reason = cells
        # The simulated driver has no such call.
        self.cases = [case.removeprefix("card:") for case in cases.split() if harness.ON_CARD or not case.startswith("card:")]
        self.happened = set()

    def allows(self, name, word, bare, parked):
        case = next((p for p in self.cases if fnmatch.fnmatch(name, p)), None)
        known = case and any(fnmatch.fnmatch(word, p) for p in self.words.split())
        if not known or bare != self.bare or parked != self.parked:
            return False
        self.happened.add(case)
        return True


def read_differences(title):
    """The rows under the heading `title`: five cells each, code marks taken off."""
    section = TABLE.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [Difference([cell.strip().strip("`") for cell in row]) for row in rows]


def words_of(line):
    """[(what, value)]: `what` is empty for a bare code."""
    return [word.split("=", 1) if "=" in word else ["", word] for word in line.split()]


class Run:
    """The lines of `program`, by name. A case that ends the program is said to have, and the next go on."""

    def __init__(self, program, environment, prefix=()):
        listed = subprocess.run(
            [*prefix, program, "--list"], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        self.names = listed.stdout.split()
        self.lines = {}
        while len(self.lines) < len(self.names):
            first = self.names[len(self.lines)]
            done = subprocess.run(
                [*prefix, program, "--from", first], env=environment, capture_output=True, text=True, timeout=300, check=False
            )
            for line in done.stdout.splitlines():
                name, said = line.split(": ", 1)
                self.lines[name] = said
            if len(self.lines) < len(self.names):
                self.lines[self.names[len(self.lines)]] = f"ended={done.returncode} {done.stderr.strip()}"

    def ended(self):
        return [f"{name}: {said}" for name, said in self.lines.items() if said.startswith("ended=")]


def compare(bare, parked, allowed):
    """Sentences about what differs and may not, and what may and does not."""
    wrong = []
    for name in bare.names:
        old, new = words_of(bare.lines[name]), words_of(parked.lines[name])
        if [w for w, _ in old] != [w for w, _ in new]:
            wrong.append(f"{name}: {bare.lines[name]!r}, under the shim {parked.lines[name]!r}")
            continue
        for (word, value), (_, other) in zip(old, new):
            if value != other and not any(d.allows(name, word, value, other) for d in allowed):
                wrong.append(f"{name}: {word} {value}, under the shim {other}")
    for d in allowed:
        for case in set(d.cases) - d.happened:
            wrong.append(f"{TABLE.name} lists a difference of {case} that does not happen")
    return wrong


def simulated(program, environment):
    """The same program on the simulated GPU, whatever this machine has: on a card it shows what the
    simulated driver gets wrong."""
    folder = str(harness.SIM_LIBRARIES)
    kept = {k: v for k, v in environment.items() if not k.startswith("SIM_")}
    return Run(program, {**kept, "LD_LIBRARY_PATH": folder, "SIM_DIR": str(environment["PARKADE_RUNTIME_DIR"])})


def plain(environment):
    """Without the shim and its settings."""
    return {k: v for k, v in environment.items() if not re.match(r"PARKADE_(?!RUNTIME_DIR)|LD_PRELOAD$", k)}


def report(bare, parked, allowed, least):
    """Checks all that a scenario of edge calls has to; returns what to print when all is well."""
    harness.holds(len(bare.names) >= least, f"at least {least} cases: {len(bare.names)}")
    harness.holds(len(allowed) <= MOST, f"at most {MOST} differences: {len(allowed)}")
    harness.equal(parked.names, bare.names, "cases under the shim")
    harness.equal(bare.ended() + parked.ended(), [], "cases that ended the program")
    lost = [name for name in bare.names if bare.lines[name].startswith("LOST")]
    harness.holds(harness.ON_CARD or not lost, f"no case ends its process: {lost}")
    harness.holds(len(bare.names) - len(lost) >= least, f"at least {least} cases answered; lost: {lost}")
    wrong = compare(bare, parked, allowed)
    harness.holds(not wrong, "\n" + "\n".join(wrong))
    for name in lost:
        print(f"{name}: lost with the shim and without")
    return f"{len(bare.names)} cases, {len(allowed)} differences that docs/semantics.md allows"
