"""Twenty paused programs killed one after the other leave nothing in /dev/shm, the runtime directory, the
state directory or scratch."""

import pathlib

import harness

KILLS = 20


def files(node):
    """What is there of ours and of anybody in /dev/shm."""
    folders = ("/dev/shm", node.runtime, node.scratch / "parkade-v1", node.root / "state")
    return {str(folder): sorted(p.name for p in pathlib.Path(folder).rglob("*")) for folder in folders}


def run(node):
    node.start_daemon()
    first = node.stepper("--buffers", 3)
    node.expect(0, "pause", first.pid, "--policy", "disk")
    first.kill()
    harness.wait_for("the first is forgotten", lambda: node.state(first.pid) is None and not node.scratch_entries())
    before = files(node)
    for kill in range(KILLS):
        app = node.stepper("--buffers", 3)
        node.expect(0, "pause", app.pid, "--policy", ("disk", "host")[kill % 2])
        app.kill()
    harness.wait_for("all are forgotten", lambda: not node.processes() and not node.scratch_entries(), 2.0)
    harness.equal(files(node), before, "files after so many kills")


harness.scenario(run)
