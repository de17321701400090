"""The examples for vLLM and SGLang give a process its label and its memory tags, so that a group keeps the weights and
discards the cache. What stands in for the two engines has the methods that the examples build on, and nothing else."""

import os
import sys

import harness
import python_package

PROGRAM = harness.TREE / "tests/apps/engines.py"
SIZE = 40 << 20


def tell(app, line, wanted):
    app.say(line)
    harness.equal(app.line(), wanted, line)


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    path = os.pathsep.join(map(str, (harness.BUILD / "python", python_package.examples())))
    with parkade.Client(str(node.runtime)) as client:
        for engine in ("vllm", "sglang"):
            role = "rollout" if engine == "sglang" else "actor"  # that of who starts it; vLLM's worker says its own
            environment = {"PYTHONPATH": path, "PARKADE_JOB": engine, "PARKADE_ROLE": role}
            app = node.start(sys.executable, PROGRAM, env=environment)
            app.until("ready")
            tell(app, f"{engine} {SIZE}", "loaded")
            harness.wait_for("the daemon lists it", lambda app=app: node.state(app.pid) == "running")
            (process,) = client.list_processes(parkade.Selector(job=engine, role="rollout"))
            harness.equal(process.rank, 3 if engine == "vllm" else None, f"rank of {engine}'s process")
            group = parkade.Group(engine, parkade.Selector(job=engine), tag_policies={"kv_cache": parkade.Policy.DISCARD})
            client.define_group(group)
            (result,) = client.pause(engine)
            harness.equal((result.host_bytes + result.elided_bytes, result.discarded_bytes), (SIZE, SIZE), f"bytes of {engine}'s weights and cache")
            client.resume(engine)
            tell(app, "check weights", "right")
            tell(app, "check kv_cache", "wrong")
            app.end()


harness.scenario(run)
