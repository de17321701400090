"""Other people's libraries in the process, before and behind the shim, change nothing: malloc libraries, a hook in
torch_memory_saver's manner, the shim twice. What goes past the shim, or forbids it virtual memory, is said."""

import glob
import pathlib
import shutil

import harness

LIBRARIES = harness.BUILD / "lib"
# Debian's packages of them, where they are installed.
MALLOCS = [m for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4") for m in glob.glob(f"/usr/lib/*/{name}")]


def preloads(node, *libraries, doors):
    """A program of each door with these preloaded moves there and back with its bytes right."""
    for door in doors:
        env = {"LD_PRELOAD": ":".join(map(str, libraries))}
        app = node.stepper("--door", door, "--buffers", 7, "--bytes", "1,4K,3M,40M", env=env)
        words = f"{door} under {env['LD_PRELOAD']}"
        mapped = pathlib.Path(f"/proc/{app.pid}/maps").read_text()
        for library in libraries:
            harness.holds(str(pathlib.Path(library).resolve()) in mapped, f"{library} is in the process")
        harness.equal([p["pid"] for p in node.processes()], [app.pid], f"listed, {words}")
        harness.equal(len(node.json("show", app.pid)["allocations"]), 7, f"allocations, {words}")
        app.step()
        for policy in ("host", "disk"):
            node.expect(0, "pause", app.pid, "--policy", policy)
            places = {a["place"] for a in node.json("show", app.pid)["allocations"]}
            harness.equal(places, {policy}, f"where the bytes are, {words}")
            node.expect(0, "resume", app.pid)
            app.step()
        app.finish()
        harness.wait_for("it is forgotten", lambda: not node.processes())
        yield door, app


def both_sides(node, other, doors):
    for libraries in ([other, harness.SHIM], [harness.SHIM, other]):
        yield from preloads(node, *libraries, doors=doors)


def twice(node):
    """By a link and as a copy: one registration, and one heap."""
    link, copy = node.root / "linked-parkade.so", node.root / "copied.so"
    link.symlink_to(harness.SHIM)
    shutil.copy(harness.SHIM, copy)
    for other in (link, copy):
        for _ in preloads(node, harness.SHIM, other, doors=["linked"]):
            pass
    for _ in preloads(node, harness.SHIM, LIBRARIES / "libmemory_saver.so", copy, doors=["linked"]):
        pass


def refused(node):
    """A wrapper underneath without virtual memory: native memory, counted, and said; it pauses with nothing to move."""
    env = {"LD_PRELOAD": f"{harness.SHIM}:{LIBRARIES}/libshare_gpu.so"}
    app = node.stepper("--buffers", 4, "--bytes", "1M,40M", env=env)
    app.step()
    shown = node.json("show", app.pid)
    harness.equal(shown["allocations"], [], "allocations that could move")
    harness.holds(sum(d["foreign_bytes"] for d in shown["process"]["devices"]) >= app.bytes, "the bytes are counted")
    said = [w for w in shown["process"]["warnings"] if "virtual memory is refused here (CUDA_ERROR_NOT_SUPPORTED)" in w]
    harness.equal(len(said), 1, f"times it is said in {shown['process']['warnings']}")
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    app.step()
    app.finish()


def escapes(node):
    """Files that come after the first context too."""
    copy = node.root / "libcuda.so.1"
    shutil.copy(harness.SIM_LIBRARIES / "libcuda.so.1", copy)
    app = node.start("python3", harness.TREE / "tests/apps/loading.py")
    app.until("ready")
    harness.wait_for("it is listed", lambda: node.state(app.pid) == "running")

    def warnings():
        return node.json("show", app.pid)["process"].get("warnings", [])

    harness.equal(warnings(), [], "what is said before")
    app.say(f"plain {LIBRARIES}/libmemory_saver.so")
    app.until("loaded")
    harness.equal(warnings(), [], "what is said of a library that binds as others do")
    app.say(f"deep {LIBRARIES}/libdeep.so")
    app.until("loaded")
    app.say(f"plain {copy}")
    app.until("loaded")
    harness.equal(
        warnings(),
        [
            f"{LIBRARIES}/libdeep.so has dlsym bound past the shim (RTLD_DEEPBIND?): its CUDA calls are not seen",
            f"{copy} is a second driver library: calls that go straight to it are not seen",
        ],
        "what is said of what goes past the shim",
    )
    app.kill()


def run(node):
    if harness.ON_CARD or not (LIBRARIES / "libtiny_malloc.so").exists():
        raise harness.Skip("the bundle has none of the libraries that stand beside the shim")
    node.start_daemon()
    for other in [LIBRARIES / "libtiny_malloc.so", *MALLOCS]:
        for _ in both_sides(node, other, ["getproc"]):
            pass
    for door, app in both_sides(node, LIBRARIES / "libmemory_saver.so", ["linked", "dlopen", "getproc"]):
        if door == "linked":
            harness.holds("memory_saver: " in app.errors(), "the hook beside the shim was called too")
    twice(node)
    refused(node)
    escapes(node)


harness.scenario(run)
