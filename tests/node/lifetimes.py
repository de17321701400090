"""Processes that fork before and after CUDA, spawn, exec and end in every way, running and paused: children hold
nothing of their parent's and are not taken for it, and who ends while paused leaves no file and no memory."""

import json
import os
import signal
import sys

import harness

PROGRAM = harness.TREE / "tests/apps/family.py"
SIZE = 24 << 20
# The memory whose backup children must not copy. A machine's tests share its memory.
LARGE = 1 << 30


def start(node, **options):
    app = node.start(sys.executable, PROGRAM, **options)
    harness.equal(app.line(), "ready", "first line")
    return app


def ask(app, words, deadline=harness.PATIENCE):
    app.say(words)
    return app.line(deadline)


def holding(node, size=SIZE, **options):
    """A program with a context, as the daemon sees it."""
    app = start(node, **options)
    app.pid = int(ask(app, f"context {size}").split()[1])
    if options.get("park", True):
        running(node, app.pid)
    return app


def running(node, pid):
    harness.wait_for(f"{pid} is listed as running", lambda: node.state(pid) == "running")


def forgotten(node, what):
    harness.wait_for(f"no process is listed after {what}", lambda: not node.processes(), 5.0)
    harness.wait_for(f"no scratch is left after {what}", lambda: not node.scratch_entries(), 5.0)


def tree(app, depth, width):
    """What was found in the processes of a tree forked by the program."""
    _, count, findings = ask(app, f"tree {depth} {width}").split(" ", 2)
    harness.equal(int(count), sum(width**level for level in range(1, depth + 1)), "processes of the tree")
    found = json.loads(findings)
    harness.equal(found["wrong"], [], "what children have that they must not")
    found["descriptors"] = [d for d in found["descriptors"] if not d.endswith(".log")]  # its errors, each its own
    return found


def trees(node):
    """The children of a process, paused or not, have the descriptors that they would have without the shim."""
    bare = holding(node, park=False)
    wanted = tree(bare, 3, 2)["descriptors"]
    bare.kill()
    app = holding(node)
    for policy in ("host", "disk"):
        harness.equal(tree(app, 3, 2)["descriptors"], wanted, "descriptors in children of a running process")
        node.expect(0, "pause", app.pid, "--policy", policy)
        harness.equal(tree(app, 3, 2)["descriptors"], wanted, f"descriptors in children of one paused to {policy}")
        for how in ("posix_spawn", "vfork"):
            harness.equal(ask(app, f"run {how}"), "ran 0", f"{how} while paused")
        harness.equal([p["pid"] for p in node.processes()], [app.pid], "listed")
        harness.equal(node.state(app.pid), "paused", "state after so many children's ends")
        node.expect(0, "resume", app.pid)
        harness.equal(ask(app, "check"), "right", "bytes")
    app.kill()
    forgotten(node, "a kill")


def fork_before_cuda(node):
    """Parent and child, forked before either met CUDA, are processes of their own."""
    app = start(node)
    harness.equal(ask(app, "fork"), "forked", "the child's answer")
    child = int(ask(app, f"context {SIZE}").split()[1])
    harness.holds(child != app.pid, "the child answers")
    running(node, child)
    node.expect(0, "pause", child, "--policy", "disk")
    node.expect(0, "resume", child)
    harness.equal(ask(app, "check"), "right", "bytes of the child")
    node.expect(0, "pause", child)
    os.kill(child, signal.SIGKILL)
    harness.equal(app.line(), "child ended with -9", "what the parent saw")
    forgotten(node, "the child's end")
    app.pid = int(ask(app, f"context {SIZE}").split()[1])
    running(node, app.pid)
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    harness.equal(ask(app, "check"), "right", "bytes of the parent")
    app.kill()
    forgotten(node, "the parent's end")


def spawned(node, method):
    """A child of multiprocessing, begotten while its parent is paused, has a context and a pause of its own."""
    app = holding(node)
    node.expect(0, "pause", app.pid)
    child = int(ask(app, f"spawn {method} {SIZE}").split()[1])
    running(node, child)
    node.expect(0, "pause", child)
    node.expect(0, "resume", app.pid)
    harness.equal(ask(app, "check"), "right", f"bytes of the parent of a {method}")
    node.expect(0, "resume", child)
    harness.equal(ask(app, "join"), "joined 0", f"end of a {method}")
    app.process.stdin.close()
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code")
    forgotten(node, method)


