"""A rank on each GPU of the node, eight where it is simulated: one call pauses and resumes all of them, to host and disk;
each GPU's memory goes and comes back; a trainer's ranks hand over to an engine's, rank for rank; and a host budget for half
of the ranks is shared by all. Needs two GPUs."""

import os

import harness

MIB = 1 << 20
EACH = 1 << 30 if harness.ON_CARD else 48 * MIB
os.environ["SIM_GPUS"] = "8"  # where they are simulated, for NVML in this process as well


class Ranks:
    def __init__(self, node, gpus, role):
        env = {"PARKADE_ROLE": role, "PARKADE_ELISION": "off"}
        self._node, self.role = node, role
        self._apps = [
            node.verifier("--device", rank, "--buffers", 1, "--bytes", EACH, env={**env, "PARKADE_RANK": str(rank)})
            for rank in range(gpus)
        ]

    @property
    def pids(self):
        return [app.pid for app in self._apps]

    def step(self):
        for app in self._apps:
            app.ask_step()
        for app in self._apps:
            app.stepped(harness.PATIENCE)

    def are(self, state):
        harness.equal({self._node.state(pid) for pid in self.pids}, {state}, f"states of {self.role}")

    def finish(self):
        for app in self._apps:
            app.finish()


def free(node, gpus):
    return [node.gpu_free(gpu) for gpu in range(gpus)]


def together(node, gpus, ranks):
    """Every GPU gets its rank's bytes back, and loses them again at the resume."""
    for policy in ("host", "disk"):
        before = free(node, gpus)
        results = node.json("pause", "--role", ranks.role, "--policy", policy)["results"]
        harness.equal(sorted(r["pid"] for r in results), sorted(ranks.pids), f"who left to {policy}")
        harness.holds(all(r[f"{policy}_bytes"] >= EACH for r in results), f"bytes to {policy}: {results}")
        freed = [now - then for now, then in zip(free(node, gpus), before, strict=True)]
        harness.holds(min(freed) >= EACH, f"freed on each GPU: {freed}")
        ranks.are("paused")
        node.expect(0, "resume", "--role", ranks.role)
        ranks.step()


def hand(node, out, into):
    results = node.json("handoff", "--out", ",".join(map(str, out.pids)), "--in", ",".join(map(str, into.pids)))["results"]
    harness.equal(sorted(r["pid"] for r in results), sorted(out.pids + into.pids), "who moved")
    out.are("paused")
    into.are("running")
    into.step()


def shared(node, gpus, ranks):
    """Of all that leaves, host memory takes what the budget has, disk the rest."""
    budget = gpus * EACH // 2
    node.expect(0, "budget", "--host", budget)
    results = node.json("pause", "--role", ranks.role, "--policy", "auto")["results"]
    host, disk = (sum(r[f"{place}_bytes"] for r in results) for place in ("host", "disk"))
    harness.holds(budget // 2 <= host <= budget, f"{host} bytes in host memory under a budget of {budget}")
    harness.holds(host + disk >= gpus * EACH, f"{host} bytes in host memory, {disk} on disk")
    node.expect(0, "resume", "--role", ranks.role)
    ranks.step()


def run(node):
    node.start_daemon()
    gpus = len(node.json("gpus")["gpus"])
    if gpus < 2:
        raise harness.Skip(f"only {gpus} GPU")
    trainer = Ranks(node, gpus, "actor")
    trainer.step()
    together(node, gpus, trainer)
    node.expect(0, "pause", "--role", trainer.role)
    engine = Ranks(node, gpus, "rollout")
    engine.step()
    hand(node, engine, trainer)
    hand(node, trainer, engine)
    hand(node, engine, trainer)
    trainer.finish()
    node.expect(0, "resume", "--role", engine.role, "--release-host")
    engine.step()
    # What a process has pinned already would cost it nothing.
    harness.wait_for("pinned memory is given back", lambda: all(p["host_pool_bytes"] == 0 for p in node.processes()))
    shared(node, gpus, engine)
    engine.finish()
    print(f"{gpus} GPUs")


harness.scenario(run, gpu_bytes="128M")
