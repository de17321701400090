"""A job's ranks are paused as one: all or, when the pause of one fails, none; others are left alone."""

import harness

UNKNOWN = 999
NOT_FOUND = 3


def states(node, apps):
    return [node.state(app.pid) for app in apps]


def run(node):
    node.start_daemon()
    ranks = [
        node.stepper("--buffers", 3, "--bytes", "30M", env={"PARKADE_JOB": "rl", "PARKADE_ROLE": "actor", "RANK": str(r)})
        for r in range(3)
    ]
    other = node.stepper(env={"PARKADE_JOB": "other"})
    for app in (*ranks, other):
        app.step()

    if not harness.ON_CARD:
        node.faults(f"cuMemcpyDtoHAsync 2 fail {UNKNOWN} pid={ranks[1].pid}")
        done = node.cli("pause", "--job", "rl")
        harness.holds(done.code != 0, "a pause must fail when one of its processes fails")
        harness.holds(str(ranks[1].pid) in done.err, f"the error must name the process: {done.err.strip()}")
        node.faults()
        harness.equal(states(node, ranks), ["running"] * 3, "states after the failed pause")
        for app in ranks:
            app.step()

    node.expect(0, "pause", "--job", "rl", "--role", "actor")
    harness.equal(states(node, ranks), ["paused"] * 3, "states of the job")
    harness.equal(node.state(other.pid), "running", "state of the other job")
    other.step()
    node.expect(0, "resume", "--job", "rl", "--rank", 0)
    harness.equal(states(node, ranks), ["running", "paused", "paused"], "states after rank 0's resume")
    node.expect(0, "resume", "--job", "rl")
    node.expect(NOT_FOUND, "pause", "--job", "rl", "--rank", 7)
    node.expect(NOT_FOUND, "pause", "--job", "nobody")
    for app in (*ranks, other):
        app.step()
        app.finish()


harness.scenario(run)
