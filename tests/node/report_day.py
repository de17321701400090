"""The page of a whole day, of 8 GPUs with three processes each, is small, and opens at once where there is a Chromium to try it."""

import re
import resource
import shutil
import subprocess

import harness

MOST_BYTES = 5_000_000
MOST_SECONDS = 2.0


def browser():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def opens(node, program, page):
    """The page runs to its end without an error; what of it took the processor's time, whoever else wanted that."""
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={node.root}/browser",
        "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom", "about:blank",
    ]
    times = []
    for address in ("about:blank", page.as_uri()):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*command[:-1], address], capture_output=True, text=True, timeout=200, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime)
    harness.holds(not re.search(r"CONSOLE.*(Error|error)", done.stderr), f"errors of the page: {done.stderr[-2000:]}")
    harness.holds(re.search(r'data-ready-ms="\d+"', done.stdout), "the page came to its end")
    harness.holds(done.stdout.count("<canvas") >= 3, "charts were drawn")
    # Of its own: what the browser takes for an empty page is no matter of ours.
    harness.holds(times[1] - times[0] < MOST_SECONDS, f"processor time of the page: {times[1] - times[0]:.2f} s")


def run(node):
    if harness.ON_CARD:
        raise harness.Skip("the bundle has no writer of days")
    written = subprocess.run([harness.BUILD / "bin/day_timeline", node.root / "day"], capture_output=True, text=True, check=True)
    recording = written.stdout.strip()
    page = node.root / "day.html"
    node.expect(0, "report", "--from", recording, "--html", page)
    size = page.stat().st_size
    harness.holds(size < MOST_BYTES, f"the page has {size} bytes")
    day = node.json("report", "--from", recording)["recordings"][0]
    harness.holds(day["length"] >= 24 * 3600 * 1000 - 20_000, f"its length: {day['length']}")
    harness.equal([c["kind"] for c in day["charts"]], ["gpu"] * 8 + ["host", "disk"], "charts")
    for chart in day["charts"]:
        harness.holds(len(chart["steps"]) <= 2402, f"moments of {chart['title']}: {len(chart['steps'])}")
    # The highest that a GPU was is not thinned away: 90 GiB of the one engine, 102 of the other, in 1 KiB.
    optimizer = next(l for l in day["charts"][0]["layers"] if l["tag"] == "optimizer")
    harness.equal(max(optimizer["runs"][1::2]), 45 << 20, "the optimizer's peak")
    svg = node.root / "day.svg"
    node.expect(0, "report", "--from", recording, "--svg", svg)
    harness.holds(svg.stat().st_size < MOST_BYTES, f"the picture has {svg.stat().st_size} bytes")
    program = browser()
    if program is None:
        raise harness.Skip("no Chromium to open the page with; its size and data are right")
    opens(node, program, page)


harness.scenario(run)
