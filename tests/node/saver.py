"""A program that calls torch_memory_saver's functions pauses and resumes its regions by tag, with a daemon and without; bad
arguments, a GPU without room and a pause from outside in between are answers, and nothing is lost."""

import harness
from saver_program import INVALID_VALUE, LIBRARY, MIB, NOT_SUPPORTED, OUT_OF_MEMORY, Saver, with_and_without_daemon

WEIGHTS, CACHE, SMALL, NATIVE = 48 * MIB, 70 * MIB, 3 * MIB, 20 * MIB
SMALL_HANDLE = 4 * MIB  # a handle of its own, rounded up as any


def engine(node, **options):
    saver = Saver(node, **options)
    saver.region("weights", host=True)
    saver.tell(f"allocate model {WEIGHTS}", "allocated")
    saver.tell(f"allocate bias {SMALL}", "allocated")
    saver.region("kv_cache")
    saver.tell(f"allocate cache {CACHE}", "allocated")
    saver.outside()
    saver.tell(f"allocate native {NATIVE}", "allocated")
    return saver


def by_tag(node):
    saver = engine(node)
    saver.tell("early", "0 0")
    saver.frees("pause kv_cache", CACHE)
    saver.right("model", "bias", "native")
    saver.frees("pause weights", WEIGHTS + SMALL_HANDLE)
    for again in ("pause weights", "pause -", "pause no_such"):
        saver.frees(again, 0)
    saver.frees("resume weights", -WEIGHTS - SMALL_HANDLE)
    saver.right("model", "bias", "native")
    saver.tell("update model", "updated")
    for again in ("resume weights", "resume no_such"):
        saver.frees(again, 0)
    saver.frees("resume kv_cache", -CACHE)
    saver.frees("resume -", 0)
    saver.tell("check cache", "wrong")  # without a backup its bytes are dropped
    saver.tell("update cache", "updated")
    # All at once, new memory and freed memory among it.
    saver.region("default", host=True)
    saver.tell(f"allocate more {33 * MIB + 5}", "allocated")
    saver.frees("pause -", WEIGHTS + SMALL_HANDLE + CACHE + 34 * MIB)
    saver.tell("free bias", "freed")
    saver.tell(f"allocate late {SMALL}", "allocated")
    saver.frees("resume ", -WEIGHTS - CACHE - 34 * MIB)
    saver.right("model", "more", "late", "native")
    saver.app.end()


def running_kernel(node):
    """What reads the memory ends before it leaves."""
    saver = engine(node)
    for policy in ("weights", "-"):
        saver.tell("update cache", "updated")
        saver.tell("spin model 300", "running")
        saver.tell(f"pause {policy}", 0)
        saver.tell(f"resume {policy}", 0)
        saver.right("model", "bias", "native")
    saver.app.end()


