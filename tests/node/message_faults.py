"""Every packet between daemon and shims, and every write of the daemon's journal, in a pause and in a
resume of two ranks: it fails, or daemon or rank is killed there. Whatever happens, each rank that lives
is running or paused with its bytes, and nobody else is stuck."""

import errno
import itertools

import harness

SETTLED = ("running", "paused")
BUFFERS = ("--buffers", 3, "--bytes", "1,4K,3M")
# With what each call can go wrong. What is received is lost by a fault or known by a kill.
PACKETS = {
    "send": (f"fail {errno.ECONNRESET}", "kill", "kill-after"),
    "receive": (f"fail {errno.ECONNRESET}", "kill"),
}
JOURNAL = {
    "write": (f"fail {errno.ENOSPC}", f"fail {errno.EIO}", "kill", "kill-after"),
    "sync": (f"fail {errno.EIO}", "kill"),
    "rename": (f"fail {errno.EIO}", "kill", "kill-after"),
}


class Pair:
    """A daemon and two ranks; calls of the daemon and of rank 0 can be made to fail."""

    def __init__(self, node):
        self.node = node
        self.faults = {"daemon": harness.CallFaults(node, "daemon"), "rank": harness.CallFaults(node, "rank")}
        self.ranks = [None, None]

    def mend(self):
        """Starts whatever does not live, and brings every rank to running with its bytes."""
        if self.node.daemon is None or self.node.daemon.poll() is not None:
            self.node.start_daemon(env=self.faults["daemon"].env)
        for rank, app in enumerate(self.ranks):
            if app is None or harness.gone(app.pid):
                env = {"PARKADE_JOB": "pair", "RANK": str(rank), **(self.faults["rank"].env if rank == 0 else {})}
                self.ranks[rank] = self.node.stepper(*BUFFERS, env=env)
        self.settled()
        self.node.expect(0, "resume", "--job", "pair")
        for app in self.ranks:
            app.step()

    def settled(self):
        """Waits until every rank that lives is connected, and running or paused; their states."""
        living = [app.pid for app in self.ranks if not harness.gone(app.pid)]

        found = {}

        def states():
            found.clear()
            found.update({p["pid"]: p["connected"] and p["state"] for p in self.node.processes()})
            return set(found) == set(living) and set(found.values()) <= set(SETTLED)

        try:
            harness.wait_for("every rank is running or paused", states, 5.0)
        except AssertionError as late:
            raise AssertionError(f"{late}; of {living} there are {found}") from None
        return list(found.values())


def attempt(pair, side, operation, line):
    """Runs the operation with one fault; whether it came to the fault at all."""
    node = pair.node
    if operation == "resume":
        node.expect(0, "pause", "--job", "pair", "--policy", "disk")
    words = ("--policy", "disk") if operation == "pause" else ()
    pair.faults[side].arm(line)
    done = node.cli(operation, "--job", "pair", *words, deadline=harness.PATIENCE)
    happened = pair.faults[side].disarm()
    if not happened:
        harness.equal(done.code, 0, f"exit code of a {operation} without a fault ({done.err.strip()})")
        return False
    if "kill" in line:
        (node.daemon if side == "daemon" else pair.ranks[0].process).wait(harness.PATIENCE)
    if done.code == 0 and node.daemon.poll() is None:
        # The fault came after all was done, or was got over.
        wanted = {"pause": "paused", "resume": "running"}[operation]
        harness.equal(set(pair.settled()), {wanted}, f"states after {operation} that went well in spite of {line}")
    return True


def enumerate_calls(pair, side, operation, name, action):
    """Lets each call of the operation in turn go wrong; returns how many there were."""
    for nth in itertools.count(1):
        happened = attempt(pair, side, operation, f"{name} {nth} {action}")
        if name in JOURNAL and pair.node.daemon.poll() is None:
            # After a failure it leaves the journal alone for a while; the next daemon does not.
            pair.node.stop_daemon()
        pair.mend()
        if not happened:
            return nth - 1


def run(node):
    pair = Pair(node)
    pair.mend()
    total = 0
    for side, calls in (("daemon", {**PACKETS, **JOURNAL}), ("rank", PACKETS)):
        for operation, (name, actions) in itertools.product(("pause", "resume"), calls.items()):
            counts = [enumerate_calls(pair, side, operation, name, action) for action in actions]
            print(f"{operation}: {name} of the {side}, {counts} times, by fault {actions}", flush=True)
            total += sum(counts)
            if name in PACKETS or name == "write":
                harness.holds(all(counts), f"a {operation} without a {name} of the {side}")
    print(f"{total} faults")
    for app in pair.ranks:
        app.finish()
    harness.wait_for("their scratch is gone", lambda: not node.scratch_entries(), 1.0)


harness.scenario(run)