def becomes_another(node):
    """exec ends a context and begins another in the same process."""
    app = holding(node)
    node.expect(0, "pause", app.pid, "--policy", "disk")
    harness.equal(ask(app, "exec"), "ready", "first line after exec")
    forgotten(node, "exec while paused")
    harness.equal(ask(app, f"context {SIZE}"), f"context {app.pid}", "the same process")
    running(node, app.pid)
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    harness.equal(ask(app, "check"), "right", "bytes after exec")
    app.kill()
    forgotten(node, "the end after exec")


def ends_paused(node):
    """Each way out of a paused process is open."""
    free = node.gpu_free()
    for policy in ("host", "disk"):
        for how, code in (("thread _exit", 5), ("thread exit", 6)):
            app = holding(node)
            node.expect(0, "pause", app.pid, "--policy", policy)
            app.say(how)
            harness.equal(app.process.wait(10.0), code, f"exit code of {how} while paused to {policy}")
            forgotten(node, how)
        for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGKILL):
            app = holding(node)
            node.expect(0, "pause", app.pid, "--policy", policy)
            os.kill(app.pid, number)
            harness.equal(app.process.wait(10.0), -number, f"end by {number.name} while paused to {policy}")
            forgotten(node, number.name)
        # A handler that gives everything back, as frameworks do at their exit, is not held at the gate.
        app = holding(node)
        harness.equal(ask(app, "orderly"), "orderly", "a handler is set")
        node.expect(0, "pause", app.pid, "--policy", policy)
        os.kill(app.pid, signal.SIGTERM)
        harness.equal(app.process.wait(10.0), 7, f"exit code of an orderly end while paused to {policy}")
        forgotten(node, "an orderly end")
        # One that gives everything back and lives on can be resumed: there is nothing to bring.
        app = holding(node)
        node.expect(0, "pause", app.pid, "--policy", policy)
        harness.equal(ask(app, "give"), "gave", f"giving back while paused to {policy}")
        node.expect(0, "resume", app.pid)
        harness.equal(ask(app, f"context {SIZE}"), f"context {app.pid}", "a context after that")
        harness.equal(ask(app, "check"), "right", "bytes after that")
        app.kill()
        forgotten(node, "a new context")
    harness.wait_for("all GPU memory is back", lambda: node.gpu_free_is(free))


def large_pool(node):
    """A child gets no copy of the host pool, neither of its pages nor of its addresses, and comes at once."""
    bare = holding(node, LARGE, park=False)
    native = tree(bare, 1, 1)
    bare.kill()
    app = holding(node, LARGE)
    node.expect(0, "pause", app.pid)
    harness.holds(node.process(app.pid)["host_pool_bytes"] >= LARGE, "the pool holds it")
    for when in ("paused", "running"):
        found = tree(app, 1, 4)
        more = (found["writable_kib"] - native["writable_kib"]) << 10
        harness.holds(more < LARGE // 4, f"a child of a {when} process has {more} bytes of memory more than a native one")
        harness.holds(found["rss_kib"] << 10 < LARGE // 4, f"a child of a {when} process has {found['rss_kib']} KiB of its own")
        print(f"{when}, pool of {LARGE >> 30} GiB: fork takes {found['slowest_fork'] * 1e3:.1f} ms ({native['slowest_fork'] * 1e3:.1f} ms without)")
        harness.holds(found["slowest_fork"] < native["slowest_fork"] + 0.25, f"a fork took {found['slowest_fork']:.3f} s")
        if when == "paused":
            node.expect(0, "resume", app.pid)
            harness.equal(ask(app, "check"), "right", "bytes")
    node.expect(0, "pause", app.pid)
    os.kill(app.pid, signal.SIGTERM)
    app.process.wait(10.0)
    forgotten(node, "the end with a large pool")


def run(node):
    node.start_daemon()
    trees(node)
    fork_before_cuda(node)
    for method in ("spawn", "forkserver"):
        spawned(node, method)
    becomes_another(node)
    ends_paused(node)
    large_pool(node)


harness.scenario(run)
