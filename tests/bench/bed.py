"""The bed that every suite measures in: a node with its daemon, the probes for the machine's limits, and
one round of a pause and a resume. Keeps no figures."""

import contextlib
import os
import pathlib
import re
import subprocess

import harness

PROBE = harness.BUILD / "bin/probe"
# Longer than any single answer: 96 GiB cold, 32 GiB to a slow disk.
ANSWER_S = 300.0

GIB = 1 << 30
MIB = 1 << 20
DISK_DEFAULT = 4 * MIB, 16


def size(bytes_):
    """As people write it: "8 GiB"."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if bytes_ >= unit and bytes_ % unit == 0:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_} B"


class Limit:
    """A probe that answers each word with GB/s."""

    def __init__(self, node, *words):
        self.words = [str(PROBE), *map(str, words)]
        self._app = harness.App(self.words, dict(node.env), node.log(f"probe-{words[0]}"))
        node.apps.append(self._app)

    def __call__(self, word):
        self._app.say(word)
        return float(self._app.line(ANSWER_S))

    def close(self):
        self._app.process.stdin.close()
        harness.equal(self._app.process.wait(ANSWER_S), 0, f"exit code of {self.words}: {self._app.errors()}")


@contextlib.contextmanager
def link(node, bytes_, gpu=0):
    """Copies of so many bytes between that GPU and pinned memory: words out, in, both."""
    limit = Limit(node, "link", bytes_, gpu)
    yield limit
    limit.close()


@contextlib.contextmanager
def disk(node, bytes_, block, depth):
    """Direct I/O on one file of the scratch folder: words write, read."""
    limit = Limit(node, "disk", node.scratch, bytes_, block, depth)
    yield limit
    limit.close()


def disk_requests(node, chunk):
    """Bytes and number of the requests that a pause with such a stage has under way: what the daemon's trial of the
    disk found, within the stage."""
    tried = re.compile(r"scratch base \S+: requests of (\d+) KiB, (\d+) deep")

    def found():
        log = node.daemon_log.read_text(errors="replace")
        return tried.search(log) or "was not tried" in log

    match = harness.wait_for("the daemon has tried the disk", found)
    block, depth = (int(match[1]) << 10, int(match[2])) if match is not True else DISK_DEFAULT
    block = min(block, chunk // 4)
    return block, min(depth, chunk // block)


class Payload:
    """A program that holds `count` allocations of `each` bytes, and checks all of them at every step."""

    def __init__(self, node, count, each, env=None):
        self.node, self.count, self.each = node, count, each
        self.app = node.verifier("--buffers", count, "--bytes", each, env=env)

    @property
    def bytes(self):
        return self.count * self.each

    def change(self, percent):
        """Later steps make new words in so many of the allocations alone."""
        self.app.say(f"change {percent}")

    def core_seconds(self):
        """Of all its threads, those that have ended included."""
        fields = pathlib.Path(f"/proc/{self.app.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pause(self, policy, *options, elision="off"):
        """GB/s of one pause, from the request in the daemon to the reply; a full one unless elision is asked for."""
        result = self.node.json("pause", self.app.pid, "--policy", policy, "--elision", elision, *options)["results"][0]
        # Not fewer: a counter of the program's lies in a slab that goes along.
        moved = result["host_bytes"] + result["disk_bytes"] if policy == "auto" else result[f"{policy}_bytes"]
        moved += result["elided_bytes"]
        harness.holds(moved >= self.bytes, f"bytes that a pause to {policy} put there: {result}")
        return self.bytes / result["total_seconds"] / 1e9

    def resume(self, *options):
        result = self.node.json("resume", self.app.pid, *options)["results"][0]
        return self.bytes / result["total_seconds"] / 1e9

    def prefetch(self):
        """GB/s of bringing all of a backup from disk to host memory."""
        result = self.node.json("prefetch", self.app.pid)["results"][0]
        harness.holds(result["host_bytes"] >= self.bytes and result["left_bytes"] == 0, f"what a prefetch brought: {result}")
        return self.bytes / result["total_seconds"] / 1e9

    def behind(self):
        """GB/s at which the last pause's write-behind has moved it on to disk, when it has."""
        def ended():
            operations = self.node.json("ops", "--ended")["operations"]
            mine = [o for o in operations if o["kind"] == "write_behind" and self.app.pid in o["pids"]]
            return mine[-1] if mine and mine[-1]["state"] != "running" else None
        operation = harness.wait_for("its bytes are on disk", ended, ANSWER_S)
        harness.equal(operation["state"], "done", f"how the write-behind ended: {operation['failure']}")
        (result,) = operation["results"]
        harness.holds(result["disk_bytes"] >= self.bytes, f"what a write-behind moved: {result}")
        return self.bytes / result["move_seconds"] / 1e9

    def forget_pool(self):
        """Waits until the program has given its pinned memory back, after a resume with --release-host."""
        harness.wait_for("the pool is given back", lambda: self.node.process(self.app.pid)["host_pool_bytes"] == 0)

    def step(self):
        self.app.step(ANSWER_S)

    def close(self):
        """The program must come to its good end, every byte right."""
        self.app.process.stdin.close()
        harness.equal(self.app.process.wait(ANSWER_S), 0, f"exit code of the payload: {self.app.errors()}")


@contextlib.contextmanager
def payload(node, count, each, env=None):
    held = Payload(node, count, each, env)
    yield held
    held.close()


def run_probe(node, *words, preload=False, libraries=None):
    """The figures of one run of the probe, by name."""
    env = dict(node.env, LD_PRELOAD=str(harness.SHIM)) if preload else dict(node.env)
    if libraries:
        env["LD_LIBRARY_PATH"] = str(libraries)
    done = subprocess.run([str(PROBE), *map(str, words)], env=env, capture_output=True, text=True, check=False)
    harness.equal(done.returncode, 0, f"exit code of probe {words}: {done.stderr.strip()}")
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}
