"""What Prometheus reads of the daemon is what happened, and the dashboard and the alerts ask for nothing else; the log has one line for each operation."""

import json
import re
import socket
import urllib.request

import harness

DEPLOY = harness.TREE / "scripts/deploy"
SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? ([^ ]+)$")
# Words of the query language and labels that look like names of metrics.
METRIC = re.compile(r"\b(?:parkade|process)_[a-z_]+")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Scrape:
    """One answer of the daemon: values by name and labels."""

    def __init__(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=harness.PATIENCE) as answer:
            text = answer.read().decode()
        self.values, self.types = {}, dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = SAMPLE.match(line).groups()
            self.values[name, tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels or "")))] = float(value)

    def names(self):
        return {name for name, _ in self.values}

    def value(self, name, **labels):
        """The sum over all that have these labels."""
        return sum(v for (n, l), v in self.values.items() if n == name and set(labels.items()) <= set(l))


def names_in(path):
    names = set(METRIC.findall(path.read_text()))
    harness.holds(names, f"{path} asks for metrics")
    return names


def only_what_there_is(scrape):
    for path in (DEPLOY / "grafana/parkade.json", DEPLOY / "prometheus/parkade.rules.yml"):
        missing = names_in(path) - scrape.names()
        harness.equal(missing, set(), f"metrics that {path.name} asks for and nobody exports")
    dashboard = json.loads((DEPLOY / "grafana/parkade.json").read_text())
    harness.holds(all(p["targets"] for p in dashboard["panels"]), "every panel of the dashboard asks something")


def documented(scrape):
    page = (harness.TREE / "docs/operations.md").read_text()
    for name, kind in scrape.types.items():
        if name.startswith("exposer_"):
            continue  # of the library's own, about its answers
        harness.holds(f"`{name}" in page, f"docs/operations.md tells of {name} ({kind})")
        # Counters say so, and nothing else does.
        harness.equal(name.endswith("_total"), kind == "counter", f"the name of {name}, a {kind}")


def counts(node, port, app):
    before = Scrape(port)
    harness.equal(before.value("parkade_rank_state", job="rl", state="running"), 1, "running processes")
    harness.equal(before.value("parkade_shim_connected"), 1, "connected shims")
    harness.holds(before.value("parkade_managed_bytes", job="rl", role="actor", rank="3") >= app.bytes, "HBM of the process")
    node.expect(0, "pause", app.pid, "--policy", "disk", "--elision", "off")  # so that all of it moves
    paused = Scrape(port)
    harness.equal(paused.value("parkade_managed_bytes", job="rl"), 0, "HBM of the paused process")
    harness.equal(paused.value("parkade_backup_bytes", target="disk"), node.process(app.pid)["disk_backup_bytes"], "its backup")
    harness.holds(paused.value("parkade_gpu_free_bytes") >= before.value("parkade_gpu_free_bytes") + app.bytes, "free HBM")
    harness.holds(paused.value("parkade_disk_written_bytes_total") >= app.bytes, "bytes written")
    node.expect(0, "resume", app.pid)
    resumed = Scrape(port)
    for op, scrape in (("pause", paused), ("resume", resumed)):
        for phase in ("gate", "drain", "move", "total"):
            harness.equal(scrape.value("parkade_transition_seconds_count", op=op, target="disk", phase=phase), 1, f"{op}s with phase {phase}")
    harness.holds(resumed.value("parkade_transfer_bytes_total", direction="in", target="disk") >= app.bytes, "bytes that came back")
    node.expect(3, "pause", 4_000_000)  # no pid
    harness.equal(Scrape(port).value("parkade_transition_failures_total", op="pause", reason="NO_PROCESS"), 1, "failures")


def log_lines(node, app):
    """Every line is an object; each operation has one, with its figures."""
    lines = [json.loads(line) for line in node.daemon_log.read_text().splitlines()]
    operations = [line for line in lines if line.get("event") == "operation"]
    harness.equal([(o["kind"], o["ok"], o["reason"]) for o in operations], [("pause", True, ""), ("resume", True, ""), ("pause", False, "NO_PROCESS")], "operations in the log")
    pause = operations[0]
    harness.equal((pause["pids"], pause["level"]), ([app.pid], "info"), "the pause's line")
    harness.holds(pause["disk_bytes"] >= app.bytes and 0 < pause["move_seconds"] <= pause["seconds"], f"its figures: {pause}")
    harness.holds(operations[2]["level"] == "warning", "a failure is a warning")


def start(node, port):
    config = node.root / "parkaded.toml"
    config.write_text(f'[daemon]\nlog_format = "json"\n[metrics]\nlisten = "127.0.0.1:{port}"\n[host]\nbudget = "1GiB"\n')
    node.start_daemon("--config", config)


def refused(node):
    """A listener that cannot be keeps the daemon from starting, with a sentence."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        try:
            start(node, taken.getsockname()[1])
        except AssertionError as error:
            harness.holds("metrics.listen: cannot listen at 127.0.0.1" in str(error), f"what the daemon says: {error}")
            return
    raise AssertionError("a daemon without the metrics that were asked for")


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("the bundle's daemon has no metrics: Debian has no static prometheus-cpp")
    port = free_port()
    refused(node)
    start(node, port)
    app = node.stepper("--buffers", 3, "--bytes", 20_000_000, env={"PARKADE_JOB": "rl", "PARKADE_ROLE": "actor", "PARKADE_RANK": "3"})
    app.step()
    counts(node, port, app)
    scrape = Scrape(port)
    only_what_there_is(scrape)
    documented(scrape)
    harness.equal(scrape.value("process_open_fds") > 5 and scrape.value("process_resident_memory_bytes") > 1 << 20, True, "figures of the daemon")
    log_lines(node, app)
    app.step()
    app.finish()
    harness.equal(node.stop_daemon(), 0, "the daemon's exit code")


harness.scenario(run, gpu_bytes="1G")
