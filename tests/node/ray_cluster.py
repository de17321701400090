"""parkade.ray's actors front the daemon of their node, one each, and Cluster moves all nodes or none, with an outcome for every
node. Two nodes with a daemon and a simulated GPU each; what stands in for Ray is tests/apps/ray_stand_in."""

import asyncio
import importlib
import sys

import harness
import python_package

SIZE = ("--buffers", 2, "--bytes", "8M")


def programs(node):
    node.start_daemon()
    apps = [node.stepper(*SIZE, env={"PARKADE_JOB": "rl", "PARKADE_ROLE": role}) for role in ("actor", "rollout")]
    return dict(zip(("actor", "rollout"), apps))


def run(first):
    if harness.ON_CARD:
        raise harness.Skip("two nodes of one machine have a simulated GPU each")
    parkade = python_package.load()
    sys.path.insert(0, str(harness.TREE / "tests/apps/ray_stand_in"))
    parkade_ray = importlib.import_module("parkade.ray")
    harness.holds("ray" not in sys.modules, "importing parkade.ray does not import Ray")
    ray = importlib.import_module("ray")
    second = harness.Node()
    try:
        nodes = {"a": first, "b": second}
        apps = {name: programs(node) for name, node in nodes.items()}
        ray.stand_in({name: {"PARKADE_RUNTIME_DIR": str(node.runtime)} for name, node in nodes.items()})
        ray.stand_in({"head": {}, "dead": None})
        cluster = parkade_ray.Cluster()
        harness.equal(cluster.nodes, ["a", "b"], "nodes that live and have GPUs")
        try:
            moves(parkade, parkade_ray, ray, cluster, nodes, apps)
        finally:
            cluster.stop()
    finally:
        second.close()
        second.remove()


def states(nodes, apps, role):
    return [node.state(apps[name][role].pid) for name, node in nodes.items()]


def moves(parkade, parkade_ray, ray, cluster, nodes, apps):
    actor, rollout = (parkade.Selector(job="rl", role=role) for role in ("actor", "rollout"))
    found = cluster.list(rollout)
    harness.equal({name: [p.pid for p in listed] for name, listed in found.items()}, {n: [apps[n]["rollout"].pid] for n in nodes}, "who is where")

    outcome = cluster.pause(rollout, generation=1)
    harness.equal([node.node for node in outcome.nodes], ["a", "b"], "nodes of the outcome")
    harness.equal([[r.pid for r in node.results] for node in outcome.nodes], [[apps[n]["rollout"].pid] for n in nodes], "results by node")
    harness.equal(states(nodes, apps, "rollout"), ["paused", "paused"], "rollouts")

    # From a coroutine, by a group, and by whoever comes later: the actors are the same.
    again = parkade_ray.Cluster(["a", "b"])
    harness.equal(list(cluster.define_group(parkade.Group("actors", actor))), ["a", "b"], "where the group is")

    async def turn():
        return await asyncio.to_thread(again.handoff, "actors", rollout, generation=2)

    asyncio.run(turn())
    harness.equal((states(nodes, apps, "actor"), states(nodes, apps, "rollout")), (["paused"] * 2, ["running"] * 2), "after the handoff")
    handle = parkade_ray.node_actor("a")
    harness.equal([p.pid for p in ray.get(handle.list.remote("actors"))], [apps["a"]["actor"].pid], "by the actor itself")
    cluster.resume("actors", generation=3)
    harness.equal(states(nodes, apps, "actor"), ["running", "running"], "actors")

    # One refuses: nothing moves anywhere, and the error is the daemon's own.
    try:
        cluster.pause(actor, generation=2)
        raise AssertionError("an old generation must be refused")
    except parkade.ClusterError as error:
        harness.equal((error.phase, [type(node.error) for node in error.outcome.nodes]), ("look", [parkade.FailedPrecondition] * 2), "refusals")
        harness.equal({node.error.reason for node in error.outcome.nodes}, {"STALE_EPOCH"}, "reasons")

    # An actor that is gone says so of its node alone.
    parkade_ray.node_actor("b")._process.kill()
    try:
        cluster.pause(rollout, generation=4)
        raise AssertionError("a node that does not answer must be an error")
    except parkade.ClusterError as error:
        harness.equal([node.node for node in error.outcome.failed], ["b"], "who failed")
        harness.equal(error.outcome.failed[0].error.reason, "NO_ANSWER", "why")
    harness.equal(states(nodes, apps, "rollout"), ["running", "running"], "nothing has moved")
    for node in apps.values():
        for app in node.values():
            app.step()
            app.finish()


harness.scenario(run)
