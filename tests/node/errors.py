"""Every kind of refusal reads in the Python client as its exception, with code, reason and details; nothing changes."""

import os
import re
import resource
import signal
import subprocess
import sys

import harness
import python_package

SHARING = harness.TREE / "tests/apps/sharing.py"
NOBODY = 65534
FLAGS = ("--host-budget", "64M")
AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import parkade
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
try:
    parkade.Client(sys.argv[2]).pause(int(sys.argv[3]))
except parkade.PermissionDenied as error:
    print(error.code, error.reason, error.details["pid"])
"""


# Says a Hello of a version that is still to come, which may be longer than today's.
OTHER_VERSION = """
import socket, struct, sys, time
shim = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
shim.connect(sys.argv[1])
shim.send(struct.pack("<IIIIQII", 0x4b524150, 1, 832, 0, 0, 99, 99).ljust(832, bytes(1)))
print("turned away" if shim.recv(4096) == b"" else "let in", flush=True)
sys.stdin.read()
"""


# Begins a capture, and ends it when it is told to.
CAPTURING = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from cuda_driver import allocate, check, load, retain
cuda = load()
retain(cuda, 0)
allocate(cuda, 1 << 20)
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuStreamCreate(ctypes.byref(stream), 1), "cuStreamCreate")
check(cuda.cuStreamBeginCapture_v2(stream, 2), "cuStreamBeginCapture")
print("capturing", flush=True)
sys.stdin.readline()
check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)), "cuStreamEndCapture")
print("captured", flush=True)
sys.stdin.read()
"""


