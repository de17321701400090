"""One private Parkade node for one scenario: folders, daemon, programs on the GPU, command line.

A scenario is a program that ends with `harness.scenario(run)`; `run` gets a Node and fails by an
exception. The GPU is the simulated one, or the machine's where PARKADE_TEST_GPU is `card`.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PARKADE_BUILD_DIR", TREE / "build/release")).resolve()
ON_CARD = os.environ.get("PARKADE_TEST_GPU") == "card"
SIM_LIBRARIES = BUILD / "sim"
SHIM = BUILD / "lib/libparkade.so"
# How long anything may take that has no reason to take long, on a loaded machine under a sanitizer.
PATIENCE = 30.0

# A card's driver keeps or returns some memory of its own whenever it likes.
DRIVER_OWN_BYTES = 64 << 20 if ON_CARD else 0

SKIPPED = 77


class Skip(Exception):
    """The machine lacks what the scenario needs; the message says what."""


def wait_for(what, condition, deadline=PATIENCE):
    """Returns the first true value of `condition()`, or fails naming `what`."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:g} s: {what}")
        time.sleep(0.01)


def equal(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, must be {wanted!r}")


def holds(condition, what):
    if not condition:
        raise AssertionError(what)


def gone(pid):
    """Whether the process has ended (a zombie has)."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def disk():
    """A folder on a disk. A pause to disk refuses memory file systems and /tmp, wherever we were built."""
    named = os.environ.get("PARKADE_TEST_DISK")
    for folder in [named] if named else [BUILD, "/var/tmp"]:
        kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
        if kind not in ("tmpfs", "ramfs") and not os.path.realpath(folder).startswith("/tmp/"):
            return folder
    sys.exit("no folder on a disk outside /tmp: set PARKADE_TEST_DISK to one")


class App:
    """A program under test. Its standard output is read line by line, its errors go to a file."""

    def __init__(self, command, env, log):
        self.command = [str(word) for word in command]
        self.log = log
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                self.command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self.pid = self.process.pid
        self.next_step = 0
        self.said = []  # the lines that were waited for
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.decode(errors="replace").rstrip("\n"))
        self._lines.put(None)

    def line(self, deadline=PATIENCE):
        """The next line of output; fails at its end, showing the program's errors."""
        try:
            line = self._lines.get(timeout=deadline)
        except queue.Empty:
            raise AssertionError(f"pid {self.pid} said nothing for {deadline:g} s") from None
        if line is None:
            code = self.process.wait(PATIENCE)
            raise AssertionError(f"pid {self.pid} ended with {code}: {self.errors()}")
        self.said.append(line)
        return line

    def until(self, wanted, deadline=PATIENCE):
        """Waits for the line that begins so, and returns it."""
        while not (line := self.line(deadline)).startswith(wanted):
            pass
        return line

    def ready(self, deadline=PATIENCE):
        """Waits for the first line of stepper or verifier; from then on `pid` is what it says."""
        match = re.match(r"\w+ pid (\d+) ready: (\d+) buffers, (\d+) bytes", self.line(deadline))
        self.pid = int(match[1])
        self.buffers, self.bytes = int(match[2]), int(match[3])
        return self

    def say(self, line):
        """Gives the program a line of input."""
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def ask_step(self):
        """Lets stepper begin its next step, without waiting for it."""
        self.say("")

    def stepped(self, deadline=PATIENCE):
        """Waits for the step asked for: all bytes were right."""
        equal(self.line(deadline), f"step {self.next_step} ok bytes={self.bytes}", "stepper's line")
        self.next_step += 1

    def step(self, deadline=PATIENCE):
        self.ask_step()
        self.stepped(deadline)

    def finish(self):
        """Ends stepper's input and waits for its good end."""
        self.process.stdin.close()
        equal(self.line(), f"done after {self.next_step} steps, every byte right", "stepper's last line")
        equal(self.process.wait(PATIENCE), 0, "stepper's exit code")

    def end(self):
        """Ends the input of any other program and waits for its good end."""
        self.process.stdin.close()
        equal(self.process.wait(PATIENCE), 0, "exit code")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(PATIENCE)

    def errors(self):
        return pathlib.Path(self.log).read_text(errors="replace")


class CallFaults:
    """Faults of one process's own calls; see tests/apps/call_faults. `env` is for that process."""

    def __init__(self, node, name):
        if ON_CARD:
            raise Skip("the bundle has no preload that makes calls fail")
        self._file = node.root / f"{name}-faults"
        self._done = self._file.with_name(f"{self._file.name}.done")
        self.env = {
            "LD_PRELOAD": str(BUILD / "lib/libcall_faults.so"),
            "CALL_FAULTS": str(self._file),
            "CALL_FAULTS_FOLDER": str(node.root / "state"),
        }

    def arm(self, line):
        """What shall happen once, instead of what was said before."""
        self._done.unlink(missing_ok=True)
        fresh = self._file.with_name(f"{self._file.name}.new")
        fresh.write_text(f"{line}\n")
        fresh.rename(self._file)

    def disarm(self):
        """Whether what `arm` said has happened; it will not any more."""
        self._file.unlink(missing_ok=True)
        return self._done.exists()


class Node:
    """Folders, a daemon and programs that nobody else sees. Everything ends with the scenario."""

    def __init__(self, gpu_bytes="4G"):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="node-", dir=disk()))
        # A socket's path must be short.
        self.runtime = pathlib.Path(tempfile.mkdtemp(prefix="parkade-"))
        self.scratch = self.root / "scratch"
        for name in ("scratch", "state", "sim"):
            (self.root / name).mkdir()
        self.daemon = None
        self.apps, self.clients = [], []
        self._logs = 0
        if not ON_CARD:
            # In this process too: it asks the simulated NVML.
            os.environ.update(
                LD_LIBRARY_PATH=str(SIM_LIBRARIES),
                SIM_DIR=str(self.root / "sim"),
                SIM_GPU_BYTES=gpu_bytes,
                SIM_FAULTS=str(self.root / "faults"),
            )
        self.env = dict(os.environ, PARKADE_RUNTIME_DIR=str(self.runtime))

    def log(self, name):
        self._logs += 1
        return self.root / f"{self._logs:02}-{name}.log"

    # The daemon.

    def start_daemon(self, *flags, env=None, under=()):
        """`under`: a command that runs the daemon, as another user or in a namespace."""
        command = [*under, BUILD / "bin/parkaded", "--runtime-dir", self.runtime, "--state-dir", self.root / "state"]
        if "--scratch-dir" not in flags:
            command += ["--scratch-dir", self.scratch]
        self.daemon_log = self.log("daemon")
        with open(self.daemon_log, "wb") as log:
            self.daemon = subprocess.Popen(
                [str(word) for word in [*command, *flags]], env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_for("the daemon answers", self._daemon_answers)

    def _daemon_answers(self):
        if self.daemon.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.daemon.returncode}: {self.daemon_log.read_text()}")
        return self.cli("ps").code == 0

    def stop_daemon(self):
        """Orderly: returns its exit code."""
        self.daemon.terminate()
        return self.daemon.wait(PATIENCE)

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait(PATIENCE)

    # The command line.

    def cli(self, *words, deadline=120, under=()):
        """Runs `parkade WORDS`: a result with code, out and err."""
        done = subprocess.run(
            [*map(str, under), str(BUILD / "bin/parkade"), *map(str, words)],
            env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=deadline, check=False,
        )
        done.code, done.out, done.err = done.returncode, done.stdout, done.stderr
        return done

    def start_cli(self, *words):
        """Starts `parkade WORDS` and does not wait: its Popen, which says in stderr what went wrong."""
        process = subprocess.Popen(
            [str(BUILD / "bin/parkade"), *map(str, words)],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        self.clients.append(process)
        return process

    def expect(self, code, *words):
        """Runs `parkade WORDS` and checks its exit code. An error must be one sentence."""
        done = self.cli(*words)
        equal(done.code, code, f"exit code of parkade {' '.join(map(str, words))} ({done.err.strip()})")
        if code:
            equal(len(done.err.strip().splitlines()), 1, f"lines of the error {done.err!r}")
        return done

    def json(self, *words):
        return json.loads(self.expect(0, "-o", "json", *words).out)

    def processes(self):
        return self.json("ps")["processes"]

    def process(self, pid):
        """The daemon's view of one process, or None."""
        return next((p for p in self.processes() if p["pid"] == pid), None)

    def state(self, pid):
        found = self.process(pid)
        return found and found["state"]

    # Programs.

    def settled(self, pid):
        """The state of a process that moves no more and is connected: of one that is not, a new daemon repeats the last."""
        found = self.process(pid)
        return found["state"] if found and found["connected"] and found["state"] in ("running", "paused") else None

    def start(self, *command, env=None, park=True):
        """Starts a program, under `parkade run` unless told otherwise."""
        words = [BUILD / "bin/parkade", "run", "--", *command] if park else command
        app = App(words, {**self.env, **(env or {})}, self.log(pathlib.Path(str(command[0])).name))
        self.apps.append(app)
        return app

    def stepper(self, *options, env=None, park=True):
        """A stepper that waits for `step()`; listed by the daemon when one runs."""
        return self._ready(self.start(BUILD / "bin/stepper", "--on-input", *options, env=env, park=park), park)

    def verifier(self, *options, env=None, park=True):
        """The same with a verifier."""
        return self._ready(self.start(BUILD / "bin/verifier", *options, env=env, park=park), park)

    def _ready(self, app, park):
        app.ready()
        if park and self.daemon and self.daemon.poll() is None:
            wait_for("the daemon lists the program as running", lambda: self.state(app.pid) == "running")
        return app

    def faults(self, *lines):
        """What shall go wrong in the simulated driver, instead of what was said before; see tests/sim."""
        if ON_CARD:
            raise Skip("faults come from the simulated driver")
        fresh = self.root / "faults.new"
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.rename(self.root / "faults")  # at once: programs read it at any moment

    # What the scenarios look at.

    def gpu_free(self, gpu=0):
        """The driver's free bytes of a GPU, by NVML."""
        class Memory(ctypes.Structure):
            _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

        folder = "" if ON_CARD else f"{SIM_LIBRARIES}/"
        nvml = ctypes.CDLL(f"{folder}libnvidia-ml.so.1")
        device, memory = ctypes.c_void_p(), Memory()
        equal(nvml.nvmlInit_v2(), 0, "nvmlInit_v2")
        equal(nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)), 0, "nvmlDeviceGetHandleByIndex_v2")
        equal(nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)), 0, "nvmlDeviceGetMemoryInfo")
        return memory.free

    def gpu_free_is(self, wanted):
        return abs(self.gpu_free() - wanted) <= DRIVER_OWN_BYTES

    def scratch_entries(self, base=None):
        """What stands in a scratch base: directories of processes, by name."""
        root = pathlib.Path(base or self.scratch) / "parkade-v1"
        return sorted(entry.name for entry in root.iterdir()) if root.is_dir() else []

    def close(self):
        for app in self.apps:
            app.kill()
        for client in self.clients:
            client.kill()
            client.wait(PATIENCE)
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill_daemon()

    def print_logs(self):
        for log in sorted(self.root.glob("*.log")):
            text = log.read_text(errors="replace").strip()
            print(f"--- {log.name}\n{text[-4000:]}")

    def remove(self):
        shutil.rmtree(self.runtime, ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)


def card_is_there():
    try:
        return ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2() == 0
    except OSError:
        return False


def scenario(run, **node_options):
    """Gives `run` a Node, ends everything it started, and exits: 0, 1, or 77 when skipped."""
    if ON_CARD and not card_is_there():
        print("skipped: no NVIDIA GPU here")
        sys.exit(SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    node = Node(**node_options)
    code = 1
    try:
        run(node)
        code = 0
    except Skip as skip:
        print(f"skipped: {skip}")
        code = SKIPPED
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        print(f"{type(error).__name__}: {error}")
        node.print_logs()
        raise
    finally:
        node.close()
        node.remove()
    sys.exit(code)
