"""A program that pins much host memory beside what Parkade moves for it, or has loaded another offloader, is told of by
`show`; one that does neither is not. Nothing changes for them."""

import shutil

import harness

LIBRARY = harness.BUILD / "lib/libmemory_saver.so"  # in torch_memory_saver's manner
PROGRAM = harness.TREE / "tests/apps/foreign.py"
GIB = 1 << 30


def warnings(node, app):
    return node.json("show", app.pid)["process"].get("warnings", [])


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("the bundle has no other offloader")
    node.start_daemon()
    ordinary = node.stepper("--buffers", 1, "--bytes", "8M")
    saver = node.root / "torch_memory_saver_like.so"
    shutil.copyfile(LIBRARY, saver)
    loaded = node.stepper("--buffers", 1, "--bytes", "8M", env={"LD_PRELOAD": str(saver)})
    pinning = node.start("python3", PROGRAM)
    harness.equal(pinning.line(), "ready", "first line of the program")
    pinning.say(f"pin {GIB}")
    harness.equal(pinning.line(), "made", "its answer")
    harness.equal([w for w in warnings(node, ordinary) if "twice" in w], [], "warnings of an ordinary program")
    (sign,) = [w for w in warnings(node, loaded) if "twice" in w]
    harness.holds(sign.startswith("torch_memory_saver"), f"the sign: {sign}")
    (sign,) = harness.wait_for("what is pinned is told of", lambda: [w for w in warnings(node, pinning) if "twice" in w])
    harness.holds("pinned 1.0 GiB" in sign, f"the sign: {sign}")
    for app in (ordinary, loaded):
        node.expect(0, "pause", app.pid)
        node.expect(0, "resume", app.pid)
        app.step()
        app.finish()
    pinning.say("unpin")
    harness.equal(pinning.line(), "freed", "its answer")
    harness.equal([w for w in warnings(node, pinning) if "twice" in w], [], "warnings afterwards")
    pinning.end()


harness.scenario(run)
