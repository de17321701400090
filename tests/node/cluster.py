"""A job on many nodes, paused and resumed by one call: in two phases, taken back where one node fails, in the order of
generations, over a network that delays and loses packets and is cut in two. Each node is a daemon with a network namespace
and a simulated GPU of its own."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import threading
import time

import certificates
import harness
import python_package
import tun_network

NODES = 64
FEW = 8  # of them are enough to see what happens when one fails
PORT = 7070
DELAY, LOSS = 0.02, 0.01
SLOW_GBPS = 0.02  # of the link of one node's GPU, so that its pause takes some seconds
SLOW, FAILS = 1, 2
STATE = 4


class Cluster:
    def __init__(self, network):
        self.network = network
        self.nodes, self.apps, self.clients = {}, {}, {}
        self._making = threading.Lock()  # a node takes its settings from this process's environment

    def add(self, number, config):
        with self._making:
            node = self.nodes[number] = harness.Node(gpu_bytes="256M")
        node.env["PARKADE_JOB"] = "rl"
        node.env["PARKADE_ELISION"] = "off"  # every byte is to move, also one that has not changed
        if number == SLOW:
            node.env["SIM_LINK_GBPS"] = str(SLOW_GBPS)
        address = self.network.address(number + 1)
        text = config.replace("ADDRESS", f"{address}:{PORT}")
        (node.root / "parkaded.toml").write_text(text)

        def begin():
            node.start_daemon("--config", node.root / "parkaded.toml")
            return node.stepper("--buffers", 2, "--bytes", "30M" if number == SLOW else "500K")

        self.apps[number] = self.network.in_namespace(number, begin)
        self.apps[number].step()
        return f"{address}:{PORT}"

    def state(self, number):
        """By a client that stays: a command for each node each time costs more than all else here."""
        if number not in self.clients:
            self.clients[number] = python_package.load().Client(str(self.nodes[number].runtime))
        (process,) = self.clients[number].list_processes(self.apps[number].pid)
        return process.state.value

    def states(self, but=None):
        return {number: self.state(number) for number in self.nodes if number != but}

    def leave(self, numbers):
        """Ends all others."""
        others = {number: node for number, node in self.nodes.items() if number not in numbers}
        for number, node in others.items():
            if number in self.clients:
                self.clients.pop(number).close()
            with contextlib.suppress(Exception):
                node.close()
            node.remove()
            del self.nodes[number], self.apps[number]


def is_everywhere(cluster, state, but=None):
    found = {number: found for number, found in cluster.states(but).items() if found != state}
    harness.equal(found, {}, f"nodes that are not {state}")


async def fails(p, phase, call):
    try:
        await call
    except p.ClusterError as error:
        harness.equal(error.phase, phase, f"phase of {error}")
        return error
    raise AssertionError(f"it must fail in the phase {phase}")


async def drive(p, cluster, client, names):
    rl, network = p.Selector(job="rl"), cluster.network
    listed = await client.list_processes(rl)
    harness.equal({name: [each.pid for each in found] for name, found in listed.items()},
                  {names[number]: [app.pid] for number, app in cluster.apps.items()}, "the processes of each node")

    network.delay, network.loss = DELAY, LOSS
    done = await client.pause(rl, generation=10)
    slowest = max(node.seconds for node in done.nodes)
    print(f"pause of {NODES} nodes: {done.seconds:.2f} s, its slowest node {slowest:.2f} s; {network.carried} packets, {network.lost} lost")
    harness.equal(len(done.results), NODES, "results")
    is_everywhere(cluster, "paused")
    harness.holds(done.seconds <= 1.3 * slowest, f"{done.seconds:.2f} s for a slowest node of {slowest:.2f} s")
    again = await client.pause(rl, generation=10)
    harness.equal([r.already for r in again.results], [r.already for r in done.results], "the first answer again")

    # A controller that was replaced.
    stale = await fails(p, "look", client.resume(rl, generation=9))
    harness.equal({node.error.reason for node in stale.outcome.nodes}, {"STALE_EPOCH"}, "why")
    is_everywhere(cluster, "paused")
    done = await client.resume(rl, generation=11)
    harness.equal(len(done.failed), 0, "nodes that failed")
    is_everywhere(cluster, "running")


async def failures(p, cluster, client, names, rl):
    network = cluster.network
    # One node fails when all others are through: they are taken back.
    failing = cluster.nodes[FAILS]
    failing.faults(f"cuMemcpyDtoHAsync 1 fail 2 pid={cluster.apps[FAILS].pid}")
    error = await fails(p, "move", client.pause(rl, generation=20, policy="disk"))
    failing.faults()
    (bad,) = error.outcome.failed
    harness.equal((bad.node, bad.may_have_moved), (names[FAILS], False), "the node that failed")
    harness.equal({node.taken_back for node in error.outcome.nodes if node is not bad}, {True}, "the others")
    is_everywhere(cluster, "running")

    # The same, left as it is, and gone on from with the same call.
    failing.faults(f"cuMemcpyDtoHAsync 1 fail 999 pid={cluster.apps[FAILS].pid}")
    await fails(p, "move", client.pause(rl, generation=21, policy="disk", keep=True))
    failing.faults()
    harness.equal({n: s for n, s in cluster.states().items() if s != "paused"}, {FAILS: "running"}, "who is not paused")
    await client.pause(rl, generation=22, policy="disk")
    is_everywhere(cluster, "paused")
    await client.resume(rl, generation=23)
    is_everywhere(cluster, "running")

    # A node that is cut off while it moves: nobody knows of it, until it is back.
    async def cut():
        harness.wait_for("the slow node moves", lambda: cluster.state(SLOW) == "evicting")
        network.cut.add(SLOW + 1)

    cutting = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(cut())))
    error = await fails(p, "move", client.pause(rl, generation=30, timeout=12))
    await cutting
    (lost,) = error.outcome.failed
    harness.equal((lost.node, lost.may_have_moved, lost.request_id), (names[SLOW], True, "pause-30"), f"the node that is cut off: {lost.error}")
    harness.equal({n: s for n, s in cluster.states().items() if s != "running"}.keys(), {SLOW}, "who does not run")
    refused = await fails(p, "look", client.pause(rl, generation=31))
    harness.equal([node.node for node in refused.outcome.failed], [names[SLOW]], "who cannot be asked")
    network.cut.clear()
    harness.wait_for("the slow node is through", lambda: cluster.state(SLOW) == "paused")
    await back(p, client, rl)
    is_everywhere(cluster, "running")


async def back(p, client, rl):
    """A channel that was cut off takes a while to try again."""
    end = time.monotonic() + 2 * harness.PATIENCE
    while True:
        try:
            return await client.resume(rl, generation=32)
        except p.ClusterError as error:
            harness.holds(time.monotonic() < end and error.phase == "look", f"still not: {error}")
            await asyncio.sleep(0.2)


async def nobody(p, client):
    for wrong, kind in ((client.pause(p.Selector(job="none"), generation=40), p.NotFound), (client.pause(p.Selector(job="rl"), generation=0), p.InvalidArgument)):
        try:
            await wrong
        except kind:
            continue
        raise AssertionError(f"{kind.__name__} must be raised")


def tools(node, names):
    """What stands in for Slurm's and Kubernetes' command lines: a job 42 and pods app=rl on all nodes."""
    folder = node.root / "bin"
    folder.mkdir()
    hosts = [name.partition(":")[0] for name in names.values()]
    pods = {"items": [{"status": {"podIP": host}} for host in hosts] + [{"status": {}}]}
    for name, words, text in (
        ("squeue", "--noheader --format=%N --jobs 42", "list"),
        ("scontrol", "show hostnames list", "\n".join(hosts)),
        ("kubectl", "get pods --selector app=rl --output json", json.dumps(pods)),
    ):
        (folder / f"{name}.out").write_text(text)
        (folder / name).write_text(f"""#!/bin/sh
