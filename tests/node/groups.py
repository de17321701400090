"""Groups by file and by call are paused and resumed by name, with their policies; tag lists choose, and name what they miss."""

import harness
import python_package

NOT_FOUND = 3


def run(node):
    parkade = python_package.load()
    config = node.root / "parkaded.toml"
    config.write_text('[groups.rollout]\nrole = "rollout"\npolicy = "disk"\n')
    node.start_daemon("--config", config)
    actor, rollout = (node.stepper("--buffers", 2, "--bytes", "20M", env={"PARKADE_JOB": "rl", "PARKADE_ROLE": role}) for role in ("actor", "rollout"))
    for app in (actor, rollout):
        app.step()
    with parkade.Client(str(node.runtime)) as client:
        (result,) = client.pause("rollout")
        harness.holds(result.pid == rollout.pid and result.disk_bytes >= rollout.bytes, f"the group's processes and policy: {result}")
        harness.equal([p.pid for p in client.list_processes("rollout")], [rollout.pid], "who is in the group")
        client.resume("rollout")

        kept = parkade.Policy.KEEP
        made = client.define_group(parkade.Group("actor", parkade.Selector(role="actor"), tag_policies={"default": kept}))
        harness.equal((made.selector.role, made.tag_policies, made.configured), ("actor", {"default": kept}, False), "the group defined")
        (result,) = client.pause("actor")
        harness.holds(result.pid == actor.pid and result.kept_bytes >= actor.bytes, f"what the group keeps: {result}")
        client.resume("actor")
        (result,) = client.pause("actor", tag_policies={"default": "host"})
        harness.holds(result.host_bytes >= actor.bytes, f"the request's own policy comes first: {result}")
        client.resume("actor")

        node.kill_daemon()
        node.start_daemon("--config", config)
        python_package.reaches(client)
        harness.equal([g.name for g in client.list_groups()], ["actor", "rollout"], "groups that the next daemon knows")
        python_package.fails(parkade.AlreadyExists, "GROUP_CONFIGURED", lambda: client.define_group(parkade.Group("rollout", parkade.Selector(all=True))), group="rollout")
        node.expect(0, "group", "both", "--job", "rl")
        harness.equal(len(node.json("pause", "--group", "both")["results"]), 2, "processes of a group made by the command")
        node.expect(0, "resume", "--group", "both")
        client.remove_group("actor")
        python_package.fails(parkade.NotFound, "NO_GROUP", lambda: client.pause("actor"), group="actor", known_groups="both,rollout")
        node.expect(NOT_FOUND, "pause", "--group", "actor")

        tags(parkade, client, actor)
        nobody = parkade.Selector(job="nobody")
        harness.equal(client.pause(nobody, allow_empty=True), [], "an empty match that is allowed")
        harness.equal(client.resume(nobody, allow_empty=True), [], "the same of a resume")
    for app in (actor, rollout):
        app.step()
        app.finish()


def tags(parkade, client, app):
    error = python_package.fails(parkade.InvalidArgument, "UNKNOWN_TAG", lambda: client.pause(app.pid, tags=["weight , kv_cache"]), known_tags="default")
    harness.holds(error.details["tag"] in ("weights", "kv_cache"), f"the tag that is missed: {error}")
    (result,) = client.pause(app.pid, tags=["weights", "kv_cache"], allow_empty=True)
    harness.holds(result.kept_bytes >= app.bytes and not result.host_bytes, f"tags that nobody has: {result}")
    client.resume(app.pid)
    (result,) = client.pause(app.pid, tags="default, default", policy="host")
    harness.holds(result.host_bytes >= app.bytes, f"the tag that it has: {result}")
    client.resume(app.pid)
    app.step()


harness.scenario(run)
