"""What a GPU is shared or divided by is said: of its process by `show`, of the node in the daemon's log."""

import harness


def said(node, **settings):
    """Settings and warnings of a program on a GPU with these settings, and the daemon's log."""
    env = {name: str(value) for name, value in settings.items()}
    node.start_daemon(env=env)
    app = node.stepper("--buffers", 2, "--bytes", "1M", env=env)
    process = node.json("show", app.pid)["process"]
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()
    harness.equal(node.stop_daemon(), 0, "exit code of the daemon")
    return {s["name"]: s["value"] for s in process["settings"]}, process.get("warnings", []), node.daemon_log.read_text()


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("what the GPU is divided by is set on the simulated one")
    settings, warnings, log = said(node)
    harness.equal(settings.get("driver"), "CUDA 13.0", "the driver's version")
    harness.equal(warnings, [], "warnings on an ordinary GPU")
    harness.holds("GPUs: driver 580" in log, "the daemon's log has the driver's version")
    harness.holds("MIG" not in log and "confidential" not in log, "and nothing else")

    settings, warnings, _ = said(node, SIM_MPS=1)
    harness.equal(settings.get("mps"), "GPU 0", "what MPS shares")
    harness.equal(warnings, ["GPU 0 is shared by MPS: pauses under MPS have not been tried"], "warnings under MPS")

    settings, warnings, log = said(node, SIM_MIG=1)
    harness.equal(settings.get("mig"), "GPU 0", "what is a slice")
    harness.holds("MIG slice" in " ".join(warnings), f"a slice is among {warnings}")
    harness.holds("is divided by MIG" in log, "the daemon's log speaks of MIG")

    _, _, log = said(node, SIM_CC=1)
    harness.holds("confidential computing is on" in log, "the daemon's log speaks of confidential computing")


harness.scenario(run)
