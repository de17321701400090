"""The daemon killed while bytes move: a pause is undone, a resume finishes, and the program runs on."""

import harness

STUCK_MS = 3000  # for a look at the state on a loaded machine


def run(node):
    for policy in ("host", "disk"):
        for verb, call in (("pause", "cuMemcpyDtoHAsync"), ("resume", "cuMemcpyHtoDAsync")):
            node.start_daemon()
            app = node.stepper("--buffers", 3, "--bytes", "50M")
            app.step()
            if verb == "resume":
                node.expect(0, "pause", app.pid, "--policy", policy)
            node.faults(f"{call} 2 wait {STUCK_MS}ms pid={app.pid}")
            moving = {"pause": "evicting", "resume": "restoring"}[verb]
            node.start_cli(verb, app.pid, *(("--policy", policy) if verb == "pause" else ()))
            harness.wait_for(f"the {verb} moves bytes", lambda: node.state(app.pid) == moving)
            node.kill_daemon()

            app.step()  # waits at the gate until the shim has brought the bytes back by itself
            node.faults()
            node.start_daemon()
            harness.wait_for("the next daemon adopts it", lambda: node.state(app.pid) == "running")
            node.expect(0, "pause", app.pid, "--policy", policy)
            node.expect(0, "resume", app.pid)
            app.step()
            app.finish()
            node.stop_daemon()


harness.scenario(run)
