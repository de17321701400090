"""`parkade report` from real pauses: every form of it says what happened, from the daemon's timeline and from recordings, and --check passes."""

import csv
import html.parser
import io
import json
import re
import xml.etree.ElementTree as xml

import harness
import python_package

USAGE, NOT_FOUND, STATE, DATA_LOSS = 2, 3, 4, 7
NOBODY = 4_000_000  # no pid


def step(node, rollout, actor):
    """One step of colocated training, with its phases marked, all three ways."""
    node.expect(0, "mark", "generate", "--job", "rl")
    rollout.step()
    node.expect(0, "mark", "train", "--job", "rl")
    node.expect(0, "pause", rollout.pid, "--elision", "off")
    actor.step()
    node.expect(0, "pause", actor.pid, "--policy", "disk", "--elision", "off")
    parkade = python_package.load()
    with parkade.Client(str(node.runtime)) as client:
        mark = client.mark("update_weights", job="rl")
        harness.equal((mark.name, mark.job, mark.kind), ("update_weights", "rl", parkade.TimelineMarkKind.PHASE), "the mark")
        client.mark("halfway", kind=parkade.TimelineMarkKind.POINT)
    node.expect(0, "resume", actor.pid)
    node.expect(0, "resume", rollout.pid)
    node.expect(0, "mark", "--end", "--job", "rl")
    node.expect(NOT_FOUND, "pause", NOBODY)


def tables(node, rollout, actor):
    text = node.expect(0, "report").out
    for words in ("pause, median", "generate", "update_weights", "NO_PROCESS"):
        harness.holds(words in text, f"`parkade report` tells of {words}: {text}")
    recording = node.json("report")["recordings"][0]
    harness.equal([p["name"] for p in recording["phases"]], ["generate", "train", "update_weights"], "phases")
    harness.equal([p["name"] for p in recording["points"]], ["halfway"], "moments")
    harness.equal(sorted(o["kind"] for o in recording["operations"] if o["ok"]), ["pause", "pause", "resume", "resume"], "operations")
    changes = {(c["phase"], c["tier"]): c for c in recording["changes"]}
    train = sum(c["after"] - c["before"] for c in recording["changes"] if c["phase"] == "train" and c["tier"] == "gpu")
    harness.holds(train * 1024 <= -(rollout.bytes + actor.bytes), f"HBM that training gave back: {recording['changes']}")
    harness.holds(changes["train", "disk"]["after"] * 1024 >= actor.bytes, "what it left on disk")
    harness.holds(changes["train", "host"]["after"] * 1024 >= rollout.bytes, "and in host memory")
    (gpu,) = [c for c in recording["charts"] if c["kind"] == "gpu"]
    most = {layer["process"].split()[0]: max(layer["runs"][1::2]) for layer in gpu["layers"] if layer["process"]}
    for app in (rollout, actor):
        harness.holds(most[str(app.pid)] * 1024 >= app.bytes, f"HBM of {app.pid} in the chart: {most}")
    filtered = node.json("report", "--phase", "generate")["recordings"][0]
    harness.equal([p["name"] for p in filtered["phases"]][0], "generate", "the phase that was asked for")
    harness.holds(filtered["length"] < recording["length"], "its length")
    node.expect(NOT_FOUND, "report", "--phase", "nothing")


