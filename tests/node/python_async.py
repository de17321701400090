"""The asyncio client moves several processes at once, and stops listening without stopping the work."""

import asyncio

import harness
import python_package


async def drive(parkade, node, ranks):
    async with parkade.AsyncClient(str(node.runtime), timeout=harness.PATIENCE) as client:
        results = await asyncio.gather(*(client.pause(app.pid) for app in ranks))
        harness.equal([r.pid for (r,) in results], [app.pid for app in ranks], "who was paused")
        harness.equal({p.state for p in await client.list_processes()}, {parkade.ProcessState.PAUSED}, "states")
        details = await client.get_process(ranks[0].pid)
        harness.equal({a.place for a in details.allocations}, {"host"}, "where the bytes are")
        (gpu, *_) = (await client.get_node()).gpus
        harness.equal([r.pid for r in await client.verify(parkade.Selector(job="rl"))], [app.pid for app in ranks], "whose backups were read")
        kept = await client.reserve(gpu.uuid, 1 << 20, label="async")
        harness.equal((kept.bytes, kept.label), (1 << 20, "async"), "what was reserved")
        await client.release(kept.id)
        harness.equal((await client.set_budget(job="rl", host_bytes=1 << 40)).host_bytes, 1 << 40, "the budget")

        async for event in client.watch(parkade.Selector(job="rl")):
            harness.equal(event.kind, parkade.EventKind.PRESENT, "first event")
            break
        harness.equal(len([e async for e in client.watch(timeout=0.3)]), len(ranks), "events of a watch that ends by itself")

        task = asyncio.ensure_future(client.resume(parkade.Selector(job="rl")))
        await asyncio.sleep(0)
        task.cancel()
        for app in ranks:
            await asyncio.wait_for(running(client, parkade, app.pid), harness.PATIENCE)
        try:
            await client.resume(4_000_000)
        except parkade.NotFound as error:
            harness.equal((error.code, error.reason), ("NOT_FOUND", "NO_PROCESS"), "the refusal")
        else:
            raise AssertionError("a process that does not exist must be refused")
        harness.equal([e.pid for e in await client.collect_garbage(dry_run=True)], [], "scratch directories")


async def running(client, parkade, pid):
    # A caller that was quick to leave may not have been heard at all.
    while (await client.get_process(pid)).process.state is not parkade.ProcessState.RUNNING:
        await client.resume(parkade.Selector(pids=[pid]))


def run(node):
    parkade = python_package.load()
    node.start_daemon()
    ranks = [node.stepper("--buffers", 2, "--bytes", "20M", env={"PARKADE_JOB": "rl", "RANK": str(r)}) for r in range(3)]
    for app in ranks:
        app.step()
    asyncio.run(drive(parkade, node, ranks))
    for app in ranks:
        app.step()
        app.finish()


harness.scenario(run)
