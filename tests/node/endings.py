"""A program's scratch goes when the program ends, in whatever way, when it becomes another program, and when
the daemon ends in order after it; the scratch of a program that lives stays."""

import os
import signal

import harness

PROGRAM = harness.TREE / "tests/apps/ending.py"


def paused(node, state="paused"):
    """A program paused to disk; or resumed again, its directory kept for the next pause."""
    app = node.start("python3", PROGRAM)
    harness.equal(app.line(), "ready", "first line of the ending program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    node.expect(0, "pause", app.pid, "--policy", "disk")
    harness.equal(len(node.scratch_entries()), 1, "scratch directories while paused")
    if state == "running":
        node.expect(0, "resume", app.pid)
    return app


def told(node, how):
    """A resumed program does what it is told to."""
    app = paused(node, "running")
    app.process.stdin.write(f"{how}\n".encode())
    app.process.stdin.flush()
    return app


def gone(node, what):
    harness.wait_for(f"its scratch is gone after {what}", lambda: not node.scratch_entries(), 2.0)


def run(node):
    node.start_daemon()
    for how in ("return", "exit", "abort"):
        told(node, how).process.wait(harness.PATIENCE)
        gone(node, how)
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        app = paused(node)
        os.kill(app.pid, number)
        app.process.wait(harness.PATIENCE)
        gone(node, f"{number.name} while paused")

    # Another program in the same process has no use for it.
    app = told(node, "exec")
    harness.equal(app.line(), "another program", "first line after exec")
    gone(node, "exec")
    harness.holds(not harness.gone(app.pid), "the process lives on")
    app.kill()

    # A daemon that ends in order leaves what belongs to the living, and the next one what lives.
    app = paused(node)
    harness.equal(node.stop_daemon(), 0, "exit code of the daemon")
    harness.equal(len(node.scratch_entries()), 1, "directories of the living after the daemon's end")
    node.start_daemon()
    harness.wait_for("it is adopted", lambda: (p := node.process(app.pid)) and p["connected"] and p["state"] == "paused")
    harness.equal(len(node.scratch_entries()), 1, "directories of the living after a daemon's start")
    node.kill_daemon()
    app.kill()
    harness.equal(len(node.scratch_entries()), 1, "left while no daemon runs")
    node.start_daemon()
    gone(node, "the next daemon's start")

    # One that ends while the daemon does is nobody's to wait for.
    app = paused(node)
    node.daemon.send_signal(signal.SIGSTOP)
    app.kill()
    node.daemon.send_signal(signal.SIGTERM)
    node.daemon.send_signal(signal.SIGCONT)
    harness.equal(node.daemon.wait(harness.PATIENCE), 0, "exit code of the daemon")
    harness.equal(node.scratch_entries(), [], "left by the daemon's orderly end")


harness.scenario(run)
