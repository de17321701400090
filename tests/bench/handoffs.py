"""The suite of groups with a rank on each GPU: pauses, resumes and handoffs in which all ranks move at once, beside
copies on all links at once."""

import contextlib
import threading

import harness
import python_package
from bed import GIB, MIB, link, size

SMALL = not harness.ON_CARD
COUNT, EACH = (4, 16 * MIB) if SMALL else (64, 512 * MIB)
LINK_BYTES = 16 * MIB if SMALL else 4 * GIB
SAMPLE_S = 0.005
STAGE = 256 * MIB  # of host memory on the way to disk, by default


class Links:
    """Copies on the links of several GPUs at once."""

    def __init__(self, limits):
        self._limits = limits

    def __call__(self, *words):
        """GB/s of all together; by turns the first does the first of the words, the second the second, and so on."""
        found = [None] * len(self._limits)

        def measure(number):
            found[number] = self._limits[number](words[number % len(words)])

        threads = [threading.Thread(target=measure, args=(number,)) for number in range(len(found))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(found) * min(found)  # the last one's end is the end


class Watcher:
    """Calls `look` every 5 ms while it is entered, on a thread of its own; `look` is made there by `open`."""

    def __init__(self):
        self._ended = threading.Event()

    def _watch(self):
        with self.open() as look:
            while not self._ended.wait(SAMPLE_S):
                look()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()


class Peak(Watcher):
    """The least free memory that the driver shows of each GPU."""

    def __init__(self, node, gpus):
        super().__init__()
        self._node, self._gpus = node, range(gpus)

    def _free(self):
        return [self._node.gpu_free(gpu) for gpu in self._gpus]

    def _look(self):
        self._least = list(map(min, self._least, self._free()))

    def open(self):
        return contextlib.nullcontext(self._look)

    def __enter__(self):
        self._before = self._least = self._free()
        return super().__enter__()

    def above(self):
        """Bytes that were in use at most beside what was when it was entered, on the GPU with the most."""
        return max(before - least for before, least in zip(self._before, self._least, strict=True))


class HostPeak(Watcher):
    """The most pinned memory that the shims of all processes had together."""

    def __init__(self, node):
        super().__init__()
        self._node, self.bytes = node, 0

    @contextlib.contextmanager
    def open(self):
        with python_package.load().Client(str(self._node.runtime)) as client:
            yield lambda: self._look(client)

    def _look(self, client):
        self.bytes = max(self.bytes, sum(process.host_pool_bytes for process in client.list_processes()))


class Side:
    """A program on each GPU."""

    def __init__(self, node, gpus):
        options = ["--buffers", COUNT, "--bytes", EACH]
        self._apps = [node.verifier("--device", gpu, *options, env={"PARKADE_ELISION": "off"}) for gpu in range(gpus)]
        self._node = node
        self.pids = [app.pid for app in self._apps]
        self.bytes = gpus * COUNT * EACH

    def move(self, verb):
        """GB/s of all together."""
        results = self._node.json(verb, *self.pids)["results"]
        return self.bytes / max(result["total_seconds"] for result in results) / 1e9

    def step(self):
        for app in self._apps:
            app.ask_step()
        for app in self._apps:
            app.stepped(300)

    def finish(self):
        for app in self._apps:
            app.finish()


def hand(node, out, into, *options):
    """Seconds of a handoff, and its results."""
    sides = [",".join(map(str, side.pids)) for side in (out, into)]
    results = node.json("handoff", "--out", sides[0], "--in", sides[1], *options)["results"]
    return max(result["total_seconds"] for result in results), results


def groups(bench, name, gpus):
    node, bytes_ = bench.node, gpus * COUNT * EACH
    label = f"{gpus} x {size(COUNT * EACH)}"
    then = Side(node, gpus)
    then.step()
    then.move("pause")
    now = Side(node, gpus)
    now.step()
    hand(node, now, then)  # both have their host memory from now on
    now, then = then, now
    with contextlib.ExitStack() as stack:
        links = Links([stack.enter_context(link(node, LINK_BYTES, gpu)) for gpu in range(gpus)])
        pairs = Links([stack.enter_context(link(node, LINK_BYTES, gpu)) for gpu in range(gpus) for _ in range(2)])
        for _ in range(bench.rounds):
            now.step()
            out, into = now.move("pause"), then.move("resume")
            bench.add(name, f"pause, {label}", limit=links("out"), ours=out)
            bench.add(name, f"resume, {label}", limit=links("in"), ours=into)
            now, then = then, now
            now.step()
            with Peak(node, gpus) as peak:
                seconds, _ = hand(node, now, then)
            now, then = then, now
            serial = bytes_ / out / 1e9 + bytes_ / into / 1e9
            bench.add(name, f"handoff, {label} each way", limit=links("both"), ours=2 * bytes_ / seconds / 1e9)
            bench.add(name, f"copies on {gpus} links, out by one process and in by another", limit=pairs("out", "in"))
            bench.add(name, f"handoff beside a pause and a resume, {label}", unit="s", limit=serial, ours=seconds)
            bench.add(name, f"handoff, {label}: most HBM above one side", unit="MiB", ours=peak.above() / MIB)
    now.step()
    then.move("resume")
    then.step()
    now.finish()
    then.finish()


def handoffs(bench):
    """With one GPU, then with all that the node has."""
    for gpus in sorted({1, len(bench.node.json("gpus")["gpus"])}):
        groups(bench, "handoff", gpus)


def tight(bench):
    """Handoffs on one GPU where host memory holds one side and 1 GiB more: what it has no room for goes to disk, through a
    stage beside the budget."""
    node, name, bytes_ = bench.node, "handoff-tight", COUNT * EACH
    budget = bytes_ + (16 * MIB if SMALL else GIB)
    most = budget + STAGE
    node.expect(0, "budget", "--host", budget)
    then = Side(node, 1)
    then.step()
    then.move("pause")
    now = Side(node, 1)
    label = f"{size(bytes_)} each way, a host budget of {size(budget)}"
    with link(node, LINK_BYTES) as limit:
        for _ in range(bench.rounds):
            now.step()
            both = limit("both")  # also waits until its memory is there
            with Peak(node, 1) as peak, HostPeak(node) as host:
                seconds, results = hand(node, now, then, "--policy", "auto")
            now, then = then, now
            harness.holds(0 < host.bytes <= most, f"{host.bytes} bytes of pinned memory, {most} are allowed")
            bench.add(name, f"handoff, {label}", limit=both, ours=2 * bytes_ / seconds / 1e9)
            bench.add(name, f"of it out to disk, {label}", unit="MiB", ours=sum(r["disk_bytes"] for r in results if r["state"] == "paused") / MIB)
            bench.add(name, f"most pinned memory, {label}", unit="MiB", limit=most / MIB, ours=host.bytes / MIB)
            bench.add(name, f"most HBM above one side, {label}", unit="MiB", ours=peak.above() / MIB)
    now.step()
    now.finish()
    then.move("resume")
    then.step()
    then.finish()
    node.expect(0, "budget", "--host", "none")
