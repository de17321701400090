"""The command killed while bytes move changes nothing: the daemon finishes the pause or the resume."""

import harness

STUCK_MS = 700


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 3, "--bytes", "50M")
    app.step()
    for policy in ("host", "disk"):
        for verb, call, moving, end in (
            ("pause", "cuMemcpyDtoHAsync", "evicting", "paused"),
            ("resume", "cuMemcpyHtoDAsync", "restoring", "running"),
        ):
            node.faults(f"{call} 2 wait {STUCK_MS}ms pid={app.pid}")
            words = ("--policy", policy) if verb == "pause" else ()
            command = node.start_cli(verb, app.pid, *words)
            harness.wait_for(f"the {verb} moves bytes", lambda state=moving: node.state(app.pid) == state)
            command.kill()
            harness.wait_for(f"the {verb} ends", lambda state=end: node.state(app.pid) == state)
        app.step()
    app.finish()


harness.scenario(run)
