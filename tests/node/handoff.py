"""One group's memory leaves the GPU while another's comes in: neither fits beside the other, both directions move at once,
whatever fails leaves both where they were, and the same call then works."""

import time

import harness
import python_package

LINK = 0.25  # GB/s in each direction
UNKNOWN = 999
OUT_CALLS = ("cuMemcpyDtoHAsync", "cuMemUnmap", "cuMemRelease", "cuEventRecord")
IN_CALLS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync", "cuEventRecord")


class Turns:
    """Two programs that take turns on the GPU; `now` runs, `then` is paused."""

    def __init__(self, parkade, client, node, *options, env=None):
        self.parkade, self.client, self.node = parkade, client, node
        self.then = node.stepper(*options, env={**(env or {}), "PARKADE_ROLE": "actor"})
        self.then.step()
        client.pause(self.then.pid)
        self.now = node.stepper(*options, env={**(env or {}), "PARKADE_ROLE": "rollout"})
        self.now.step()

    def hand(self, **options):
        results = self.client.handoff(self.now.pid, self.then.pid, **options)
        self.now, self.then = self.then, self.now
        return results

    def unchanged(self, what):
        states = self.node.state(self.now.pid), self.node.state(self.then.pid)
        harness.equal(states, ("running", "paused"), f"states after {what}")
        self.now.step()

    def end(self):
        self.client.handoff(self.now.pid, self.then.pid)
        self.then.step()
        self.then.finish()
        self.client.resume(self.now.pid)
        self.now.step()
        self.now.finish()


def turns(parkade, client, node):
    """Bytes stay right over several turns; a turn in which all move takes less than a pause and a resume."""
    env = {"SIM_LINK_GBPS": str(LINK), "PARKADE_ELISION": "off"}
    pair = Turns(parkade, client, node, "--buffers", 5, "--bytes", "120M", env=env)
    bytes = pair.now.bytes
    begin = time.monotonic()
    client.pause(pair.now.pid)
    client.resume(pair.then.pid)
    serial = time.monotonic() - begin
    pair.now, pair.then = pair.then, pair.now
    seconds = []
    for _ in range(3):
        begin = time.monotonic()
        out, into = pair.hand()
        seconds.append(time.monotonic() - begin)
        harness.equal((out.pid, out.state), (pair.then.pid, parkade.ProcessState.PAUSED), "who went out")
        harness.equal((into.pid, into.state), (pair.now.pid, parkade.ProcessState.RUNNING), "who came in")
        harness.holds(out.host_bytes >= bytes and into.host_bytes >= bytes, f"bytes moved: {out}, {into}")
        (gpu,) = into.gpus
        harness.holds(bytes <= gpu.peak_bytes <= gpu.allowed_bytes, f"the most that both had: {gpu}")
        pair.now.step()
    print(f"a pause and a resume {serial:.2f} s, handoffs {', '.join(f'{s:.2f}' for s in seconds)} s")
    if not harness.ON_CARD:
        harness.holds(sorted(seconds)[1] <= 0.8 * serial, f"both directions at once: {seconds} s, one after the other {serial:.2f} s")
    pair.hand(overlap="ordered")
    pair.now.step()
    pair.hand(overlap="gpu", policy="disk")
    pair.now.step()
    pair.hand()
    pair.now.step()
    operation = client.list_operations(ended=True)[-1]
    harness.equal((operation.kind, sorted(operation.pids)), (parkade.OperationKind.HANDOFF, sorted([pair.now.pid, pair.then.pid])), "the operation")
    refused(parkade, client, node, pair)
    pair.end()


