"""Memory that cannot be pinned makes pauses slower, not fewer; that is said once with the cause, and
`resume --release-host` gives such memory back as well, within 5 % of what was resident before."""

import footprint
import harness

OUT_OF_MEMORY = 2


def resident(app):
    return footprint.of(app.pid)["resident_bytes"]


def pause_and_resume(node, app, *options):
    node.expect(0, "pause", app.pid, "--policy", "host")
    held = node.process(app.pid)["host_pool_bytes"]
    harness.holds(held >= app.bytes, f"{held} bytes of host memory for {app.bytes} bytes")
    node.expect(0, "resume", app.pid, *options)
    app.step()


def released(node, app, before):
    pause_and_resume(node, app, "--release-host")
    harness.wait_for("the pool is given back", lambda: node.process(app.pid)["host_pool_bytes"] == 0)
    harness.wait_for("what is resident is back within 5 %", lambda: resident(app) <= before * 1.05)


def refusals(node, app):
    return [line for line in node.json("show", app.pid)["process"]["warnings"] if "not pinned" in line]


def run(node):
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    node.start_daemon()
    app = node.stepper("--buffers", 4, "--bytes", "64M,1,33M", env=footprint.ONE_ARENA)
    app.step()
    pause_and_resume(node, app, "--release-host")  # the first brings threads and code of its own
    before = resident(app)
    released(node, app, before)
    harness.equal(refusals(node, app), [], "warnings about memory that is pinned")

    # From some slice on, from the first on, and not at all any more.
    for first in (3, 1):
        node.faults(*(f"cuMemHostRegister {n} fail {OUT_OF_MEMORY} pid={app.pid}" for n in range(first, 100)))
        pause_and_resume(node, app)
        released(node, app, before)
        node.faults()
        app.step()  # which sees that
    (said,) = refusals(node, app)
    harness.holds("MiB of host memory" in said and "OUT_OF_MEMORY" in said, f"no size and cause in {said!r}")
    released(node, app, before)
    app.finish()


harness.scenario(run)