class Page(html.parser.HTMLParser):
    """What a page loads from elsewhere, and its data."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.data, self._inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._inside = tag == "script" and ("id", "data") in attributes
        self.loads += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, text):
        self.data += text if self._inside else ""

    def handle_endtag(self, tag):
        self._inside = False


def files(node, folder):
    names = {form: folder / f"out.{form}" for form in ("html", "svg", "trace", "csv", "save")}
    node.expect(0, "report", *(word for form, path in names.items() for word in (f"--{form}", path)))
    page = names["html"].read_text()
    harness.equal(Page(page).loads, [], "addresses that the page loads")
    harness.equal(len(json.loads(Page(page).data)["recordings"]), 1, "recordings in the page")
    harness.holds("uPlot" in page and "Permission is hereby granted" in page and "@" + "DATA@" not in page, "the page has its library and that one's licence")
    svg = xml.parse(names["svg"]).getroot()
    words = " ".join(svg.itertext())
    harness.holds(all(w in words for w in ("Host memory", "Disk", "not managed")), f"words of the picture: {words}")
    trace = json.loads(names["trace"].read_text())["traceEvents"]
    kinds = {event["ph"] for event in trace}
    harness.equal(kinds, {"M", "X", "C", "i", "s", "f"}, "kinds of events in the trace")
    harness.holds({"pause", "resume", "move", "train"} <= {e["name"] for e in trace}, "names in the trace")
    harness.holds(all(e["dur"] >= 0 and e["ts"] >= 0 for e in trace if e["ph"] == "X"), "times in the trace")
    rows = list(csv.DictReader(io.StringIO(names["csv"].read_text())))
    harness.equal(list(rows[0]), ["time_s", "used_gb", "available_gb", "percent", "marker"], "columns")
    harness.holds({"generate", "train", "update_weights", "halfway"} <= {r["marker"] for r in rows}, "markers")
    gpus = list(csv.DictReader(io.StringIO(node.expect(0, "report", "--csv", "-", "--csv-of", "gpus").out)))
    harness.holds(abs(float(gpus[0]["used_gb"]) + float(gpus[0]["available_gb"]) - 2 * 1.073741824) < 0.001, f"the GPU's size: {gpus[0]}")
    node.expect(NOT_FOUND, "report", "--csv", "-", "--csv-of", "GPU-none")
    return names["save"]


def recordings(node, saved, folder):
    """What was saved says the same as what is asked for, and the daemon's own recording too."""
    (own,) = (node.root / "recordings").glob("*.timeline")
    now = node.json("report")["recordings"][0]
    for path in (saved, own):
        then = node.json("report", "--from", path)["recordings"][0]
        harness.equal(sorted(o["id"] for o in then["operations"]), sorted(o["id"] for o in now["operations"]), f"operations in {path.name}")
        harness.equal(then["phases"], now["phases"], f"phases in {path.name}") if path == saved else None
    both = node.expect(0, "report", "--from", saved, "--from", own, "--html", folder / "both.html")
    harness.equal(len(json.loads(Page((folder / "both.html").read_text()).data)["recordings"]), 2, "recordings in one page")
    table = node.expect(0, "report", "--from", saved, "--from", own).out
    harness.holds(table.splitlines()[0].count(".save") + table.splitlines()[0].count(".timeline") == 2, f"the comparison: {table}")
    # One that its writer has not finished is read as far as it goes; what is none is refused.
    (folder / "cut").write_bytes(saved.read_bytes()[:-3])
    node.expect(0, "report", "--from", folder / "cut")
    (folder / "none").write_text("nothing of the kind")
    node.expect(DATA_LOSS, "report", "--from", folder / "none")
    node.expect(NOT_FOUND, "report", "--from", folder / "missing")
    node.expect(USAGE, "report", "--from", saved, "--last", "1h")


def checks(node, saved):
    """Pauses that held what they promised pass, now and from a recording."""
    passed = node.expect(0, "report", "--check", "-o", "wide").out
    for rule in ("drop", "flat"):
        harness.holds(f"pass  {rule}" in passed, f"the rule {rule} was checked: {passed}")
    harness.holds(re.search(r"^(\d+) of \1 checks passed$", passed, re.M), f"all passed: {passed}")
    node.expect(0, "report", "--check", "--from", saved)


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("sizes are those of the simulated GPU")
    folder = node.root / "out"
    folder.mkdir()
    config = node.root / "parkaded.toml"
    config.write_text(f'[timeline]\ndir = "{node.root}/recordings"\n')
    node.start_daemon("--config", config)
    node.expect(STATE, "report", "--check")
    rollout, actor = (
        node.stepper("--buffers", 2, "--bytes", 40_000_000, env={"PARKADE_JOB": "rl", "PARKADE_ROLE": role, "PARKADE_RANK": "0"}) for role in ("rollout", "actor")
    )
    step(node, rollout, actor)
    tables(node, rollout, actor)
    saved = files(node, folder)
    recordings(node, saved, folder)
    checks(node, saved)
    node.expect(USAGE, "mark")
    for app in (rollout, actor):
        app.finish()


harness.scenario(run, gpu_bytes="2G")
