"""Eight commands at a time pause and resume the same program at random: each is carried out, found already
so, or refused as busy; the last one that was accepted decides, and the bytes are right."""

import random

import harness

COMMANDS, AT_A_TIME = 160, 8
BUSY = 4


def run(node):
    node.start_daemon()
    app = node.stepper("--buffers", 4, "--bytes", "1,4K,3M")
    choose = random.Random(1)
    counts = {}
    for _ in range(COMMANDS // AT_A_TIME):
        verbs = [choose.choice(("pause", "resume")) for _ in range(AT_A_TIME)]
        commands = [(verb, node.start_cli(verb, app.pid)) for verb in verbs]
        for verb, command in commands:
            _, error = command.communicate(timeout=harness.PATIENCE)
            code = command.returncode
            harness.holds(code in (0, BUSY), f"{verb} among others ended with {code}: {error.strip()}")
            counts[verb, code] = counts.get((verb, code), 0) + 1
        harness.holds(node.state(app.pid) in ("running", "paused"), "the state after all of them")
        harness.holds(any(c.returncode == 0 for _, c in commands), "none of them was accepted")
        for verb, state in (("pause", "paused"), ("resume", "running")):
            node.expect(0, verb, app.pid)
            harness.equal(node.state(app.pid), state, f"state after a {verb} on its own")
        app.step()
    print(f"how they ended: {counts}")
    app.finish()


harness.scenario(run)
