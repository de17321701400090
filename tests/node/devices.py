"""One process with two GPUs: allocations, frees and pauses with any device current or none, contexts destroyed and devices
reset while memory lives, running and paused. Every answer is that of the same calls without Parkade. Needs two GPUs."""

import harness

PROGRAM = harness.TREE / "tests/apps/devices.py"
TWO = {"SIM_GPUS": "2"}
LARGE, SMALL = 40 << 20, 4096

# What the program is told; "pause" and "resume" are for the one that can be paused.
SCRIPT = f"""
use 0
alloc {LARGE}
alloc {SMALL}
use 1
alloc {LARGE}
alloc {SMALL}
use none
alloc {SMALL}
thread alloc {SMALL}
device 0
use 0
device 2
device 3
set 0 10
set 1 11
set 2 12
set 3 13
check 2 12
pause host
resume
check 0 10
check 3 13
use 1
check 0 10
check 1 11
check 2 12
use none
check 0 10
set 0 99
thread check 2 12
pause disk
device 2
resume
thread device 3
use 1
check 0 10
free 1
use 0
free 3
check 2 12
thread free 2
alloc {LARGE}
use none
free 0
use 1
make 1
alloc {LARGE}
alloc {SMALL}
set 7 17
pause host
resume
check 7 17
use 0
check 7 17
destroy
use 0
check 7 17
device 7
free 7
pause host
resume
use 1
alloc {LARGE}
set 9 19
check 9 19
make 1
alloc {LARGE}
set 10 20
use 0
alloc {LARGE}
set 11 21
pause disk
destroy
resume
check 11 21
use 1
check 9 19
reset 1
retain 1
check 9 19
device 9
alloc {LARGE}
set 12 22
pause host
reset 1
resume
retain 1
check 12 22
alloc {LARGE}
set 13 23
check 13 23
use 0
check 11 21
pause host
resume
check 11 21
use 1
check 13 23
free 13
use 0
free 11
"""


def bare(node):
    """What the program says to each line without Parkade; None where there is one GPU alone."""
    app = node.start("python3", PROGRAM, env=TWO, park=False)
    first = app.line()
    if first != "ready":
        raise harness.Skip(first)
    answers = []
    for line in SCRIPT.split("\n"):
        if line and line.split()[0] not in ("pause", "resume"):
            app.say(line)
            answers.append(app.line())
    app.kill()
    return answers


def run(node):
    wanted = iter(bare(node))
    node.start_daemon(env=TWO)
    app = node.start("python3", PROGRAM, env=TWO)
    harness.equal(app.line(), "ready", "first line of the program")
    harness.wait_for("it is listed as running", lambda: node.state(app.pid) == "running")
    said, pauses = [], 0
    for line in SCRIPT.split("\n"):
        verb, *words = line.split() or [""]
        if verb == "pause":
            done = node.json("pause", app.pid, "--policy", words[0])["results"][0]
            harness.equal(done["kept_bytes"], 0, f"bytes kept by pause {pauses}")
            pauses += 1
        elif verb == "resume":
            node.expect(0, "resume", app.pid)
        elif verb:
            app.say(line)
            said.append((line, app.line(), next(wanted)))
    different = [f"{line}: {parked!r}, bare {alone!r}" for line, parked, alone in said if parked != alone]
    harness.equal(different, [], "answers that differ")
    codes = {answer.split()[0] for _, answer, _ in said}
    harness.holds({"0", "1", "201"} <= codes, f"codes that came: {codes}")
    harness.equal(pauses, 7, "pauses")
    harness.wait_for(
        "nothing is left allocated",
        lambda: all(d["requested_bytes"] == 0 for d in node.json("show", app.pid)["process"]["devices"][1:]),
    )


harness.scenario(run)
