"""Resumes that need the same GPU get its memory in the order of their arrival and priority: a small one waits behind an earlier
larger one, what it waits for is told, and who is cancelled, late, dead or without a caller leaves the queue."""

import signal
import subprocess
import sys
import threading
import time

import harness
import python_package

RESOURCES = 5
CALLER = """
import sys
sys.path.insert(0, sys.argv[1])
import parkade
parkade.Client(sys.argv[2]).resume(int(sys.argv[3]), wait_timeout=300, request_id="caller")
"""


class Call:
    """A call on a thread of its own: what it has answered or raised."""

    def __init__(self, call):
        self.answer = self.error = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.answer = self._call()
        except Exception as error:  # shown by whoever asks for it
            self.error = error

    def ended(self):
        return not self._thread.is_alive()

    def result(self):
        self._thread.join(harness.PATIENCE)
        harness.holds(self.ended(), "the call must have ended")
        if self.error:
            raise self.error
        return self.answer


class Queue:
    """Paused programs, and one that is not parked and has the memory they need."""

    def __init__(self, parkade, client, node):
        self.parkade, self.client, self.node = parkade, client, node
        self.large = self._paused("400M")
        self.small = self._paused("100M")
        self.other = self._paused("120M")
        self.taker = None

    def _paused(self, size):
        app = self.node.stepper("--buffers", 1, "--bytes", size)
        app.step()
        self.client.pause(app.pid)
        return app

    def take(self, size="650M"):
        self.taker = self.node.stepper("--buffers", 1, "--bytes", size, park=False)
        self.taker.step()

    def give(self):
        self.taker.finish()

    def resume(self, app, wait=300, **options):
        """A resume that waits, and the operation that shows so."""
        call = Call(lambda: self.client.resume(app.pid, wait_timeout=wait, **options))
        return call, self.waiting(app)

    def waiting(self, app):
        def found():
            for operation in self.client.list_operations():
                if app.pid in operation.pids and operation.waiting:
                    return operation
            return None
        return harness.wait_for(f"{app.pid} waits", found)

    def out_again(self, *apps):
        for app in apps:
            app.step()
            self.client.pause(app.pid)


def order(q):
    """First come, first served; what is waited for is told by operations, watches, the node and the command line."""
    q.take()
    first, operation = q.resume(q.large)
    (wait,) = operation.waiting
    harness.equal((wait.position, wait.ahead_bytes, wait.priority), (1, 0, 0), "place of the first")
    harness.holds(wait.needed_bytes >= q.large.bytes and wait.free_bytes < wait.needed_bytes, f"what it waits for: {wait}")
    second, operation = q.resume(q.small)
    (behind,) = operation.waiting
    harness.equal((behind.position, behind.ahead_bytes), (2, wait.needed_bytes), "place of the second")
    harness.holds(behind.free_bytes >= behind.needed_bytes, f"the small one would fit: {behind}")

    gpu = q.client.get_node().gpus[0]
    harness.equal([(w.position, w.needed_bytes) for w in gpu.waiting], [(1, wait.needed_bytes), (2, behind.needed_bytes)], "the node's queue")
    harness.equal(gpu.waiting[1].operation_id, operation.id, "whose place that is")
    used = {user.pid: user for user in gpu.users}
    harness.holds(not used[q.taker.pid].managed and used[q.taker.pid].used_bytes >= q.taker.bytes, f"who is not managed: {used}")
    harness.equal(gpu.unexplained_bytes, gpu.total_bytes - gpu.free_bytes - gpu.managed_bytes, "what no managed process counts")
    harness.holds(gpu.unexplained_bytes >= q.taker.bytes, f"the taker's memory is in it: {gpu}")
    harness.holds("position 2" in q.node.expect(0, "ops").out, "ops must say what is waited for")
    shown = q.node.json("gpus")["gpus"][0]
    harness.equal([w["position"] for w in shown["waiting"]], [1, 2], "gpus shows the queue")
    watch = q.client.watch(q.small.pid, operations=True, timeout=20)
    told = next(e.operation for e in watch if e.operation and e.operation.waiting)
    watch.close()
    harness.equal(told.waiting[0].position, 2, "the place that a watch tells of")
    # One that does not wait is refused as well, and told of the one ahead.
    error = python_package.fails(q.parkade.ResourceExhausted, "GPU_MEMORY", lambda: q.client.resume(q.other.pid), gpu_uuid=gpu.uuid)
    harness.equal(int(error.details["ahead_bytes"]), wait.needed_bytes + behind.needed_bytes, "what is ahead of it")
    harness.holds(f"{q.taker.pid}=" in error.details["holders"], f"who holds the memory: {error.details}")
    (refusal,) = q.client.forecast_resume(q.other.pid).refusals
    harness.equal((refusal.reason, refusal.metadata["ahead_bytes"]), ("GPU_MEMORY", error.details["ahead_bytes"]), "what a dry run foretells")

    q.give()
    (result,) = first.result()
    harness.holds(result.wait_seconds > 0, f"the first has waited: {result}")
    second.result()
    gpu = q.client.get_node().gpus[0]
    (mine,) = [user for user in gpu.users if user.pid == q.large.pid]
    harness.holds(mine.managed and q.large.bytes <= mine.managed_bytes <= mine.used_bytes, f"what the first one has: {mine}")
    q.out_again(q.large, q.small)


