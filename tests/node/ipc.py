"""CUDA IPC between parked programs: memory is shared, held while only one side pauses, and leaves HBM
when both do; whoever dies first leaves the other at work."""

import os
import signal

import harness

PROGRAM = harness.TREE / "tests/apps/sharing.py"
# In a slab, in a large slab, and of two physical handles.
SIZES = (4096, 20 << 20, 600 << 20)
INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 1, 201, 400


def start(node, park=True):
    app = node.start("python3", PROGRAM, park=park)
    harness.equal(app.line(), "ready", "first line of the sharing program")
    if park:
        harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    return app


def ask(app, *words):
    app.say(" ".join(map(str, words)))
    return app.line()


def expect(app, wanted, *words):
    harness.equal(ask(app, *words), wanted, f"the answer to {' '.join(map(str, words))[:40]}")


def share(exporter, importer):
    """Every buffer of the exporter, opened by the importer under the same index."""
    for index in range(len(SIZES)):
        handle = ask(exporter, "export", index).split()[1]
        expect(importer, f"opened {index}", "open", handle)


def classes(node, app):
    return sorted(a["class"] for a in node.json("show", app.pid)["allocations"])


def held(node, app, count):
    wanted = sorted(["held"] * count + ["pausable"] * (len(SIZES) - count))
    harness.wait_for(f"{count} allocations are held", lambda: classes(node, app) == wanted, 5)


def pause(node, *apps, policy="host"):
    words = [word for app in apps for word in (app.pid,)]
    results = node.json("pause", *words, "--policy", policy)["results"]
    return {result["pid"]: result for result in results}


def run(node):
    node.start_daemon()
    exporter, importer = start(node), start(node)
    for index, size in enumerate(SIZES):
        expect(exporter, f"made {index}", "make", size)
        expect(exporter, "filled", "fill", index, index)
    share(exporter, importer)
    for index, size in enumerate(SIZES):
        expect(importer, "right", "check", index, index)
        expect(importer, f"range True {size}", "range", index)
        expect(importer, "filled", "fill", index, index + 10)
        expect(exporter, "right", "check", index, index + 10)
    held(node, exporter, 3)

    # The exporter alone: what another process maps stays, and is said to.
    result = pause(node, exporter)[exporter.pid]
    harness.equal(result["kept_bytes"], sum(SIZES), "kept bytes of an exporter alone")
    for index in range(len(SIZES)):
        expect(importer, "right", "check", index, index + 10)
    node.expect(0, "resume", exporter.pid)

    # Both, to either place, at once: nothing stays, and the addresses hold.
    before = [ask(importer, "address", index) for index in range(len(SIZES))]
    for policy in ("host", "disk"):
        free = node.gpu_free()
        results = pause(node, exporter, importer, policy=policy)
        harness.equal(results[exporter.pid]["kept_bytes"], 0, "kept bytes of a whole group")
        if not node.gpu_free() >= free + sum(SIZES):
            raise AssertionError(f"only {node.gpu_free() - free} bytes came free")
        node.expect(0, "resume", exporter.pid, importer.pid)
        harness.equal([ask(importer, "address", i) for i in range(len(SIZES))], before, "addresses")
        for index in range(len(SIZES)):
            expect(importer, "right", "check", index, index + 10)
            expect(exporter, "filled", "fill", index, index + 20)
            expect(importer, "right", "check", index, index + 20)
            expect(exporter, "filled", "fill", index, index + 10)

    # Asked to keep, both pause and it stays; asked to refuse, only an importer that stays outside refuses.
    words = [exporter.pid, importer.pid, "--on-exported", "keep"]
    results = {r["pid"]: r for r in node.json("pause", *words)["results"]}
    harness.equal(results[exporter.pid]["kept_bytes"], sum(SIZES), "kept bytes when asked to keep")
    node.expect(0, "resume", exporter.pid, importer.pid)
    refused = node.expect(4, "pause", exporter.pid, "--on-exported", "refuse")
    harness.holds("EXPORTED" in refused.err and str(importer.pid) in refused.err, f"the refusal: {refused.err}")
    harness.equal(node.state(exporter.pid), "running", "state of the exporter after the refusal")
    words[-1] = "refuse"
    results = {r["pid"]: r for r in node.json("pause", *words)["results"]}
    harness.equal(results[exporter.pid]["kept_bytes"], 0, "kept bytes of a whole group")
    node.expect(0, "resume", exporter.pid, importer.pid)
    for index in range(len(SIZES)):
        expect(importer, "right", "check", index, index + 10)

    # An importer that is resumed alone waits for its exporter; both are right in the end.
    pause(node, exporter, importer)
    waiting = node.start_cli("resume", importer.pid)
    node.expect(0, "resume", exporter.pid)
    harness.equal(waiting.wait(harness.PATIENCE), 0, "exit code of the importer's resume")
    expect(importer, "right", "check", 1, 11)

    # Opened twice, by base and from within; closed as often.
    handle = ask(exporter, "export", 1, 5000).split()[1]
    expect(importer, "opened 3", "open", handle)
    harness.equal(ask(importer, "address", 3), ask(importer, "address", 1), "address when opened twice")
    expect(importer, "closed 0", "close", 3)
    expect(importer, "right", "check", 1, 11)
    expect(importer, "closed 0", "close", 1)
    expect(importer, f"closed {INVALID_VALUE}", "close", 1)
    held(node, exporter, 2)
    expect(exporter, f"error {INVALID_CONTEXT}", "open", handle)
    expect(importer, "opened 4", "open", handle)

    # An importer that dies lets go, whatever child it leaves.
    child = int(ask(importer, "fork", 60).split()[1])
    importer.kill()
    held(node, exporter, 0)
    os.kill(child, signal.SIGKILL)
    harness.equal(pause(node, exporter)[exporter.pid]["kept_bytes"], 0, "kept bytes without importers")
    node.expect(0, "resume", exporter.pid)

    # A freed allocation cannot be opened, an open one outlives its exporter, a dead one is no exporter.
    importer = start(node)
    share(exporter, importer)
    expect(exporter, "freed 0", "free", 0)
    late = start(node)
    handle = ask(exporter, "export", 1).split()[1]
    exporter.kill()
    for index in (1, 2):
        expect(importer, "right", "check", index, index + 10)
    expect(late, f"error {INVALID_HANDLE}", "open", handle)
    expect(importer, "closed 0", "close", 1)

    # Both paused, and the exporter ends: what it shared is gone, and nobody is held up for it.
    other = start(node)
    expect(other, "made 0", "make", 8 << 20)
    expect(other, "filled", "fill", 0, 5)
    expect(late, "opened 0", "open", ask(other, "export", 0).split()[1])
    expect(late, "made 1", "make", 4096)
    expect(late, "filled", "fill", 1, 6)
    pause(node, other, late)
    other.kill()
    node.expect(0, "resume", late.pid)
    expect(late, "right", "check", 1, 6)
    expect(late, "closed 0", "close", 0)
    if "is no longer mapped" not in "".join(node.json("show", late.pid)["process"]["warnings"]):
        raise AssertionError("nothing is said of memory that is gone")

    # Without the shim there is nobody who could read the token: the driver's own refusal.
    stranger = start(node, park=False)
    if not ask(stranger, "open", handle).startswith("error "):
        raise AssertionError("a program without the shim opened a token")
    harness.equal(ask(importer, "check", 2, 12), "right", "the importer's last check")


harness.scenario(run)
