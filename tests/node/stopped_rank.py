"""A rank that is stopped (SIGSTOP) and answers nothing makes the pause of its job fail in time, by name; the
others run on, and `parkade ps` is not held up."""

import signal
import time

import harness

# Drain timeout, five seconds for an answer, ten for that of the undo.
MAX_SECONDS = 25.0


def run(node):
    node.start_daemon()
    ranks = [node.stepper(env={"PARKADE_JOB": "job", "RANK": str(rank)}) for rank in range(2)]
    for app in ranks:
        app.step()
    ranks[1].process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    pause = node.start_cli("pause", "--job", "job", "--drain-timeout", "1s")
    harness.wait_for("the pause is under way", lambda: node.state(ranks[0].pid) != "running")
    asked = time.monotonic()
    node.expect(0, "ps")
    harness.holds(time.monotonic() - asked < 1.0, "parkade ps must not wait for the stopped rank")
    _, error = pause.communicate(timeout=MAX_SECONDS)
    harness.holds(pause.returncode != 0, "a pause of a stopped rank must fail")
    harness.holds(str(ranks[1].pid) in error, f"the error must name the rank: {error.strip()}")
    harness.holds(time.monotonic() - begin < MAX_SECONDS, "the pause must end in time")
    harness.equal(node.state(ranks[0].pid), "running", "state of the other rank")
    ranks[0].step()

    ranks[1].process.send_signal(signal.SIGCONT)
    harness.wait_for("it is back", lambda: (p := node.process(ranks[1].pid)) and p["connected"] and p["state"] == "running")
    node.expect(0, "pause", "--job", "job")
    node.expect(0, "resume", "--job", "job")
    for app in ranks:
        app.step()
        app.finish()


harness.scenario(run)
