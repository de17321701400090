"""What torch_colocated.py, torch_ppo.py and torch_disaggregated.py share: a card narrowed for them, runs of the example's
programs, and how their numbers are compared with those of a run in which everybody stays."""

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


def parser(text, card_gib, steps):
    made = argparse.ArgumentParser(description=text)
    made.add_argument("--card-gib", type=float, default=card_gib)
    made.add_argument("--fraction", type=float, default=0.55)
    made.add_argument("--steps", type=int, default=steps)
    return made


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


class Loops:
    """Runs `program` of the example by turns and resident, on a card of which `card_gib` are left, 0 for all of it. `room` is
    what was free before the first run."""

    def __init__(self, node, program, card_gib):
        if not harness.ON_CARD:
            raise harness.Skip("PyTorch needs a card; tests/node/colocated_loop.py and disaggregated.py have the same moves")
        if importlib.util.find_spec("torch") is None:
            raise harness.Skip(f"{sys.executable} has no PyTorch")
        python_package.load()
        self._node, self._program = node, python_package.examples() / "colocated" / program
        self._native = native_ipc(node)
        if card_gib:
            harness.equal(ask(sharer(node), "make", node.gpu_free() - int(card_gib * GIB)), "made 0", "narrowing the card")
        node.start_daemon()
        self.room = node.gpu_free()

    def run(self, *words, park=False):
        """The lines of one run. `park`: with the library, also where nothing is to be moved."""
        begin = time.monotonic()
        app = self._node.start(sys.executable, self._program, *words, env={"PYTHONPATH": str(harness.BUILD / "python")}, park=park)
        while app.line(STEP if len(app.said) > 1 else START) != "done":
            print(app.said[-1], flush=True)
        harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the loop")
        print(f"{app.errors()}{' '.join(map(str, words))}: {time.monotonic() - begin:.0f} s", flush=True)
        return app.said

    def check_numbers(self, said, *words):
        """Those of a run by turns are, bit for bit, those of one where everybody stays, in a fraction of the card."""
        print(f"now all stay, {'without Parkade' if self._native else 'under Parkade, for there is no CUDA IPC here without it'}", flush=True)
        wanted = numbers(self.run("--resident", "--gib", 1, *words, park=not self._native))
        for line, must_be in zip(numbers(said), wanted):
            harness.equal(line, must_be, "what the run by turns printed")
        harness.equal(len(numbers(said)), len(wanted), "lines of the run by turns")
        print(f"bit-equal to the resident run: {wanted[-1]}")


def numbers(said):
    """What must not depend on the moves: steps and state."""
    return [line.partition(" | ")[0] for line in said if line.startswith(("step", "state"))]


def taken(said):
    """GPU memory by role, and of the transfer buffer."""
    words = next(line for line in said if line.startswith("bytes")).split()
    return {name: int(number) for name, number in zip(words[1::2], words[2::2])}


def check_rise(lines, steps, enough):
    """The numbers of one run: rewards rise, where there are `enough` steps for it."""
    harness.equal(len(lines), steps + 1, "lines of the run")
    rewards = []
    for line in lines[:-1]:
        words = line.split()
        rewards.append(float(words[words.index("reward") + 1]))
    tenth = max(1, steps // 10)
    first, last = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
    print(f"reward {first:.3f} at first, {last:.3f} at last")
    if steps >= enough:
        harness.holds(last > 3 * first, f"rewards from {first} to {last} do not rise")


def check_versions(lines):
    """The numbers of one run: each step's samples are of its own version of the weights."""
    for number, line in enumerate(lines[:-1]):
        harness.equal(line.split()[:6], ["step", str(number), "weights", str(number), "to", str(number)], "the versions of a step's samples")


def check_peak(bytes, peak, room):
    """No two sides had room beside each other, and no more was in use than the largest, and what stays of all."""
    sides = [size for role, size in bytes.items() if role != "transfer"]
    most = max(sides) + bytes["transfer"] + len(sides) * CONTEXT + HANDLES
    print(f"of {room / GIB:.2f} GiB: {peak.bytes / GIB:.2f} in use at most, in {peak.looks} looks; {bytes}; {most / GIB:.2f} allowed")
    harness.holds(min(sides) > room / 2, "a side has less than half of the GPU")
    harness.holds(peak.bytes <= most, "more GPU memory was in use than the largest side, the transfer buffer, the contexts and two handles")
