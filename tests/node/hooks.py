"""A program's hooks run before a pause and after the resume; one that fails or takes too long is named, and the program
runs on."""

import sys
import time

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/hooking.py"
NEEDED = 8 << 20


def tell(app, line, wanted):
    app.say(line)
    harness.equal(app.line(), wanted, line)


def run(node):
    node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
    python_package.load()
    node.start_daemon()
    environment = {"PYTHONPATH": str(harness.BUILD / "python")}
    app = node.start(sys.executable, PROGRAM, env=environment)
    app.until("ready")

    (result,) = node.json("pause", app.pid)["results"]
    harness.equal(int(result["host_bytes"]), NEEDED, "bytes moved: the cache is not among them")
    node.expect(0, "pause", app.pid)  # is paused already
    node.expect(0, "resume", app.pid)
    tell(app, "calls", "calls drop take")

    tell(app, "fail 0 1", "will")
    refused = node.expect(4, "pause", app.pid).err
    harness.holds("HOOK_FAILED" in refused and "hook drop returned 1" in refused, refused)
    harness.equal(node.state(app.pid), "running", "state after a hook that raised")
    tell(app, "calls", "calls drop take")

    tell(app, "fail 3 1", "will")
    begin = time.monotonic()
    refused = node.expect(4, "pause", app.pid).err
    harness.holds("HOOK_TIMEOUT" in refused and "hook drop" in refused, refused)
    harness.holds(time.monotonic() - begin < 2.5, "the pause did not wait for the hook")
    harness.equal(node.state(app.pid), "running", "state after a hook that took too long")
    node.expect(4, "pause", app.pid)  # it still runs
    time.sleep(3)
    tell(app, "calls", "calls drop take")
    node.expect(0, "pause", app.pid)
    node.expect(0, "resume", app.pid)
    tell(app, "calls", "calls drop take")

    tell(app, "remove", "removed")
    (result,) = node.json("pause", app.pid)["results"]
    harness.holds(int(result["host_bytes"]) > NEEDED, "without hooks the cache is moved")
    node.expect(0, "resume", app.pid)
    tell(app, "calls", "calls")
    app.end()


harness.scenario(run)
