"""What torch_training.py and torch_expandable.py share: train_torch.py without pauses, paused between all steps,
and paused anywhere; losses and final state must be equal bit for bit."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("train_torch.py")
STEPS = 20
START = 300.0  # importing PyTorch from a cold disk


class Training:
    def __init__(self, node, options=(), env=None):
        if not harness.ON_CARD:
            raise harness.Skip("PyTorch needs a card")
        if importlib.util.find_spec("torch") is None:
            raise harness.Skip(f"{sys.executable} has no PyTorch")
        self.node, self.options, self.env = node, options, env

    def start(self, *options, park=True):
        app = self.node.start(sys.executable, PROGRAM, "--steps", STEPS, *self.options, *options, env=self.env, park=park)
        app.line(START)
        return app

    def without_pauses(self):
        app = self.start(park=False)
        return [exact(app.line()) for _ in range(STEPS + 1)]

    def check_freed(self, app, reserved, policy):
        """Pauses; the driver must then show all that the caching allocator had reserved as free."""
        before = self.node.gpu_free()
        done = self.node.json("pause", app.pid, "--policy", policy)["results"][0]
        freed = self.node.gpu_free() - before
        harness.holds(freed >= reserved, f"{freed} bytes became free of {reserved} reserved")
        seconds = done["move_seconds"]
        print(f"paused to {policy}: {freed / 1e9:.2f} GB in {seconds:.3f} s, {freed / 1e9 / seconds:.1f} GB/s")
        self.node.expect(0, "resume", app.pid)

    def between_steps(self):
        app = self.start("--on-input")
        lines = []
        for step in range(STEPS):
            app.ask_step()
            line = app.line()
            lines.append(exact(line))
            self.check_freed(app, int(line.split()[-1]), ("host", "disk")[step % 2])
        return lines + [app.line()]

    def anywhere(self):
        """The program runs freely; whenever a step is reported, it is paused somewhere after it."""
        app = self.start()
        lines = []
        for step in range(STEPS):
            lines.append(exact(app.line()))
            if step < STEPS - 3:
                self.node.expect(0, "pause", app.pid)
                self.node.expect(0, "resume", app.pid)
        return lines + [app.line()]

    def run(self):
        wanted = self.without_pauses()
        self.node.start_daemon()
        harness.equal(self.between_steps(), wanted, "losses and state with pauses between steps")
        harness.equal(self.anywhere(), wanted, "losses and state with pauses anywhere")
        print("\n".join(wanted))


def exact(line):
    """What must not change: the step and its loss, or the hash of the state."""
    return line.partition(" reserved")[0]
