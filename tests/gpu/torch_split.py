"""One PyTorch process with a model over two GPUs is paused between its steps, to host and disk by turns: losses and
weights equal those of a run without pauses, bit for bit, and both GPUs' memory goes. Needs two GPUs."""

import ranks
from ranks import harness

STEPS = 20


def start(node, park):
    app = node.start(ranks.sys.executable, ranks.HERE / "train_split.py", park=park)
    app.until("ready", ranks.START)
    return app


def finish(app):
    app.process.stdin.close()
    app.until("state", ranks.START)
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code")
    return app.said


def pause(node, app, policy):
    free = [node.gpu_free(gpu) for gpu in (0, 1)]
    (result,) = node.json("pause", app.pid, "--policy", policy)["results"]
    freed = [node.gpu_free(gpu) - before for gpu, before in enumerate(free)]
    moved = result["host_bytes"] + result["disk_bytes"] + result["elided_bytes"]
    harness.holds(min(freed) > 0 and sum(freed) >= moved - 2 * harness.DRIVER_OWN_BYTES, f"{freed} came free of {moved} that left: {result}")
    node.expect(0, "resume", app.pid)


def run(node):
    ranks.gpus("torch")
    bare = start(node, park=False)
    for _ in range(STEPS):
        bare.ask_step()
    wanted = finish(bare)
    node.start_daemon()
    app = start(node, park=True)
    for step in range(STEPS):
        app.ask_step()
        app.until("step")
        pause(node, app, ("host", "disk")[step % 2])
    harness.equal(finish(app), wanted, "losses and weights")
    print(wanted[-1])


harness.scenario(run)