def threads(node):
    """Each has settings of its own, which begin as the environment says."""
    saver = Saver(node, env={"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "yes", "TMS_INIT_CPU_BACKUP_BACKEND": "mmap"})
    saver.region("weights")
    saver.tell("set cpu_backup_backend pinned", "pinned")
    saver.tell(f"thread set current_tag cache and allocate one {SMALL}", "cache allocated")
    saver.tell(f"thread set cpu_backup_backend odd and allocate two {SMALL}", "mmap allocated")
    saver.tell(f"thread set interesting_region off and allocate three {SMALL}", "off allocated")
    saver.tell(f"allocate four {SMALL}", "allocated")
    saver.frees("pause default", SMALL_HANDLE)
    saver.frees("pause cache", SMALL_HANDLE)
    saver.frees("pause -", SMALL_HANDLE)
    saver.tell("copy two", "right")
    saver.frees("resume -", -3 * SMALL_HANDLE)
    saver.right("one", "two", "three")
    saver.tell("check four", "wrong")
    saver.app.end()


def library_in_region(node):
    """What cuBLAS and its kin keep in GPU memory is none of a region's, as with torch_memory_saver: it has no backup."""
    saver = Saver(node)
    saver.region("kv_cache")
    saver.tell(f"library workspace {NATIVE} {harness.BUILD}/lib/libcublas_like.so", "allocated")
    saver.tell(f"allocate cache {CACHE}", "allocated")
    saver.frees("pause -", CACHE)
    saver.right("workspace")
    saver.tell("resume -", 0)
    saver.right("workspace")
    saver.app.end()


def switched_off(node):
    """Who has switched Parkade off hears that nothing is paused."""
    saver = Saver(node, env={"PARKADE": "off"})
    saver.region("weights")
    saver.tell(f"allocate model {WEIGHTS}", "allocated")
    saver.tell("pause -", NOT_SUPPORTED)
    saver.tell("resume weights", NOT_SUPPORTED)
    saver.right("model")
    saver.app.end()


def bad_words(node):
    saver = engine(node)
    saver.region("kept", host=True)
    for tag in ("NULL", "two words", "x" * 32):
        saver.tell(f"set current_tag {tag}", "kept")
    saver.tell(f"set current_tag {'x' * 31}", "x" * 31)
    for backend in ("NULL", "disk"):
        saver.tell(f"set cpu_backup_backend {backend}", "pinned")
    saver.tell("set enable_disk_backup on", "on")
    saver.tell(f"allocate both {SMALL}", INVALID_VALUE)
    for word in ("pause", "resume"):
        saver.tell(f"{word} {'x' * 32}", INVALID_VALUE)
        saver.tell(f"{word} kv_cache,weights", INVALID_VALUE)
    saver.tell("devices weights", [0])
    saver.tell("devices no_such", [])
    saver.right("model", "bias", "native")
    saver.app.end()


def margin(node):
    """Memory that a region asks for leaves the margin free, and other memory need not."""
    saver = Saver(node)
    saver.region("weights", host=True)
    for left in (64 * MIB, 1 << 63):
        saver.tell(f"set margin {left}", "set")
        saver.tell(f"allocate model {node.gpu_free() - 32 * MIB}", OUT_OF_MEMORY)
    saver.tell(f"allocate small {MIB}", OUT_OF_MEMORY)
    saver.outside()
    saver.tell(f"allocate native {NATIVE}", "allocated")
    saver.region("weights", host=True)
    saver.tell(f"set margin {64 * MIB}", "set")
    saver.tell(f"allocate model {WEIGHTS}", "allocated")
    saver.app.end()


def without_room(node):
    """A resume that finds none is an answer; everything stays in its backup, and the next one succeeds."""
    saver = engine(node)
    saver.tell("pause -", 0)
    taker = node.stepper("--buffers", 1, "--bytes", str(node.gpu_free() - WEIGHTS), park=False)
    saver.tell("resume -", OUT_OF_MEMORY)
    saver.tell("resume kv_cache", OUT_OF_MEMORY)
    saver.tell("copy model", "right")
    saver.tell("copy bias", "right")
    saver.right("native")
    taker.finish()
    saver.tell("resume -", 0)
    saver.right("model", "bias", "native")
    saver.app.end()


def by_name(node):
    """The library's plain name leaves such calls without effect; a second name for the same file gives them theirs."""
    saver = Saver(node, preload=f"{LIBRARY.with_name('libparkade.so')}:{LIBRARY}")
    saver.region("weights", host=True)
    saver.tell(f"allocate model {WEIGHTS}", "allocated")
    saver.frees("pause weights", WEIGHTS)
    saver.tell("resume weights", 0)
    saver.right("model")
    saver.app.end()


def beside_the_daemon(node):
    """What it is told from outside, and what the program does itself, come one after the other."""
    saver = engine(node)
    harness.wait_for("it is listed", lambda: node.state(saver.pid) == "running")
    shown = node.json("show", saver.pid)
    harness.equal(sorted(a["bytes"] for a in shown["allocations"]), [SMALL, WEIGHTS, CACHE], "what can move")
    harness.holds(sum(d["foreign_bytes"] for d in shown["process"]["devices"]) >= NATIVE, "the native bytes are counted")

    def places():
        return {a["tag"]: a["place"] for a in node.json("show", saver.pid)["allocations"]}

    saver.tell("pause kv_cache", 0)
    process = node.process(saver.pid)
    harness.equal((process["state"], process["gate_mode"]), ("paused", "open"), "state and gate")
    harness.equal(places(), {"weights": "gpu", "kv_cache": "discarded"}, "places")
    # From outside the rest leaves too, and the program's own calls wait for their turn.
    node.expect(0, "pause", saver.pid)
    harness.equal(places(), {"weights": "host", "kv_cache": "discarded"}, "places")
    saver.app.say("resume weights")
    harness.wait_for("it waits at the gate", lambda: node.process(saver.pid)["gated_threads"] == 1)
    node.expect(0, "resume", saver.pid)
    harness.equal(saver.app.line(), "0", "its answer")
    harness.equal(node.state(saver.pid), "running", "state")
    saver.right("model", "bias")
    saver.tell("resume -", 0)
    # The other way round: what the program has paused comes back from outside.
    saver.tell("update cache", "updated")
    saver.tell("pause weights", 0)
    node.expect(0, "resume", saver.pid, "--tags", "weights")
    harness.equal(node.state(saver.pid), "running", "state")
    saver.right("model", "bias", "cache")
    # The daemon ends, and the next one finds what is out.
    saver.tell("pause -", 0)
    node.kill_daemon()
    saver.tell("resume weights", 0)
    saver.right("model", "bias")
    node.start_daemon()
    harness.wait_for("the next daemon adopts it", lambda: node.settled(saver.pid) == "paused")
    node.expect(0, "resume", saver.pid)
    saver.right("model", "bias", "native")
    saver.app.end()


PARTS = [by_tag, running_kernel, threads, switched_off, bad_words, margin, by_name]
PARTS += [] if harness.ON_CARD else [library_in_region, without_room]  # a bundle has no such library


def run(node):
    with_and_without_daemon(*PARTS)(node)
    beside_the_daemon(node)


harness.scenario(run, gpu_bytes="1G")
