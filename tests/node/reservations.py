"""Memory of a GPU that is reserved nobody else gets, until it is released, its time is over or its process has ended; the next
daemon keeps it."""

import os
import subprocess
import sys

import harness
import python_package

NOBODY = 65534
NOT_FOUND, RESOURCES = 3, 5
MIB = 1 << 20
AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import parkade
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
client = parkade.Client(sys.argv[2])
try:
    client.release(sys.argv[3])
except parkade.NotFound as error:
    print(error.reason, len(client.get_node().gpus[0].reservations), client.get_node().gpus[0].reserved_bytes)
"""


def kept(client, uuid, app, size):
    """Resumes and waits for free memory are refused, at once and after a wait, and told what is reserved."""
    p = python_package.load()
    mine = client.reserve(uuid, size, label="trainer", request_id="mine")
    harness.equal((mine.gpu_uuid, mine.bytes, mine.label, mine.time_left, mine.pid), (uuid, size, "trainer", None, 0), "what was reserved")
    harness.equal(client.reserve(uuid, size, label="trainer", request_id="mine").id, mine.id, "the same request again")
    python_package.fails(p.AlreadyExists, "REQUEST_ID_REUSED", lambda: client.reserve(uuid, size + 1, request_id="mine"), request_id="mine")
    for wait in (0, 0.3):
        error = python_package.fails(p.ResourceExhausted, "GPU_MEMORY", lambda wait=wait: client.resume(app.pid, wait_timeout=wait), gpu_uuid=uuid, reserved_bytes=size)
        harness.holds(int(error.details["free_bytes"]) >= int(error.details["needed_bytes"]), f"it would fit: {error.details}")
    python_package.fails(p.ResourceExhausted, "GPU_MEMORY", lambda: client.wait_free(uuid, app.bytes), reserved_bytes=size)
    gpu = client.get_node().gpus[0]
    harness.equal((gpu.reserved_bytes, [r.id for r in gpu.reservations]), (size, [mine.id]), "what the node shows")
    return mine


def refusals(client, uuid, total):
    p = python_package.load()
    def fails(kind, reason, **options):
        details = options.pop("details", {})
        call = {"gpu_uuid": uuid, "bytes": MIB, **options}
        return python_package.fails(kind, reason, lambda: client.reserve(call.pop("gpu_uuid"), call.pop("bytes"), **call), **details)
    fails(p.NotFound, "NO_GPU", gpu_uuid="GPU-none", details={"gpu_uuid": "GPU-none"})
    fails(p.InvalidArgument, "BAD_SIZE", bytes=0)
    fails(p.InvalidArgument, "BAD_SIZE", bytes=total + 1, details={"total_bytes": total})
    fails(p.InvalidArgument, "BAD_SIZE", ttl=-1)
    fails(p.InvalidArgument, "BAD_SIZE", ttl=0)
    fails(p.InvalidArgument, "BAD_REQUEST", label="x" * 64)
    fails(p.InvalidArgument, "BAD_REQUEST", label="a\nb")
    fails(p.NotFound, "NO_PROCESS", pid=4_000_000, details={"pid": 4_000_000})
    error = fails(p.ResourceExhausted, "GPU_MEMORY", bytes=total, details={"gpu_uuid": uuid, "needed_bytes": total})
    harness.holds(int(error.details["free_bytes"]) < total and "holders" in error.details, f"figures of {error.details}")
    python_package.fails(p.NotFound, "NO_RESERVATION", lambda: client.release("none"), reservation="none")
    many = [client.reserve(uuid, 1) for _ in range(256)]
    python_package.fails(p.ResourceExhausted, "TOO_MANY_RESERVATIONS", lambda: client.reserve(uuid, 1))
    for each in many:
        client.release(each.id)


def ends(client, node, uuid, app):
    """With its time, with its process, and when it is released: whoever waits for it goes on."""
    p = python_package.load()
    room = client.get_node().gpus[0].free_bytes
    client.reserve(uuid, room, ttl=1.0)
    (back,) = client.resume(app.pid, wait_timeout=harness.PATIENCE)
    harness.holds(back.wait_seconds > 0.3, f"it had to wait for the end: {back}")
    client.pause(app.pid)

    owner = subprocess.Popen(["sleep", "600"])
    tied = client.reserve(uuid, client.get_node().gpus[0].free_bytes, pid=owner.pid)
    python_package.fails(p.ResourceExhausted, "GPU_MEMORY", lambda: client.resume(app.pid))
    owner.kill()
    owner.wait()
    client.resume(app.pid, wait_timeout=harness.PATIENCE)
    python_package.fails(p.NotFound, "NO_RESERVATION", lambda: client.release(tied.id), reservation=tied.id)
    client.pause(app.pid)

    # A reservation waits its turn too, and can be cancelled.
    all_of_it = client.reserve(uuid, client.get_node().gpus[0].free_bytes)
    waits = python_package.begin(client, lambda: client.reserve(uuid, MIB, wait_timeout=300))
    operation = harness.wait_for("it waits", lambda: (o := client.get_operation(waits)).waiting and o)
    harness.equal((operation.kind, operation.waiting[0].needed_bytes, operation.waiting[0].reserved_bytes), (p.OperationKind.RESERVE, MIB, all_of_it.bytes), "what it waits for")
    failure = p.errors.of(client.cancel_operation(waits).failure)
    harness.equal((type(failure), failure.reason), (p.Cancelled, "CANCELLED"), "how it ended")
    client.release(all_of_it.id)
    harness.equal(client.get_node().gpus[0].reserved_bytes, 0, "bytes reserved at the end")
    python_package.fails(p.NotFound, "NO_RESERVATION", lambda: client.release(all_of_it.id))


def next_daemon(client, node, uuid, app, mine):
    lasting = client.reserve(uuid, MIB, ttl=3600)
    over = client.reserve(uuid, MIB, ttl=0.1)
    for stop in (node.kill_daemon, node.stop_daemon):
        stop()
        node.start_daemon()
        python_package.reaches(client)
        def kept_by_it():
            return {r.id: r for r in client.get_node().gpus[0].reservations}
        harness.wait_for("the one whose time is over ends", lambda: over.id not in kept_by_it())
        found = kept_by_it()
        harness.equal((found[mine.id].bytes, found[mine.id].label), (mine.bytes, "trainer"), "what the next daemon keeps")
        harness.holds(3500 < found[lasting.id].time_left < 3600, f"its time goes on: {found[lasting.id]}")
        harness.equal(client.reserve(uuid, mine.bytes, label="trainer", request_id="mine").id, mine.id, "its answer to the same request")
    client.release(lasting.id)


def others(node, mine):
    """Another user neither sees nor ends it, and is told how much is kept."""
    if os.getuid() != 0:
        return
    node.runtime.chmod(0o755)
    words = [sys.executable, "-c", AS_NOBODY.format(nobody=NOBODY), str(harness.BUILD / "python"), str(node.runtime), mine.id]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    harness.equal(done.stdout.split(), ["NO_RESERVATION", "0", str(mine.bytes)], f"what another user sees {done.stderr}")


def command_line(node, uuid):
    made = node.json("reserve", "0", "5MiB", "--label", "cli", "--ttl", "10m", "--pid", os.getpid())["reservation"]
    harness.equal((made["gpu_uuid"], made["bytes"], made["label"], made["pid"]), (uuid, 5 * MIB, "cli", os.getpid()), "what reserve prints")
    harness.holds(590 < made["seconds_left"] <= 600, f"its time: {made}")
    shown = node.expect(0, "gpus").out
    harness.holds(made["id"] in shown and "cli" in shown, f"gpus must list it: {shown}")
    harness.equal([r["id"] for r in node.json("gpus")["gpus"][0]["reservations"]], [made["id"]], "the list as JSON")
    node.expect(0, "release", made["id"])
    node.expect(NOT_FOUND, "release", made["id"])
    node.expect(NOT_FOUND, "reserve", "7", "1M")
    node.expect(RESOURCES, "reserve", "0", "4000M")


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("fills a whole GPU: on the simulated one only")
    parkade = python_package.load()
    node.start_daemon()
    app = node.stepper("--buffers", 1, "--bytes", "500M")
    app.step()
    with parkade.Client(str(node.runtime)) as client:
        client.pause(app.pid)
        gpu = client.get_node().gpus[0]
        refusals(client, gpu.uuid, gpu.total_bytes)
        mine = kept(client, gpu.uuid, app, gpu.free_bytes - 300 * MIB)
        others(node, mine)
        next_daemon(client, node, gpu.uuid, app, mine)
        client.release(mine.id)
        python_package.fails(parkade.NotFound, "NO_RESERVATION", lambda: client.reserve(gpu.uuid, mine.bytes, label="trainer", request_id="mine"))
        ends(client, node, gpu.uuid, app)
        command_line(node, gpu.uuid)
        client.resume(app.pid)
    app.step()
    app.finish()


harness.scenario(run, gpu_bytes="4000M")
