"""Tools that enter a process (torch.profiler by CUPTI, compute-sanitizer, cuda-gdb) begin and end under the shim. Where the
shim stays at work the process is paused and resumed in the middle; where it does not, nothing is listed."""

import importlib.util
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

TORCH = pathlib.Path(__file__).with_name("profile_torch.py")
STEPPER = harness.BUILD / "bin/runtime_stepper_static"
START = 300.0  # importing PyTorch from a cold disk, or a debugger reading symbols


def tool(name):
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def torch_profiler(node):
    app = node.start(sys.executable, TORCH)
    app.pid = int(app.line(START).split()[-1])
    harness.wait_for("it is listed", lambda: node.state(app.pid) == "running")
    lines = []
    for policy in (None, "host", "disk"):
        if policy:
            node.expect(0, "pause", app.pid, "--policy", policy)
            node.expect(0, "resume", app.pid)
        app.ask_step()
        lines.append(app.until("sum", START))
    app.say("end")
    kernels = int(app.until("kernels", START).split()[1])
    harness.equal(len(set(lines)), 1, f"one result in {lines}")
    harness.holds(kernels >= 3, f"the profiler saw {kernels} kernels")
    harness.equal(app.process.wait(60.0), 0, "exit code")


def under(node, *words):
    """runtime_stepper under a tool that wraps it: its steps, with pauses where it is listed."""
    app = node.start(*words, STEPPER)
    ready = app.until("stepper pid", START)
    app.pid, app.bytes = int(ready.split()[2]), int(ready.split()[-2])
    listed = node.state(app.pid) == "running"
    for policy in (None, "host", "disk"):
        if policy and listed:
            node.expect(0, "pause", app.pid, "--policy", policy)
            node.expect(0, "resume", app.pid)
        app.ask_step()
        app.until(f"step {app.next_step} ok", START)
        app.next_step += 1
    app.process.stdin.close()
    app.until("done after", START)
    app.process.wait(120.0)
    print(f"{pathlib.Path(words[0]).name}: {'paused in the middle' if listed else 'not listed: the shim stepped aside'}")
    return app


def sanitizer(node, path):
    app = under(node, path, "--tool", "memcheck")
    report = " ".join(app.said) + app.errors()
    harness.equal(app.process.returncode, 0, f"exit code of compute-sanitizer: {report[-2000:]}")


def debugger(node, path):
    app = under(node, path, "--batch", "-ex", "run", "--args")
    harness.equal(app.process.returncode, 0, f"exit code of cuda-gdb: {app.errors()[-2000:]}")


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("profilers and debuggers need a card")
    node.start_daemon()
    ran = []
    if importlib.util.find_spec("torch") is not None:
        torch_profiler(node)
        ran.append("torch.profiler")
    if STEPPER.exists():
        for name, try_it in (("compute-sanitizer", sanitizer), ("cuda-gdb", debugger)):
            if (path := tool(name)) is not None:
                try_it(node, path)
                ran.append(name)
    if not ran:
        raise harness.Skip("neither PyTorch nor compute-sanitizer nor cuda-gdb is here")
    print("ran under " + ", ".join(ran))


harness.scenario(run)
