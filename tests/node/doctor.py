"""`parkade doctor` tells what is in the way of pauses: no daemon, sockets that are closed, a directory that has gone,
and processes without the library with the reason; it changes nothing, and is content with a node that has all."""

import json
import os
import signal

import harness


def look(node, *options, code=0, env=None):
    words = [harness.BUILD / "bin/parkade", "-o", "json", "doctor", *options]
    done = harness.subprocess.run(list(map(str, words)), env={**node.env, **(env or {})}, stdin=harness.subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=120, check=False)
    harness.equal(done.returncode, code, f"exit code of doctor ({done.stderr})\n{done.stdout}")
    return json.loads(done.stdout)["findings"]


def the(findings, part):
    found = [f for f in findings if part in f["finding"]]
    harness.equal(len(found), 1, f"findings with {part!r} in {json.dumps(findings, indent=1)}")
    return found[0]


def run(node):
    without = look(node, code=1)
    harness.equal(the(without, "no daemon answers")["fix"], "sudo systemctl enable --now parkaded", "how a daemon is started")
    harness.equal(the(without, "virtual memory management")["level"], "ok", "the simulated driver can be managed")

    node.start_daemon()
    for finding in look(node):
        harness.holds(finding["level"] != "error", f"nothing is wrong here: {finding}")
    app = node.stepper("--buffers", 2, "--bytes", "1M")
    bare = node.stepper("--buffers", 1, "--bytes", "1M", park=False)
    clean = node.stepper("--buffers", 1, "--bytes", "1M", park=False,
                         env={"LD_PRELOAD": "", "NCCL_NVLS_ENABLE": "0"})
    before = node.processes()
    found = look(node)
    harness.holds("parkade run -- " in the(found, f"process {bare.pid} ")["fix"], "how one without the library is started")
    harness.equal(the(found, f"process {clean.pid} ")["level"], "warning", "one that uses the driver without the library")
    beneath = look(node, "--pid", app.pid)
    harness.holds(the(beneath, f"beneath {app.pid} have libparkade.so")["finding"].startswith("1 "), "the one that has it")
    harness.holds(not [f for f in found if f"process {app.pid} " in f["finding"]], "nothing is said of one that has it")
    harness.equal(node.processes(), before, "the processes after a look")
    harness.equal(list(node.scratch.iterdir()), [], "the scratch directory after a look")

    # A launcher that has the library and hands a clean environment on.
    launcher = node.start("/bin/sh", "-c", f"env -u LD_PRELOAD {harness.BUILD / 'bin/stepper'} --on-input --buffers 1 --bytes 1M & wait")
    child = harness.wait_for("its child", lambda: next(
        (f for f in look(node, "--pid", launcher.pid) if "uses the driver without libparkade.so" in f["finding"]), None))
    harness.holds(f"process {launcher.pid} above it has LD_PRELOAD" in child["finding"], f"why: {child}")
    harness.holds(child["fix"].startswith("env LD_PRELOAD="), f"what mends it: {child}")
    os.kill(int(child["finding"].split()[1]), signal.SIGKILL)

    (node.runtime / "shim.sock").chmod(0o600)
    harness.equal(the(look(node), "is not open to every user")["level"], "warning", "a socket that others cannot use")
    (node.runtime / "shim.sock").chmod(0o666)
    node.scratch.rmdir()
    harness.equal(the(look(node, code=1), str(node.scratch))["level"], "error", "a directory that has gone")
    node.scratch.mkdir()
    app.step()
    app.finish()
    for other in (bare, clean):
        other.finish()


harness.scenario(run)
