"""Budgets of the node and of a job are set while jobs run: the next pause keeps to them, a refusal names budget and users, what is
out stays out and shows as too much, and the next daemon goes on with them."""

import os
import subprocess
import sys

import harness
import python_package

NOBODY = 65534
RESOURCES = 5
MIB = 1 << 20
AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import parkade
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
try:
    parkade.Client(sys.argv[2]).set_budget(host_bytes=1)
except parkade.PermissionDenied as error:
    print(error.code, error.reason)
"""


def of_job(p, client, node, first, second):
    """80 MiB each: two do not fit in 120 MiB of host memory, nor on that much of a disk."""
    set_to = client.set_budget(job="rl", host_bytes=120 * MIB)
    harness.equal((set_to.job, set_to.host_bytes, set_to.disk_bytes, set_to.over), ("rl", 120 * MIB, 0, False), "the budget")
    client.pause(first.pid, policy="host")
    used = client.set_budget(job="rl").host_used_bytes
    harness.holds(80 * MIB <= used <= 120 * MIB, f"host memory in use: {used}")
    error = python_package.fails(p.ResourceExhausted, "HOST_MEMORY", lambda: client.pause(second.pid, policy="host"), budget="job", job="rl", budget_bytes=120 * MIB, users=f"{first.pid}={used}")
    harness.holds("the budget of the job rl is 120.0 MiB" in error.message and f"{first.pid}=" in error.message, f"the sentence: {error}")
    (refusal,) = client.forecast_pause(second.pid, policy="host").refusals
    harness.equal((refusal.reason, refusal.metadata["job"]), ("HOST_MEMORY", "rl"), "what a dry run foretells")
    harness.equal(node.state(second.pid), "running", "state after the refusal")
    second.step()

    client.set_budget(job="rl", disk_bytes=60 * MIB)
    error = python_package.fails(p.ResourceExhausted, "DISK_SPACE", lambda: client.pause(second.pid, policy="disk"), budget="job", job="rl", budget_bytes=60 * MIB, used_bytes=0)
    harness.holds("the budget of the job rl is 60.0 MiB" in error.message, f"the sentence: {error}")
    client.set_budget(job="rl", disk_bytes=0)
    (out,) = client.pause(second.pid, policy="auto")
    harness.holds(out.disk_bytes > 0 and out.host_bytes + used <= 120 * MIB, f"what does not fit goes to disk: {out}")

    # What is out stays.
    over = client.set_budget(job="rl", host_bytes=10 * MIB)
    harness.equal((over.over, over.host_used_bytes > 10 * MIB), (True, True), "a budget that is smaller than what is out")
    shown = {b["job"]: b for b in node.json("budget")["budgets"]}
    harness.equal((shown["rl"]["over"], shown[None]["over"]), (True, False), "what the command line shows")
    harness.holds("over" in node.expect(0, "budget").out, "budget must say so")
    client.resume(p.Selector(job="rl"))
    for app in (first, second):
        app.step()
    client.set_budget(job="rl", host_bytes=0)
    harness.equal([b.job for b in client.get_node().budgets], [""], "budgets that are left")


def of_node(p, client, node, first, second):
    node.expect(0, "budget", "--host", "100MiB")
    (result,) = client.pause(first.pid, policy="host")
    error = python_package.fails(p.ResourceExhausted, "HOST_MEMORY", lambda: client.pause(second.pid, policy="host"), budget="node", budget_bytes=100 * MIB)
    harness.holds(f"{first.pid}=" in error.details["users"], f"who fills it: {error.details}")
    harness.holds("the budget of the node" in node.expect(RESOURCES, "pause", second.pid, "--policy", "host").err, "the sentence")
    client.resume(first.pid)
    # Kept host memory of one that runs goes to the pause that needs it.
    client.pause(second.pid, policy="host")
    node.kill_daemon()
    node.start_daemon()
    python_package.reaches(client)
    (kept,) = client.get_node().budgets
    harness.equal((kept.job, kept.host_bytes), ("", 100 * MIB), "what the next daemon keeps")
    client.resume(second.pid)
    node.expect(0, "budget", "--host", "none", "--disk", "50MiB")
    error = python_package.fails(p.ResourceExhausted, "DISK_SPACE", lambda: client.pause(first.pid, policy="disk"), budget="node", needed_bytes=first.bytes)
    node.expect(0, "budget", "--disk", "none")
    client.pause(first.pid, policy="disk")
    harness.holds(client.get_node().budgets[0].disk_used_bytes >= first.bytes, "disk in use")
    client.resume(first.pid)
    for app in (first, second):
        app.step()


def refusals(p, client, node):
    python_package.fails(p.InvalidArgument, "BAD_REQUEST", lambda: client.set_budget(job="x" * 64, host_bytes=1))
    node.expect(3, "budget", "--job", "rl")
    node.expect(2, "budget", "--host", "much")
    for i in range(256):
        client.set_budget(job=f"job-{i}", host_bytes=1)
    python_package.fails(p.ResourceExhausted, "TOO_MANY_BUDGETS", lambda: client.set_budget(job="one more", host_bytes=1), job="one more")
    for i in range(256):
        client.set_budget(job=f"job-{i}", host_bytes=0)
    if os.getuid() != 0:
        return
    node.runtime.chmod(0o755)
    words = [sys.executable, "-c", AS_NOBODY.format(nobody=NOBODY), str(harness.BUILD / "python"), str(node.runtime)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    harness.equal(done.stdout.split(), ["PERMISSION_DENIED", "NOT_AN_ADMINISTRATOR"], f"what another user hears {done.stderr}")


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    env = {"PARKADE_JOB": "rl"}
    first, second = (node.stepper("--buffers", 1, "--bytes", str(80 * MIB), env=env) for _ in range(2))
    with parkade.Client(str(node.runtime)) as client:
        refusals(parkade, client, node)
        of_job(parkade, client, node, first, second)
        of_node(parkade, client, node, first, second)
    for app in (first, second):
        app.finish()


harness.scenario(run)
