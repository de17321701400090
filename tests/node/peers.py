"""Peer access between two GPUs of one process: to memory made before it was enabled and after, through a
pause and a resume, until it is disabled; and to memory of another process, which is copied to any GPU whichever
it was imported on. Needs two GPUs."""

import harness

PROGRAM = harness.TREE / "tests/apps/peers.py"
TWO = {"SIM_GPUS": "2"}
SIZE = 40 << 20


def start(node):
    app = node.start("python3", PROGRAM, env=TWO)
    first = app.line()
    if first != "ready":
        raise harness.Skip(first)
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    return app


def ask(app, *words):
    app.say(" ".join(map(str, words)))
    return app.line()


def imported(node):
    exporter, importer = start(node), start(node)

    def expect(wanted, *words):
        harness.equal(ask(importer, *words), wanted, f"the answer to {[str(word)[:20] for word in words]}")

    harness.equal(ask(exporter, "alloc", 0, SIZE), "allocated 0", "the exporter's answer")
    harness.equal(ask(exporter, "fill", 0, 29), "filled", "the exporter's answer")
    handle = ask(exporter, "export", 0).split()[1]
    expect("allocated 0", "alloc", 0, SIZE)
    expect("allocated 1", "alloc", 1, SIZE)
    # Memory of GPU 0 in the context of each GPU.
    expect("opened 2", "open", 0, handle, SIZE)
    expect("opened 3", "open", 1, handle, SIZE)
    for seed, policy in ((29, None), (31, "host"), (37, "disk")):
        if policy is not None:
            node.expect(0, "pause", exporter.pid, importer.pid, "--policy", policy)
            node.expect(0, "resume", exporter.pid, importer.pid)
            harness.equal(ask(exporter, "fill", 0, seed), "filled", "the exporter's answer")
        for source in (2, 3):
            for target in (0, 1):
                expect("filled", "fill", target, 1)
                expect("copied", "copy", source, target)
                expect("right", "check", target, seed)
    # Back the other way, from each GPU.
    for source, target in ((0, 3), (1, 2)):
        expect("filled", "fill", source, 40 + source)
        expect("copied", "copy", source, target)
        harness.equal(ask(exporter, "check", 0, 40 + source), "right", "what has come to the exporter")
    # Peer access, enabled and taken back.
    expect("0", "enable", 1, 0)
    expect("full", "access", 2, 1)
    expect("0", "disable", 1, 0)
    expect("copied", "copy", 2, 1)
    expect("right", "check", 1, 41)


def run(node):
    node.start_daemon(env=TWO)
    peers(node)
    imported(node)


def peers(node):
    app = start(node)

    def expect(wanted, *words):
        harness.equal(ask(app, *words), wanted, f"the answer to {words}")

    expect("allocated 0", "alloc", 1, SIZE)
    expect("filled", "fill", 0, 17)
    expect("none", "access", 0, 0)
    expect("0", "enable", 0, 1)
    expect("allocated 1", "alloc", 1, 4096)
    expect("allocated 2", "alloc", 0, SIZE)
    for index in (0, 1):
        expect("full", "access", index, 0)
    expect("none", "access", 2, 1)
    for policy in ("host", "disk"):
        node.expect(0, "pause", app.pid, "--policy", policy)
        node.expect(0, "resume", app.pid)
        for index in (0, 1):
            expect("full", "access", index, 0)
        expect("none", "access", 2, 1)
        expect("right", "check", 0, 17)
        expect("copied", "copy", 0, 2)
        expect("right", "check", 2, 17)
    expect("0", "disable", 0, 1)
    expect("none", "access", 0, 0)
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    expect("none", "access", 0, 0)
    expect("right", "check", 0, 17)


harness.scenario(run)