def never(q):
    """What is more than the GPU has is refused at once: a wait would hold up everybody behind it."""
    more = q._paused("700M")
    both = q.parkade.Selector(pids=[q.large.pid, more.pid])
    begin = time.monotonic()
    python_package.fails(q.parkade.ResourceExhausted, "GPU_MEMORY", lambda: q.client.resume(both, wait_timeout=300))
    harness.holds(time.monotonic() - begin < harness.PATIENCE, "it must not wait")
    more.kill()


def priority(q):
    """A higher priority goes first, also when it comes last; on another GPU nobody waits for either."""
    q.take("900M")
    low, _ = q.resume(q.small)
    high, operation = q.resume(q.other, priority=7)
    (urgent,) = operation.waiting
    harness.equal((urgent.position, urgent.priority, urgent.ahead_bytes), (1, 7, 0), "place of the urgent one")
    behind = harness.wait_for("the earlier one is behind it", lambda: [w for w in q.waiting(q.small).waiting if w.position == 2])
    harness.equal(behind[0].ahead_bytes, urgent.needed_bytes, "what is ahead of the earlier one")
    elsewhere = q.node.stepper("--buffers", 1, "--bytes", "500M", "--device", 1)
    q.client.pause(elsewhere.pid)
    q.client.resume(elsewhere.pid, priority=-5)
    elsewhere.step()
    elsewhere.finish()
    q.give()
    high.result()
    low.result()
    q.out_again(q.small, q.other)


def leaving(q):
    """Cancelled, late, dead, or without a caller: the next one's turn comes."""
    q.take()
    p, client = q.parkade, q.client
    late, _ = q.resume(q.large, wait=1.0)
    next_one, _ = q.resume(q.small)
    try:
        late.result()
        raise AssertionError("a resume in vain must fail")
    except p.ResourceExhausted as error:
        harness.equal(error.reason, "GPU_MEMORY", "how it ended")
    next_one.result()
    q.out_again(q.small)

    cancelled, operation = q.resume(q.large)
    next_one, _ = q.resume(q.small)
    ended = client.cancel_operation(operation.id)
    harness.equal(p.errors.of(ended.failure).reason, "CANCELLED", "how the cancelled one ended")
    next_one.result()
    harness.equal(q.node.state(q.large.pid), "paused", "state of who was cancelled")
    q.out_again(q.small)

    words = [sys.executable, "-c", CALLER, str(harness.BUILD / "python"), str(q.node.runtime), str(q.large.pid)]
    caller = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    operation = q.waiting(q.large)
    next_one, _ = q.resume(q.small)
    caller.send_signal(signal.SIGKILL)
    caller.wait(harness.PATIENCE)
    # Asked without waiting: who waits for it listens.
    ended = harness.wait_for("it leaves", lambda: (o := client.get_operation(operation.id)).failure and o)
    failure = p.errors.of(ended.failure)
    harness.equal((type(failure), failure.reason), (p.Cancelled, "CALLER_GONE"), "how the one without a caller ended")
    next_one.result()
    q.out_again(q.small)

    # One whose caller was told that it goes on does so.
    python_package.fails(p.DeadlineExceeded, "STILL_RUNNING", lambda: client.resume(q.large.pid, wait_timeout=300, timeout=1))
    q.waiting(q.large)
    q.give()
    harness.wait_for("it goes on when there is room", lambda: q.node.state(q.large.pid) == "running")
    q.out_again(q.large)


