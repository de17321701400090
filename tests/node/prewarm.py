"""PARKADE_PREWARM: host memory is ready before the first pause, as much as the size says or as is allocated, within the
daemon's budget; the program goes on meanwhile, and a pause that comes too early takes over what there is."""

import harness

MIB = 1 << 20
SIZE = 64 * MIB


def held(node, app):
    return node.process(app.pid)["host_pool_bytes"]


def cycle(node, app):
    """A pause and a resume; the program's bytes are right after it."""
    node.expect(0, "pause", app.pid, "--policy", "host")
    node.expect(0, "resume", app.pid)
    app.step()


def sized(node):
    app = node.stepper("--buffers", 2, "--bytes", SIZE // 2, env={"PARKADE_PREWARM": "72M"})
    harness.wait_for("72 MiB are ready", lambda: held(node, app) == 72 * MIB)
    app.step()
    cycle(node, app)
    harness.equal(held(node, app), 72 * MIB, "the pool after a pause that had all it needed")
    app.finish()


def follows(node):
    app = node.stepper("--buffers", 1, "--bytes", SIZE, env={"PARKADE_PREWARM": "auto"})
    harness.wait_for("as much as is allocated is ready", lambda: held(node, app) == SIZE)
    cycle(node, app)
    harness.equal(held(node, app), SIZE, "the pool after the pause")
    app.finish()


def overtaken(node):
    """The pause does not wait for memory that it does not need."""
    app = node.stepper("--buffers", 1, "--bytes", SIZE, env={"PARKADE_PREWARM": "1G"})
    cycle(node, app)
    app.finish()


def bounded(node):
    node.stop_daemon()
    node.start_daemon("--host-budget", "48M")
    app = node.stepper("--buffers", 1, "--bytes", 32 * MIB, env={"PARKADE_PREWARM": "1G"})
    harness.wait_for("the budget is ready", lambda: held(node, app) == 48 * MIB)
    cycle(node, app)
    # The next daemon is asked again, and has no more to give.
    node.stop_daemon()
    node.start_daemon("--host-budget", "48M")
    harness.wait_for("the program is back", lambda: node.state(app.pid) == "running")
    cycle(node, app)
    harness.equal(held(node, app), 48 * MIB, "the pool under the next daemon")
    app.finish()


def refused(node):
    app = node.stepper("--buffers", 1, "--bytes", MIB, env={"PARKADE_PREWARM": "much"})
    shown = node.expect(0, "show", app.pid).out
    harness.holds("PARKADE_PREWARM=much is ignored" in shown, f"a size that is none is said: {shown}")
    app.finish()


def run(node):
    node.start_daemon()
    for part in (sized, follows, overtaken, refused, bounded):
        part(node)


harness.scenario(run)