def refused(parkade, client, node, pair):
    """What cannot be is refused before anything moves, and foretold."""
    taker = node.stepper("--buffers", 1, "--bytes", "300M", park=False)
    error = python_package.fails(parkade.ResourceExhausted, "GPU_MEMORY", lambda: client.handoff(pair.now.pid, pair.then.pid, tags="nothing", allow_empty=True))
    harness.holds(f"{taker.pid}=" in error.details["holders"] and int(error.details["needed_bytes"]) >= pair.then.bytes, f"details: {error.details}")
    pair.unchanged("a handoff that does not fit")
    forecast = client.forecast_handoff(pair.now.pid, pair.then.pid, tags="nothing", allow_empty=True)
    harness.equal([r.reason for r in forecast.refusals], ["GPU_MEMORY"], "what a dry run foretells")
    taker.finish()
    forecast = client.forecast_handoff(pair.now.pid, pair.then.pid)
    out, into = forecast.processes
    harness.equal((out.pid, into.pid, forecast.refusals), (pair.now.pid, pair.then.pid, ()), "a dry run of what would work")
    harness.holds(out.host_bytes >= pair.now.bytes and into.gpus[0].needed_bytes >= pair.then.bytes and forecast.seconds > 0, f"its figures: {forecast}")
    pair.unchanged("a dry run")
    python_package.fails(parkade.InvalidArgument, "BAD_SELECTOR", lambda: client.handoff(pair.now.pid, parkade.Selector(all=True)))
    python_package.fails(parkade.NotFound, "NO_GROUP", lambda: client.handoff(pair.now.pid, "nobody"))
    done = node.expect(0, "handoff", "--out", pair.now.pid, "--in", pair.then.pid, "--dry-run")
    harness.holds(str(pair.then.pid) in done.out, f"what the command foretells: {done.out}")
    pair.unchanged("refusals")


def faults(parkade, client, node):
    """Every kind of driver call of either side fails, each at its first few times."""
    pair = Turns(parkade, client, node, "--buffers", 6, "--bytes", "1,4K,40M,3M")
    noticed = set()
    for calls, side in ((OUT_CALLS, "now"), (IN_CALLS, "then")):
        for call in calls:
            for nth in (1, 2, 3):
                victim = getattr(pair, side)
                node.faults(f"{call} {nth} fail {UNKNOWN} pid={victim.pid}")
                try:
                    pair.hand()
                except parkade.Internal as error:
                    noticed.add((side, call))
                    node.faults()
                    pair.unchanged(f"the {nth}th {call} of {side} failing ({error})")
                    pair.hand()
                node.faults()
                pair.now.step()
    for must in (("now", "cuMemcpyDtoHAsync"), ("now", "cuMemUnmap"), ("then", "cuMemCreate"), ("then", "cuMemMap"), ("then", "cuMemcpyHtoDAsync")):
        harness.holds(must in noticed, f"a failing call must have been noticed: {must}; noticed were {sorted(noticed)}")
    ends(parkade, client, node, pair)


def ends(parkade, client, node, pair):
    """Cancelled, or without its daemon, in the middle: undone. A side that dies takes only itself."""
    def begun():
        node.faults(f"cuMemcpyDtoHAsync 1 wait 3000ms pid={pair.now.pid}")
        id = python_package.begin(client, lambda: client.handoff(pair.now.pid, pair.then.pid))
        harness.wait_for("bytes move", lambda: node.state(pair.now.pid) == "evicting")
        return id

    operation = client.cancel_operation(begun())
    node.faults()
    harness.equal(parkade.errors.of(operation.failure).reason, "CANCELLED", "how the cancelled handoff ended")
    pair.unchanged("a handoff that was cancelled")

    begun()
    node.kill_daemon()
    node.faults()
    node.start_daemon()
    python_package.reaches(client)
    def settled(app, state):
        # Before its library is back, the daemon knows only what the one before it knew.
        process = node.process(app.pid)
        return process["connected"] and process["state"] == state

    harness.wait_for("the outgoing side is back", lambda: settled(pair.now, "running"))
    harness.wait_for("the incoming side is out", lambda: settled(pair.then, "paused"))
    pair.unchanged("a handoff whose daemon was killed")
    pair.hand()
    pair.now.step()

    id = begun()
    pair.then.kill()
    node.faults()
    failure = parkade.errors.of(client.wait_operation(id).failure)
    harness.equal((type(failure), failure.reason), (parkade.Unavailable, "PROCESS_ENDED"), "how a handoff to a process that died ended")
    harness.equal(node.state(pair.now.pid), "running", "state of who was to go out")
    pair.now.step()
    pair.now.finish()


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("faults and the link's rate are the simulated driver's")
    parkade = python_package.load()
    node.start_daemon()
    with parkade.Client(str(node.runtime)) as client:
        turns(parkade, client, node)
        faults(parkade, client, node)


harness.scenario(run, gpu_bytes="1G")
