"""PyTorch training that is paused deep between its steps gives the same losses and the same final state, bit for bit, as
one that never was. Prints what a pause leaves on the GPU, plain and deep, and the seconds of the deep step both ways."""

from training import STEPS, Training, harness

MIB = 1 << 20
LEFT_BYTES = 16 * MIB
MORE_SECONDS = 1.5
LARGEST_RESIDUE = 1 << 30  # of a plain pause, for which the two hold


class DeepTraining(Training):
    def __init__(self, node):
        super().__init__(node)
        self.free = node.gpu_free()

    def left(self):
        return self.free - self.node.gpu_free()

    def check_freed(self, app, reserved, policy):
        """Pauses plainly, then deep from there."""
        self.node.expect(0, "pause", app.pid, "--policy", policy)
        plain = self.left()
        step = self.node.json("pause", app.pid, "--deep")["results"][0]["deep"]
        deep = self.left()
        harness.equal(step["refusal"], None, "refusal of the deep step")
        back = self.node.json("resume", app.pid)["results"][0]["deep"]
        print(
            f"{policy}: {plain / MIB:.0f} MiB left, deep {deep / MIB:.1f} MiB;"
            f" {step['seconds']:.3f} s down, {back['seconds']:.3f} s back"
        )
        if plain <= LARGEST_RESIDUE:
            harness.holds(deep <= LEFT_BYTES, f"a deep pause leaves {deep} bytes")
            harness.holds(step["seconds"] <= MORE_SECONDS, f"the deep step took {step['seconds']} s")


def run(node):
    training = DeepTraining(node)
    wanted = training.without_pauses()
    node.start_daemon()
    harness.equal(training.between_steps(), wanted, f"losses and state with {STEPS} deep pauses")
    print("\n".join(wanted))


harness.scenario(run)
