"""One program for each door that only a card has: the runtime in a program and beside it, Triton, torch.compile,
cuBLASLt, cuDNN, cuSOLVER, CuPy, JAX with and without its pool. Each one's 64 MiB are listed, leave the GPU, come
back, and compute the same bytes as before. What is not installed is named as skipped.

usage: doors_card.py [DOOR...]"""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "node"))
import harness  # noqa: E402

SIZE = 64 << 20
START = 400.0  # importing and compiling, many at once from a cold disk
# A pool may be smaller than the library says: it rounds to the driver's granularity.
ROUNDING = 2 << 20
CTYPES = HERE.parent / "apps/adding.py"
TOOLKIT = "/usr/local/cuda/lib64"  # where a toolkit keeps libcudart.so

# Door: the package that it needs, the program, its arguments.
PYTHON_DOORS = {
    "ctypes": (None, CTYPES),
    "triton": ("torch", HERE / "door_torch.py", "triton"),
    "torch_compile": ("torch", HERE / "door_torch.py", "compile"),
    "cublaslt": ("torch", HERE / "door_torch.py", "cublaslt"),
    "cudnn": ("torch", HERE / "door_torch.py", "cudnn"),
    "cusolver": ("torch", HERE / "door_torch.py", "cusolver"),
    "cupy": ("cupy", HERE / "door_cupy.py"),
    "jax_platform": ("jax", HERE / "door_jax.py", "platform"),
    "jax_pool": ("jax", HERE / "door_jax.py", "pool"),
}
RUNTIME_DOORS = {"static_runtime": "static", "shared_runtime": "shared"}


def is_listed(node, app, size, door):
    """Fails unless one allocation has that size, or all together have that of a pool."""
    found = [a["bytes"] for a in node.json("show", app.pid)["allocations"]]
    right = SIZE in found if size == SIZE else sum(found) >= size - ROUNDING
    harness.holds(right, f"{door} holds {size} bytes and is listed with {found}")


def moves(node, app, size, door):
    """Pauses to the host; what the driver then has free, and where the bytes are; and resumes."""
    requested = sum(d["requested_bytes"] for d in node.process(app.pid)["devices"])
    harness.holds(requested >= size, f"ps counts {requested} bytes of {door}")
    free = node.gpu_free()
    node.expect(0, "pause", app.pid)
    freed = node.gpu_free() - free
    harness.holds(freed >= size - harness.DRIVER_OWN_BYTES // 16, f"{door}: {freed} bytes came free")
    places = {a["place"] for a in node.json("show", app.pid)["allocations"] if a["class"] == "pausable"}
    harness.equal(places, {"host"}, f"where the bytes of {door} are")
    node.expect(0, "resume", app.pid)


def runtime_door(node, door):
    """None, or why it is skipped."""
    program = harness.BUILD / f"bin/runtime_stepper_{RUNTIME_DOORS[door]}"
    if not program.exists():
        return "the build found no nvcc"
    env = {"LD_LIBRARY_PATH": TOOLKIT} if door == "shared_runtime" else {}
    app = node.start(program, SIZE, env=env).ready()
    harness.wait_for(f"{door} is listed", lambda: node.state(app.pid) == "running")
    is_listed(node, app, SIZE, door)
    app.step()
    moves(node, app, SIZE, door)
    app.step()
    app.finish()
    return None


def first_line(app):
    try:
        return app and app.line(START)
    except AssertionError as error:
        return error


def started(node, door):
    """A program of a Python door on its way, or None where its package is missing."""
    package, *command = PYTHON_DOORS[door]
    if package and importlib.util.find_spec(package) is None:
        return None
    return node.start(sys.executable, *command)


def python_door(node, door, app, first):
    """None, or why it is skipped. `first`: what the program said, or why it did not."""
    if app is None:
        return f"{sys.executable} has no {PYTHON_DOORS[door][0]}"
    if isinstance(first, AssertionError):
        raise first
    word, _, rest = first.partition(" ")
    if word == "missing":
        return rest
    harness.equal(word, "ready", f"what {door} said first")
    size = int(rest)
    harness.wait_for(f"{door} is listed", lambda: node.state(app.pid) == "running")
    is_listed(node, app, size, door)
    app.ask_step()
    before = app.line(START)
    harness.holds(before.startswith("result "), f"what {door} computes: {before}")
    moves(node, app, size, door)
    app.ask_step()
    harness.equal(app.line(START), before, f"what {door} computes after the resume")
    app.process.stdin.close()
    harness.equal(app.process.wait(START), 0, f"exit code of {door}")
    return None


def run(node):
    if not harness.ON_CARD:
        raise harness.Skip("these doors need a card")
    wanted = sys.argv[1:] or [*RUNTIME_DOORS, *PYTHON_DOORS]
    node.start_daemon()
    # All at once, since most of the time goes into starting; then nobody else is at work while one is measured.
    apps = {door: started(node, door) for door in wanted if door in PYTHON_DOORS}
    first = {door: first_line(app) for door, app in apps.items()}
    shown, failed = 0, []
    for door in wanted:
        try:
            reason = python_door(node, door, apps[door], first[door]) if door in apps else runtime_door(node, door)
        except AssertionError as error:
            failed.append(f"{door}: {error}")
            continue
        shown += reason is None
        print(f"{door}: skipped, {reason}" if reason else f"{door}: ok", flush=True)
    # In the message, which stands behind the logs.
    harness.holds(not failed, "doors that failed:\n" + "\n".join(failed))
    if shown == 0:
        raise harness.Skip("none of these doors is here")


harness.scenario(run)