if [ "$*" != "{words}" ]; then echo "{name}: no $*" >&2; exit 1; fi
cat {folder}/{name}.out
""")
        (folder / name).chmod(0o755)
    os.environ["PATH"] = node.env["PATH"] = f"{folder}:{os.environ['PATH']}"


def lists(p, node, names):
    """The nodes of a job by each way, and what is none."""
    listed = node.root / "nodes"
    hosts = [name.partition(":")[0] for name in names.values()]
    listed.write_text("# the job's nodes\n" + "".join(f"{name}  # rack 1\n\n" for name in [*names.values(), *names.values()]))
    harness.equal(p.nodes_of(str(listed)), list(names.values()), "nodes in a file, each once")
    harness.equal(p.nodes_of("slurm:42"), hosts, "nodes of a Slurm job")
    harness.equal(p.nodes_of("k8s:app=rl"), hosts, "pods")
    for wrong, kind in (("slurm:43", p.Unavailable), ("k8s:app=x", p.Unavailable), (str(node.root / "none"), p.InvalidArgument), ("/dev/null", p.InvalidArgument)):
        try:
            found = p.nodes_of(wrong)
        except kind:
            continue
        raise AssertionError(f"{wrong} must be refused: {found}")
    return listed


def command_line(cluster, node, names, listed):
    """The same by `parkade --nodes`."""
    def said(code, where, *words):
        done = node.cli("--nodes", where, "--port", PORT, "-o", "json", *words)
        harness.equal(done.code, code, f"exit code of {words} ({done.err[-500:]})")
        return {each["node"]: each for each in json.loads(done.out)["nodes"]} if done.out else done.err

    for where in (listed, "slurm:42", "k8s:app=rl"):
        found = said(0, where, "ps", "--job", "rl")
        harness.equal({name: [each["pid"] for each in found[name]["answer"]["processes"]] for name in found},
                      {names[number]: [app.pid] for number, app in cluster.apps.items()}, f"who is where, by {where}")
    said(0, listed, "pause", "--job", "rl", "--epoch", 50)
    is_everywhere(cluster, "paused")
    stale = said(STATE, listed, "resume", "--job", "rl", "--epoch", 49)
    harness.holds(all("STALE_EPOCH" in each["error"] for each in stale.values()), f"why: {stale}")
    said(0, listed, "resume", "--job", "rl", "--epoch", 51)
    is_everywhere(cluster, "running")
    failing = cluster.nodes[FAILS]
    failing.faults(f"cuMemcpyDtoHAsync 1 fail 1 pid={cluster.apps[FAILS].pid}")
    failed = said(1, listed, "pause", "--job", "rl", "--policy", "disk")
    failing.faults()
    harness.equal({name for name, each in failed.items() if not each["taken_back"]}, {names[FAILS]}, "who was not taken back")
    is_everywhere(cluster, "running")
    failing.stop_daemon()
    unreachable = said(6, listed, "pause", "--job", "rl", "--timeout", "5s")
    harness.equal({name for name, each in unreachable.items() if each["exit_code"]}, {names[FAILS]}, "who does not answer")
    is_everywhere(cluster, "running", but=FAILS)
    harness.equal(node.cli("--nodes", listed, "pause", "--job", "none").code, 6, "a node that does not answer")
    listed.write_text(names[SLOW])
    harness.equal(node.cli("--nodes", listed, "pause", "--job", "none").code, 3, "nobody anywhere")
    harness.equal(node.cli("--nodes", listed, "watch").code, 2, "a verb about one node")
    harness.equal(node.cli("--nodes", "slurm:43", "ps").code, 6, "no such job")
    table = node.cli("--nodes", listed, "pause", "--job", "rl")
    harness.holds(table.code == 0 and names[SLOW] in table.out and "paused" in table.out, f"the table: {table.out} {table.err}")


def client_of(p, names, folder):
    keys = {"certificate": folder / "orchestrator.pem", "key": folder / "orchestrator.key", "ca": folder / "good.pem"}
    return p.ClusterClient.at(names.values(), **{name: str(path) for name, path in keys.items()})


async def many(p, cluster, names, folder):
    async with client_of(p, names, folder) as client:
        await drive(p, cluster, client, names)


async def few(p, cluster, names, folder):
    async with client_of(p, names, folder) as client:
        await failures(p, cluster, client, names, p.Selector(job="rl"))
        await nobody(p, client)


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("each node has a simulated GPU of its own")
    p = python_package.load()
    network = tun_network.Network()
    cluster = Cluster(network)
    folder = node.root / "certificates"
    folder.mkdir()
    addresses = ",".join(f"IP:{network.address(number + 1)}" for number in range(1, NODES + 1))
    certificates.authority(folder, "good")
    certificates.certificate(folder, "good", "daemon", addresses)
    certificates.certificate(folder, "good", "orchestrator")
    config = f"""[tcp]
listen = "ADDRESS"
certificate = "{folder}/daemon.pem"
key = "{folder}/daemon.key"
client_ca = "{folder}/good.pem"
clients = ["orchestrator"]
"""
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            numbers = range(1, NODES + 1)
            names = dict(zip(numbers, pool.map(lambda number: cluster.add(number, config), numbers)))
        asyncio.run(many(p, cluster, names, folder))
        cluster.leave(range(1, FEW + 1))
        names = {number: names[number] for number in cluster.nodes}
        asyncio.run(few(p, cluster, names, folder))
        tools(node, names)
        listed = lists(p, node, names)
        for name, path in (("CERT", "orchestrator.pem"), ("KEY", "orchestrator.key"), ("CA", "good.pem")):
            node.env[f"PARKADE_{name}"] = str(folder / path)
        command_line(cluster, node, names, listed)
    except BaseException:
        for number in (SLOW, FAILS):
            if number in cluster.nodes:
                cluster.nodes[number].print_logs()
        raise
    finally:
        cluster.leave(())
        network.close()


harness.scenario(run)
