"""Pausing what is paused and resuming what runs succeeds, says `already`, and changes nothing."""

import harness


def already(node, *words):
    results = node.json(*words)["results"]
    return [result.get("already", False) for result in results]


def run(node):
    node.start_daemon()
    app = node.stepper()
    harness.equal(already(node, "resume", app.pid), [True], "already, when resuming what runs")
    app.step()
    harness.equal(already(node, "pause", app.pid), [False], "already, at the first pause")
    harness.equal(already(node, "pause", app.pid, "--policy", "disk"), [True], "already, at the second pause")
    harness.equal(node.state(app.pid), "paused", "state after two pauses")
    harness.equal(already(node, "resume", app.pid), [False], "already, at the first resume")
    harness.equal(already(node, "resume", app.pid), [True], "already, at the second resume")
    app.step()
    app.finish()


harness.scenario(run)
