"""A PyTorch training run that is paused and resumed from outside, between steps and in the middle of
them, gives the same losses and the same final state, bit for bit, as one that never was."""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("train_torch.py")
STEPS = 20
START = 300.0  # importing PyTorch from a cold disk


def exact(line):
    """What must not change: the step and its loss, or the hash of the state."""
    return line.partition(" reserved")[0]


def without_pauses(node):
    app = node.start(sys.executable, PROGRAM, "--steps", STEPS, park=False)
    app.line(START)
    return [exact(app.line()) for _ in range(STEPS + 1)]


def check_freed(node, app, reserved, policy):
    """Pauses; the driver must then show all that the caching allocator had reserved as free."""
    before = node.gpu_free()
    done = node.json("pause", app.pid, "--policy", policy)["results"][0]
    freed = node.gpu_free() - before
    harness.holds(freed >= reserved, f"{freed} bytes became free of {reserved} reserved")
    seconds = done["move_seconds"]
    print(f"paused to {policy}: {freed / 1e9:.2f} GB in {seconds:.3f} s, {freed / 1e9 / seconds:.1f} GB/s")
    node.expect(0, "resume", app.pid)


def between_steps(node):
    app = node.start(sys.executable, PROGRAM, "--steps", STEPS, "--on-input")
    app.line(START)
    lines = []
    for step in range(STEPS):
        app.ask_step()
        line = app.line()
        lines.append(exact(line))
        check_freed(node, app, int(line.split()[-1]), ("host", "disk")[step % 2])
    return lines + [app.line()]


def anywhere(node):
    """The program runs freely; whenever a step is reported, it is paused somewhere after it."""
    app = node.start(sys.executable, PROGRAM, "--steps", STEPS)
    app.line(START)
    lines = []
    for step in range(STEPS):
        lines.append(exact(app.line()))
        if step < STEPS - 3:
            node.expect(0, "pause", app.pid)
            node.expect(0, "resume", app.pid)
    return lines + [app.line()]


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    wanted = without_pauses(node)
    node.start_daemon()
    harness.equal(between_steps(node), wanted, "losses and state with pauses between steps")
    harness.equal(anywhere(node), wanted, "losses and state with pauses anywhere")
    print("\n".join(wanted))


harness.scenario(run)