def which_gpu(q):
    """A refusal names the GPU that is short by what is reserved, also where another has less free."""
    elsewhere = q.node.stepper("--buffers", 1, "--bytes", "500M", "--device", 1)
    elsewhere.step()
    q.client.pause(elsewhere.pid)
    taker = q.node.stepper("--buffers", 1, "--bytes", "350M", "--device", 1, park=False)
    here, there = q.client.get_node().gpus
    harness.holds(there.free_bytes < here.free_bytes, f"what both have free: {here}, {there}")
    kept = q.client.reserve(here.uuid, here.free_bytes)
    both = q.parkade.Selector(pids=[q.small.pid, elsewhere.pid])
    python_package.fails(q.parkade.ResourceExhausted, "GPU_MEMORY", lambda: q.client.resume(both), gpu_uuid=here.uuid, reserved_bytes=kept.bytes)
    q.client.release(kept.id)
    taker.finish()
    q.client.resume(elsewhere.pid)
    elsewhere.step()
    elsewhere.finish()


def already_back(q):
    """Who of a selection is back already can be paused while the rest waits for room."""
    q.client.resume(q.small.pid)
    q.take("800M")
    both = Call(lambda: q.client.resume(q.parkade.Selector(pids=[q.large.pid, q.small.pid]), wait_timeout=300))
    q.waiting(q.large)
    (paused,) = q.client.pause(q.small.pid)
    harness.holds(not paused.already, f"the pause has moved something: {paused}")
    q.give()
    results = {result.pid: result for result in both.result()}
    harness.equal((results[q.small.pid].already, results[q.large.pid].already), (True, False), "who was back already")
    harness.equal([q.node.state(app.pid) for app in (q.small, q.large)], ["paused", "running"], "where both are")
    q.out_again(q.large)


def dead_process(q):
    """One whose process dies leaves the queue."""
    q.take()
    doomed, operation = q.resume(q.large)
    next_one, _ = q.resume(q.small)
    q.large.kill()
    ended = q.client.wait_operation(operation.id)
    harness.equal(q.parkade.errors.of(ended.failure).reason, "PROCESS_ENDED", "how the resume of a dead process ended")
    harness.wait_for("the call has ended", doomed.ended)
    harness.equal(doomed.error.reason, "PROCESS_ENDED", "what its caller hears")
    next_one.result()
    q.give()
    q.small.step()


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: on the simulated one only")
    parkade = python_package.load()
    node.env["SIM_GPUS"] = "2"
    node.start_daemon()
    with parkade.Client(str(node.runtime)) as client:
        q = Queue(parkade, client, node)
        for part in (order, never, priority, leaving, which_gpu, already_back, dead_process):
            begin = time.monotonic()
            part(q)
            print(f"{part.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
        client.resume(q.other.pid, wait_timeout=harness.PATIENCE)
        for app in (q.small, q.other):
            app.step()
            app.finish()


harness.scenario(run, gpu_bytes="1G")