# Loses its context.
LOSING = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from adding_kernel import ADD_WORDS
from cuda_driver import allocate, check, load, retain
cuda = load()
retain(cuda, 0)
allocate(cuda, 1 << 20)
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuModuleLoadData(ctypes.byref(module), ADD_WORDS), "cuModuleLoadData")
check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"add_words"), "cuModuleGetFunction")
values = [ctypes.c_uint64(1 << 20), ctypes.c_uint64(4), ctypes.c_uint32(1)]
pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, pointers, None), "cuLaunchKernel")
print("lost", cuda.cuCtxSynchronize(), flush=True)
sys.stdin.read()
"""


class Rows:
    def __init__(self, parkade, client, node):
        self.parkade, self.client, self.node = parkade, client, node

    def fails(self, kind, reason, call, **details):
        error = python_package.fails(kind, reason, call, **details)
        wanted = re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).upper()
        harness.equal(error.code, wanted, f"code of {error}")
        return error

    def requests(self, app):
        """What the request itself makes impossible."""
        p, client = self.parkade, self.client
        self.fails(p.InvalidArgument, "UNKNOWN_TAG", lambda: client.pause(app.pid, tag_policies={"nothing": "disk"}), tag="nothing", known_tags="default")
        self.fails(p.InvalidArgument, "UNKNOWN_TAG", lambda: client.pause(app.pid, tags="kv_cache,weight"), tag="kv_cache", known_tags="default")
        self.fails(p.InvalidArgument, "BAD_SIZE", lambda: client.pause(app.pid, policy="disk", chunk_bytes=5))
        self.fails(p.InvalidArgument, "BAD_POLICY", lambda: client.pause(app.pid, policy="discard"))
        self.fails(p.InvalidArgument, "BAD_SELECTOR", lambda: client.resume(p.Selector()))
        self.fails(p.InvalidArgument, "BAD_SCRATCH", lambda: client.pause(app.pid, policy="disk", scratch_base="/usr"), path="/usr")
        self.fails(p.NotFound, "NO_FILE", lambda: client.pause(app.pid, policy="disk", scratch_base=f"{self.node.scratch}/missing"))
        self.fails(p.NotFound, "NO_PROCESS", lambda: client.pause(p.Selector(job="nobody")))
        self.fails(p.NotFound, "NO_PROCESS", lambda: client.get_process(4_000_000), pid=4_000_000)
        self.fails(p.NotFound, "NO_GROUP", lambda: client.pause("nobody"), group="nobody", known_groups="")
        self.fails(p.InvalidArgument, "BAD_GROUP", lambda: client.define_group(p.Group("a b", p.Selector(job="rl"))))
        self.fails(p.NotFound, "NO_OPERATION", lambda: client.get_operation("none"), operation="none")

    def callers(self, app):
        """Who asks, and what he asked before."""
        p, client = self.parkade, self.client
        client.pause(app.pid, request_id="one", epoch=5)
        self.fails(p.AlreadyExists, "REQUEST_ID_REUSED", lambda: client.pause(app.pid, request_id="one"), request_id="one")
        self.fails(p.FailedPrecondition, "STALE_EPOCH", lambda: client.resume(app.pid, epoch=4), pid=app.pid, epoch=5)
        client.resume(app.pid, epoch=5)
        if os.getuid() == 0:
            self.node.runtime.chmod(0o755)
            words = [sys.executable, "-c", AS_NOBODY.format(nobody=NOBODY), str(harness.BUILD / "python"), str(self.node.runtime), str(app.pid)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
            harness.equal(done.stdout.split(), ["PERMISSION_DENIED", "UID_MISMATCH", str(app.pid)], f"another user's pause {done.stderr}")

    def busy(self, verifier):
        """GPU work that does not end, or not yet; another transition."""
        p, client = self.parkade, self.client
        verifier.say("spin 6000")
        verifier.until("spinning")
        self.fails(p.FailedPrecondition, "BUSY", lambda: client.pause(verifier.pid, drain_timeout=0.1), pid=verifier.pid, device=0)
        running = self.fails(p.DeadlineExceeded, "STILL_RUNNING", lambda: client.pause(verifier.pid, timeout=2))
        self.fails(p.FailedPrecondition, "BUSY", lambda: client.resume(verifier.pid), pid=verifier.pid)
        operation = client.cancel_operation(running.details["operation"])
        harness.equal(p.errors.of(operation.failure).reason, "CANCELLED", "how the cancelled operation ended")
        verifier.step()

    def capturing(self):
        """A graph that is being captured."""
        p, client, node = self.parkade, self.client, self.node
        app = node.start(sys.executable, "-c", CAPTURING, harness.TREE / "tests/apps")
        harness.equal(app.line(), "capturing", "first line of the capturing program")
        harness.wait_for("it is listed", lambda: node.state(app.pid) == "running")
        self.fails(p.FailedPrecondition, "CAPTURE_ACTIVE", lambda: client.pause(app.pid, drain_timeout=0.2), pid=app.pid)
        app.say("end")
        harness.equal(app.line(), "captured", "how the capture ended")
        client.pause(app.pid)
        client.resume(app.pid)
        app.process.stdin.close()
        harness.equal(app.process.wait(harness.PATIENCE), 0, "exit code of the capturing program")

    def groups(self):
        """More groups than a caller may have."""
        p, client = self.parkade, self.client
        nobody = p.Selector(job="nobody")
        for n in range(256):
            client.define_group(p.Group(f"g{n}", nobody))
        self.fails(p.ResourceExhausted, "TOO_MANY_GROUPS", lambda: client.define_group(p.Group("more", nobody)))
        for n in range(256):
            client.remove_group(f"g{n}")

    def lost(self):
        """A context that is lost for good, by a kernel at an address where nothing is."""
        p, client, node = self.parkade, self.client, self.node
        app = node.start(sys.executable, "-c", LOSING, harness.TREE / "tests/apps")
        harness.equal(app.line(), "lost 700", "first line of the losing program")
        error = self.fails(p.Internal, "CUDA_ERROR_ILLEGAL_ADDRESS", lambda: client.pause(app.pid), pid=app.pid, cuda=700)
        harness.equal(error.details.get("sticky"), "true", f"whether the context is lost: {error.details}")
        harness.equal(node.state(app.pid), "failed", "state of a process whose context is lost")
        app.kill()

    def resources(self, app):
        """No room in host memory, on the disk, on the GPU."""
        p, client = self.parkade, self.client
        error = self.fails(p.ResourceExhausted, "HOST_MEMORY", lambda: client.pause(app.pid, policy="host"))
        harness.holds(int(error.details["needed_bytes"]) > int(error.details["free_bytes"]), f"figures of {error.details}")
        before = resource.prlimit(app.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(app.pid, resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        self.fails(p.ResourceExhausted, "FILE_SIZE_LIMIT", lambda: client.pause(app.pid, policy="disk"), pid=app.pid)
        resource.prlimit(app.pid, resource.RLIMIT_FSIZE, before)
        doomed = self.node.stepper("--buffers", 2, "--bytes", "40M")
        client.pause(p.Selector(pids=[app.pid, doomed.pid]), policy="disk")
        taker = self.node.stepper("--buffers", 1, "--bytes", "330M", park=False)
        error = self.fails(p.ResourceExhausted, "GPU_MEMORY", lambda: client.resume(app.pid))
        harness.holds(int(error.details["needed_bytes"]) > int(error.details["free_bytes"]), f"figures of {error.details}")
        harness.holds(f"{taker.pid}=" in error.details["holders"], f"holders of {error.details}")
        waits = python_package.begin(client, lambda: client.resume(doomed.pid, wait_timeout=60))
        doomed.kill()
        ended = p.errors.of(client.wait_operation(waits).failure)
        harness.equal((type(ended), ended.reason), (p.Unavailable, "PROCESS_ENDED"), "how the resume of a dead process ended")
        taker.finish()
        client.resume(app.pid, wait_timeout=harness.PATIENCE)

    def shared(self):
        """Memory that another process maps."""
        p, client, node = self.parkade, self.client, self.node
        exporter, importer = (node.start("python3", SHARING) for _ in range(2))
        for app in (exporter, importer):
            harness.equal(app.line(), "ready", "first line of the sharing program")
            harness.wait_for("it is listed", lambda app=app: node.state(app.pid) == "running")

        def ask(app, words):
            app.say(words)
            return app.line()

        ask(exporter, f"make {2 << 20}")
        handle = ask(exporter, "export 0").split()[1]
        harness.equal(ask(importer, f"open {handle}"), "opened 0", "the import")
        harness.wait_for("the exporter knows of the import", lambda: any(a.allocation_class == "held" for a in client.get_process(exporter.pid).allocations))
        error = self.fails(p.FailedPrecondition, "EXPORTED", lambda: client.pause(exporter.pid, policy="disk", on_exported="refuse"))
        harness.holds(str(importer.pid) in error.message, f"who maps it: {error}")
        client.pause(p.Selector(pids=[exporter.pid, importer.pid]), policy="disk")
        self.fails(p.FailedPrecondition, "EXPORTER_PAUSED", lambda: client.resume(importer.pid), pid=importer.pid)
        client.resume(p.Selector(pids=[exporter.pid, importer.pid]))

    def backups(self, app):
        """A file that is changed, or gone."""
        p, client, node = self.parkade, self.client, self.node
        client.pause(app.pid, policy="disk")
        scratch = client.get_process(app.pid).process.scratch_dir
        with open(f"{scratch}/data.0", "r+b") as file:
            whole = file.read()
            file.seek(0)
            file.write(bytes([whole[0] ^ 1]))
            file.flush()
            self.fails(p.DataLoss, "BACKUP_CORRUPT", lambda: client.resume(app.pid), pid=app.pid, path=scratch)
            file.truncate(0)
            self.fails(p.DataLoss, "BACKUP_MISSING", lambda: client.resume(app.pid), pid=app.pid, path=scratch)
            file.seek(0)
            file.write(whole)
        client.resume(app.pid)
        app.step()

    def driver(self, app):
        """A call of the driver that fails, and a context that is lost."""
        p, client, node = self.parkade, self.client, self.node
        node.faults(f"cuMemcpyDtoHAsync 1 fail 999 pid={app.pid}")
        self.fails(p.Internal, "CUDA_ERROR_UNKNOWN", lambda: client.pause(app.pid, policy="disk"), pid=app.pid, cuda=999)
        node.faults()
        app.step()

    def unmanaged(self):
        """Programs without the library, and with one of another version."""
        p, client, node = self.parkade, self.client, self.node
        bare = node.stepper("--buffers", 1, "--bytes", "1M", park=False)
        self.fails(p.FailedPrecondition, "NOT_INSTRUMENTED", lambda: client.pause(bare.pid), pid=bare.pid)
        bare.finish()
        other = node.start(sys.executable, "-c", OTHER_VERSION, node.runtime / "shim.sock", park=False)
        harness.equal(other.line(), "turned away", "what a library of another version hears")
        self.fails(p.FailedPrecondition, "ABI_MISMATCH", lambda: client.pause(other.pid), pid=other.pid, version=99)
        other.kill()

    def processes(self):
        """A library that is not connected."""
        p, client, node = self.parkade, self.client, self.node
        app = node.stepper()
        app.process.send_signal(signal.SIGSTOP)
        node.kill_daemon()
        node.start_daemon(*FLAGS)
        python_package.reaches(client)
        self.fails(p.Unavailable, "SHIM_DISCONNECTED", lambda: client.pause(app.pid), pid=app.pid)
        app.process.send_signal(signal.SIGCONT)
        harness.wait_for("it is back", lambda: all(process.connected for process in client.list_processes(app.pid)))


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("faults come from the simulated driver, and it takes a whole GPU")
    parkade = python_package.load()
    node.start_daemon(*FLAGS)
    app = node.stepper("--buffers", 2, "--bytes", "40M")
    verifier = node.verifier("--buffers", 2, "--bytes", 1_000_000)
    small = node.stepper("--buffers", 2, "--bytes", "5M")
    for program in (app, verifier, small):
        program.step()
    with parkade.Client(str(node.runtime)) as client:
        rows = Rows(parkade, client, node)
        rows.requests(small)
        rows.callers(small)
        rows.busy(verifier)
        rows.capturing()
        rows.groups()
        rows.resources(app)
        rows.shared()
        rows.backups(small)
        rows.driver(small)
        rows.lost()
        rows.unmanaged()
        rows.processes()
        harness.equal({p.state for p in client.list_processes()}, {parkade.ProcessState.RUNNING}, "states after all refusals")
    for program in (app, small):
        program.step()
        program.finish()


harness.scenario(run, gpu_bytes="512M")
