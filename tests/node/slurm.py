"""The recipes for Slurm, in a real one of two nodes on this machine, each with a daemon of its own: a job starts where the
daemon answers, its tasks have the library and their labels, both are paused and resumed while they work, and a node
without a daemon is drained. Skipped without slurm-wlm and munge, and for anybody but root."""

import os
import pathlib
import re
import shutil
import socket
import subprocess

import harness

RECIPES = harness.TREE / "scripts/deploy/slurm"
NODES = ("n1", "n2")
STEPS = 400
START = 60.0


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Slurm:
    """A controller and two node daemons, all in one folder."""

    def __init__(self, node, runtimes):
        self.root = pathlib.Path(node.root) / "slurm"
        self.root.mkdir()
        self.env = {**node.env, "SLURM_CONF": str(self.root / "slurm.conf")}
        self.runtimes, self.started = runtimes, []

    def begin(self):
        self._munge()
        for name in ("prolog", "epilog", "task-prolog"):
            self._recipe(name)
        ports = {name: free_port() for name in NODES}
        host = socket.gethostname()
        (self.root / "slurm.conf").write_text(f"""
ClusterName=parkade
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={self.root}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={self.root}/state
SlurmdSpoolDir={self.root}/spool-%n
SlurmctldPidFile={self.root}/slurmctld.pid
SlurmdPidFile={self.root}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_res
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
ReturnToService=2
MpiDefault=none
PrologFlags=Alloc
Prolog={self.root}/prolog
Epilog={self.root}/epilog
TaskProlog={self.root}/task-prolog
""" + "".join(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1\n" for name, port in ports.items())
            + "PartitionName=all Nodes=ALL Default=YES State=UP\n")
        self._start("slurmctld", "-D", "-i")
        for name in NODES:
            (self.root / f"spool-{name}").mkdir()
            self._start("slurmd", "-D", "-N", name)
        harness.wait_for("both nodes are idle", lambda: self.states() == {name: "idle" for name in NODES}, START)

    def _munge(self):
        key = self.root / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._start("munged", "--foreground", "--force", f"--socket={self.root}/munge.sock", f"--key-file={key}",
                    f"--pid-file={self.root}/munge.pid", f"--log-file={self.root}/munged.log", f"--seed-file={self.root}/munge.seed")
        harness.wait_for("munge serves", (self.root / "munge.sock").exists)

    def _recipe(self, name):
        """The recipe as it is, told what a cluster has at its usual places."""
        cases = "".join(f"  {node}) export PARKADE_RUNTIME_DIR={runtime} ;;\n" for node, runtime in self.runtimes.items())
        script = self.root / name
        script.write_text(f"""#!/bin/sh
case "$SLURMD_NODENAME" in
{cases}esac
export PARKADE_BIN={harness.BUILD}/bin PARKADE_LIBRARY={harness.SHIM}
exec {RECIPES}/{name}
""")
        script.chmod(0o755)

    def _start(self, *command):
        with open(self.root / f"{'-'.join([command[0], *command[-1:]]).replace('/', '_')[:40]}.log", "wb") as log:
            self.started.append(subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def said(self, *command):
        done = subprocess.run(command, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout

    def states(self):
        lines = self.said("sinfo", "--noheader", "--Node", "--format=%N %t").split("\n")
        return dict(line.split() for line in lines if line)

    def step(self, node, *options, steps=STEPS):
        words = ["srun", "--nodes=2", "--ntasks-per-node=1", *options, harness.BUILD / "bin/stepper", "--buffers", 2, "--bytes", "1M", "--steps", steps, "--step-ms", 20]
        app = harness.App(words, self.env, node.log("srun"))
        node.apps.append(app)
        return app

    def close(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            try:
                process.wait(harness.PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def ends_well(app):
    right = 0
    while right < 2:
        right += app.line(harness.PATIENCE * 2).endswith("steps, every byte right")
    harness.equal(app.process.wait(harness.PATIENCE), 0, "srun's exit code")


def paused(slurm, nodes):
    """Both tasks, in the middle of their work."""
    app = slurm.step(nodes["n1"], "--export=ALL,PARKADE_ROLE=actor")
    found = {}
    for name, node in nodes.items():
        found[name] = harness.wait_for(f"the task on {name} is there", lambda node=node: node.processes(), START)[0]
    jobs = {process["job"] for process in found.values()}
    harness.equal(len(jobs), 1, f"the job of both tasks: {jobs}")
    harness.equal({(process["role"], process["rank"]) for process in found.values()}, {("actor", 0), ("actor", 1)}, "labels")
    (job,) = jobs
    for policy in ("host", "disk"):
        for name, node in nodes.items():
            node.expect(0, "pause", "--job", job, "--policy", policy)
            harness.equal(node.state(found[name]["pid"]), "paused", f"state on {name}")
        for node in nodes.values():
            node.expect(0, "resume", "--job", job)
    ends_well(app)
    for name, node in nodes.items():
        harness.wait_for(f"nothing is left on {name}", lambda node=node: node.processes() == [] and node.scratch_entries() == [])
    return job


def plain(slurm, nodes):
    """A job that wants no Parkade."""
    def connections():
        return [node.daemon_log.read_text().count(" connected") for node in nodes.values()]

    before = connections()
    harness.holds(all(before), f"a library that connects is in the log: {before}")
    ends_well(slurm.step(nodes["n1"], "--export=ALL,PARKADE=off", steps=20))
    harness.equal(connections(), before, "libraries that have connected")


def drained(slurm, nodes):
    """A node whose daemon is gone takes no job."""
    nodes["n2"].stop_daemon()
    slurm.step(nodes["n1"], steps=1)
    harness.wait_for("the node without a daemon is drained", lambda: re.match("drain|drng", slurm.states()["n2"]), START)
    harness.holds("n1" in slurm.states() and not slurm.states()["n1"].startswith("drain"), f"the other: {slurm.states()}")


def run(node):
    missing = [name for name in ("slurmctld", "slurmd", "munged", "srun") if shutil.which(name) is None]
    if missing:
        raise harness.Skip(f"no {', '.join(missing)} here (Debian: slurm-wlm, munge)")
    if os.getuid() != 0 or harness.ON_CARD:
        raise harness.Skip("slurmd runs as root, and each node has a simulated GPU of its own")
    other = harness.Node()
    nodes = {"n1": node, "n2": other}
    slurm = None
    try:
        for each in nodes.values():
            each.start_daemon()
        slurm = Slurm(node, {name: each.runtime for name, each in nodes.items()})
        slurm.begin()
        job = paused(slurm, nodes)
        print(f"job {job} was paused and resumed on both nodes")
        plain(slurm, nodes)
        drained(slurm, nodes)
    except BaseException:
        if slurm is not None:
            for log in sorted(slurm.root.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}")
        raise
    finally:
        if slurm is not None:
            slurm.close()
        other.close()
        other.remove()


harness.scenario(run)
