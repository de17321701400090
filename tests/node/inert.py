"""In a program without CUDA the preload is silent, starts no thread and adds next to no time."""

import os
import statistics
import subprocess
import time

import harness

# The requirement is 150 us on an idle machine; tests share two cores, so the median of interleaved
# runs gets some room.
MAX_ADDED_SECONDS = 400e-6
RUNS = 200


def seconds(env):
    begin = time.perf_counter()
    pid = os.posix_spawn("/bin/true", ["true"], env)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - begin
    harness.equal(status, 0, "exit status of true")
    return took


def output(command, env):
    """What a program that must succeed writes to its two outputs."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def run(_):
    preloaded = {"LD_PRELOAD": str(harness.SHIM)}
    harness.equal(output(["/bin/true"], preloaded), ("", ""), "output of true under the preload")

    count = "import os; print(len(os.listdir('/proc/self/task')))"
    threads = output(["python3", "-c", count], {**os.environ, **preloaded})
    harness.equal(threads, ("1\n", ""), "threads of a program without CUDA under the preload")

    # On a machine without CUDA a program that probes for the driver must still find none.
    probe = "import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError: print('none')\nelse: print('found')"
    for library_path in ("", str(harness.SIM_LIBRARIES)):
        env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": library_path}
        bare = output(["python3", "-c", probe], env)
        harness.equal(output(["python3", "-c", probe], {**env, **preloaded}), bare, "a probe for libcuda under the preload")

    # The command line is such a program too: a launcher under `parkade run` may use it for its ranks.
    park = [harness.BUILD / "bin/parkade", "run", "--"]
    harness.equal(output([*park, *park, "echo", "ran"], os.environ), ("ran\n", ""), "a run inside a run")

    pairs = [(seconds({}), seconds(preloaded)) for _ in range(RUNS)]
    added = statistics.median(with_it - without for without, with_it in pairs)
    print(f"true takes {added * 1e6:.0f} us longer under the preload (median of {RUNS} pairs)")
    harness.holds(added < MAX_ADDED_SECONDS, f"{added * 1e6:.0f} us added to true are too many")


harness.scenario(run)
