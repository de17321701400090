"""A program in a pid namespace of its own is known by the pid that the daemon sees, paused and resumed, and its
scratch goes with it; a daemon that cannot see a program leaves its scratch alone."""

import os
import re
import signal
import subprocess

import harness

INTO_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def child_of(pid):
    """The one child of `unshare`, which hands no signal on."""
    ask = lambda: subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return int(harness.wait_for("unshare has its child", ask)[0])


def start(node):
    """A stepper that is process 1 or so of its own world: the program, and its pid in ours."""
    app = node.start(*INTO_NAMESPACE, harness.BUILD / "bin/parkade", "run", "--", harness.BUILD / "bin/stepper",
                     "--on-input", "--buffers", 3, "--bytes", "1,5M", park=False)
    outside = app.pid
    app.ready()
    harness.holds(app.pid < 10, f"its own pid is of its own namespace: {app.pid}")
    return app, child_of(outside)


def seen(node):
    node.start_daemon()
    app, pid = start(node)
    app.step()
    harness.wait_for("it is listed by the daemon's pid for it", lambda: node.state(pid) == "running")
    harness.equal([p["pid"] for p in node.processes()], [pid], "listed pids")
    node.expect(0, "pause", pid, "--policy", "disk")
    harness.equal(len(node.scratch_entries()), 1, "scratch directories while paused")
    harness.holds(re.match(rf"p{app.pid}-", node.scratch_entries()[0]), "the directory has the pid that its process knows")
    told = node.json("gc", "--dry-run")["entries"]
    harness.equal([(e["pid"], e["dead"]) for e in told], [(app.pid, False)], f"what gc says of it: {told}")
    node.expect(0, "resume", pid)
    app.step()

    # The next daemon knows it again.
    node.expect(0, "pause", pid, "--policy", "disk")
    node.kill_daemon()
    node.start_daemon()
    harness.wait_for("it is adopted", lambda: (p := node.process(pid)) and p["connected"] and p["state"] == "paused")
    node.expect(0, "resume", pid)
    app.step()
    node.expect(0, "pause", pid, "--policy", "disk")
    os.kill(pid, 9)
    app.kill()
    harness.wait_for("it is forgotten and its scratch is gone", lambda: not node.processes() and not node.scratch_entries(), 2.0)

    # Left while no daemon ran: its namespace has gone with it.
    app, pid = start(node)
    harness.wait_for("the second is listed", lambda: node.state(pid) == "running")
    node.expect(0, "pause", pid, "--policy", "disk")
    node.kill_daemon()
    app.kill()
    harness.wait_for("it has ended", lambda: harness.gone(pid))
    harness.equal(len(node.scratch_entries()), 1, "left while no daemon runs")
    node.start_daemon()
    harness.wait_for("the next daemon removes it", lambda: not node.scratch_entries(), 5.0)
    harness.equal(node.stop_daemon(), 0, "exit code of the daemon")


def unseen(node):
    """The daemon is in a namespace below the program's, so that it cannot see it."""
    node.start_daemon(under=INTO_NAMESPACE)
    app = node.stepper("--buffers", 3, "--bytes", "1,5M")
    app.step()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    left = node.scratch_entries()
    harness.equal(len(left), 1, "scratch directories while paused")
    told = node.json("gc")["entries"]
    harness.equal([e["dead"] for e in told], [False], f"what gc says of one that it cannot see: {told}")
    harness.holds("cannot be seen" in told[0]["reason"], f"why it stays: {told[0]['reason']}")
    node.expect(0, "resume", app.pid)
    app.step()
    node.expect(0, "pause", app.pid, "--policy", "disk")
    app.kill()
    harness.wait_for("it is forgotten", lambda: not node.processes())
    harness.equal([e["dead"] for e in node.json("gc")["entries"]], [False], "what gc says after its end")
    harness.equal(node.scratch_entries(), left, "directories after its end")
    os.kill(child_of(node.daemon.pid), signal.SIGTERM)
    harness.equal(node.daemon.wait(harness.PATIENCE), 0, "exit code of that daemon")
    harness.equal(node.scratch_entries(), left, "directories after that daemon's end")
    node.start_daemon()
    harness.wait_for("a daemon that sees removes it", lambda: not node.scratch_entries(), 5.0)


def run(node):
    if os.getuid() != 0:
        raise harness.Skip("a pid namespace needs root")
    if subprocess.run([*INTO_NAMESPACE, "true"], check=False).returncode:
        raise harness.Skip("no pid namespace can be made here")
    unseen(node)
    node.stop_daemon()
    seen(node)


harness.scenario(run)
