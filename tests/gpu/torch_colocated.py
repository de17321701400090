"""The colocated example on a card: a transformer that learns from samples of an engine with KV cache and CUDA graph, each in
more than half of the GPU by turns, gives the same losses, bit for bit, as where both stay in a fraction of it; rewards rise,
no sample mixes two versions of the weights, and no more GPU memory is in use than the larger side and the transfer buffer.

--card-gib N leaves so much of the card to the two, 0 all of it; what both have out must find room in host memory.
--cache host|disk moves the KV cache too, which is otherwise discarded."""

import argparse
import importlib.util
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402
import python_package  # noqa: E402

START = 300.0  # importing PyTorch from a cold disk
STEP = 120.0
GIB = 1 << 30
CONTEXT = GIB  # the most that the driver takes for one, libraries' code included
HANDLES = GIB  # what a handoff may have in use beyond the larger side
LOOK_EVERY = 0.005


class Peak:
    """In a `with`; afterwards `bytes` is the most by which the driver's free memory has been below what it was before."""

    def __init__(self, node):
        self._node, self._over, self._free = node, threading.Event(), node.gpu_free()
        self.bytes, self.looks = 0, 0
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        while not self._over.wait(LOOK_EVERY):
            self.bytes = max(self.bytes, self._free - self._node.gpu_free())
            self.looks += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def sharer(node):
    """A program with GPU memory, which Parkade does not know."""
    app = node.start(sys.executable, harness.TREE / "tests/apps/sharing.py", park=False)
    harness.equal(app.line(), "ready", "first line of the program beside")
    return app


def ask(app, *words):
    app.say(" ".join(map(str, words)))
    return app.line()


def native_ipc(node):
    """Whether CUDA IPC works here without Parkade; containers may lack it."""
    ours, theirs = sharer(node), sharer(node)
    ask(ours, "make", 4 << 20)
    answer = ask(ours, "export", 0)
    if answer.startswith("handle"):
        answer = ask(theirs, "open", answer.split()[1])
    ours.kill()
    theirs.kill()
    return answer.startswith("opened")


def loop(node, *words, park=False):
    """The lines of one run of the example. `park`: with the library, also where nothing is to be moved."""
    program = python_package.examples() / "colocated/orchestrate.py"
    begin = time.monotonic()
    app = node.start(sys.executable, program, *words, env={"PYTHONPATH": str(harness.BUILD / "python")}, park=park)
    while app.line(STEP if len(app.said) > 1 else START) != "done":
        print(app.said[-1], flush=True)
    harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the loop")
    print(f"{app.errors()}{' '.join(map(str, words))}: {time.monotonic() - begin:.0f} s", flush=True)
    return app.said


def numbers(said):
    """What must not depend on the moves: steps and state."""
    return [line.partition(" | ")[0] for line in said if line.startswith(("step", "state"))]


def taken(said):
    """GPU memory of actor, rollout and transfer buffer, by these names."""
    words = next(line for line in said if line.startswith("bytes")).split()
    return {name: int(number) for name, number in zip(words[1::2], words[2::2])}


def check_learning(lines, steps):
    """The numbers of one run: each step's samples are of its own version, and rewards rise."""
    harness.equal(len(lines), steps + 1, "lines of the run")
    rewards = []
    for number, line in enumerate(lines[:-1]):
        words = line.split()
        harness.equal(words[:6], ["step", str(number), "weights", str(number), "to", str(number)], "the versions of a step's samples")
        rewards.append(float(words[words.index("reward") + 1]))
    tenth = max(1, steps // 10)
    first, last = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
    print(f"reward {first:.3f} at first, {last:.3f} at last")
    if steps >= 50:
        harness.holds(last > 3 * first, f"rewards from {first} to {last} do not rise")


def check_peak(bytes, peak, room):
    sides = bytes["actor"], bytes["rollout"]
    most = max(sides) + bytes["transfer"] + 2 * CONTEXT + HANDLES
    print(f"of {room / GIB:.2f} GiB: {peak.bytes / GIB:.2f} in use at most, in {peak.looks} looks; sides {bytes}; {most / GIB:.2f} allowed")
    harness.holds(min(sides) > room / 2, "a side has less than half of the GPU")
    harness.holds(peak.bytes <= most, "more GPU memory was in use than the larger side, the transfer buffer, two contexts and two handles")


def run(node):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card-gib", type=float, default=48)
    parser.add_argument("--fraction", type=float, default=0.55)
    parser.add_argument("--cache", default="discard")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    if not harness.ON_CARD:
        raise harness.Skip("PyTorch needs a card; tests/node/colocated_loop.py has the same moves")
    if importlib.util.find_spec("torch") is None:
        raise harness.Skip(f"{sys.executable} has no PyTorch")
    python_package.load()
    bare = native_ipc(node)
    if options.card_gib:
        harness.equal(ask(sharer(node), "make", node.gpu_free() - int(options.card_gib * GIB)), "made 0", "narrowing the card")
    node.start_daemon()
    room = node.gpu_free()
    with Peak(node) as peak:
        said = loop(node, "--fraction", options.fraction, "--cache", options.cache, "--steps", options.steps)
    check_learning(numbers(said), options.steps)
    check_peak(taken(said), peak, room)
    print(f"now both stay, {'without Parkade' if bare else 'under Parkade, for there is no CUDA IPC here without it'}", flush=True)
    wanted = numbers(loop(node, "--resident", "--gib", 1, "--steps", options.steps, park=not bare))
    for line, must_be in zip(numbers(said), wanted):
        harness.equal(line, must_be, "what the run by turns printed")
    harness.equal(len(numbers(said)), len(wanted), "lines of the run by turns")
    print(f"bit-equal to the resident run: {wanted[-1]}")


harness.scenario(run)
