"""The bench itself, on the simulated GPU: it measures every suite, writes what it says it writes, refuses bad input
before it starts anything, and leaves nothing behind, also when it is killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))
import harness  # noqa: E402

BENCH = pathlib.Path(__file__).with_name("bench.py")
SUITES = ["host", "segments", "disk", "chunks", "auto", "write-behind", "prefetch", "changed", "handoff", "handoff-tight", "prewarmed", "stores"]


def holds(condition, what):
    if not condition:
        sys.exit(f"bench_test: {what}")


def run(folder, *words):
    env = dict(os.environ, PARKADE_TEST_DISK=folder, TMPDIR=folder, SIM_GPUS="2")
    return subprocess.run([sys.executable, BENCH, *words], env=env, capture_output=True, text=True, check=False)


def measures(folder):
    file = pathlib.Path(folder) / "figures.json"
    done = run(folder, "--suite", ",".join(SUITES), "--rounds", "1", "--chunk", "16M", "--json", str(file))
    holds(done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    written = json.loads(file.read_text())
    file.unlink()
    holds(written["schema"] == 1, "the schema's version")
    holds({"date", "command", "kernel", "cores", "parkade", "scratch_file_system"} <= set(written["machine"]), f"{written['machine']}")
    holds({figure["suite"] for figure in written["figures"]} == set(SUITES), "figures of every suite")
    for figure in written["figures"]:
        holds(any(figure[column] for column in ("limit", "ours")), f"values of {figure}")
        for column in ("limit", "ours", "peer"):
            values = figure[column]
            holds(not values or values["lowest"] <= values["median"] <= values["highest"], f"{column} of {figure}")
        holds(figure["figure"] in done.stdout, f"{figure['figure']} in the table")
    with_ratio = [f for f in written["figures"] if f["suite"] == "disk"]
    holds(len(with_ratio) == 2 and all(f["ratio"] > 0 for f in with_ratio), f"ratios to the disk: {with_ratio}")
    stores = {f["figure"]: f for f in written["figures"] if f["suite"] == "stores"}
    for buckets in (32, 64):
        for encoding in ("fp32", "bf16 moments", "lo16, bf16 moments", "lo16, q8 moments"):
            step = stores[f"step, {encoding}, {buckets} buckets"]
            holds(step["ratio"] > 0, f"ratio to the disk: {step}")
            memory = stores[f"{encoding}, {buckets} buckets, device memory"]
            holds(memory["ours"]["median"] > 0 and memory["ratio"] <= 1, f"device memory within its mark: {memory}")
    holds(stores["step, fp32, 32 buckets in host memory"]["ratio"] > 0, "ratio to the link")
    beside = stores["step, fp32, beside one thing after the other"]
    holds(beside["ours"] and beside["peer"], f"ours and the peer: {beside}")


def refuses(folder):
    for words, said in (
        (["--suite", "hots"], "no suite hots"),
        (["--rounds", "0"], "'0'"),
        (["--chunk", "lots"], "'lots'"),
        (["--elements", "0"], "'0'"),
        (["--json", f"{folder}/no/such/folder/f"], "no folder"),
        (["--suite", "peer"], "--peer-tms"),
        (["--suite", "peer", "--peer-tms", f"{folder}/none.so"], "no file"),
        (["--peer-checkpoint"], "--suite"),
    ):
        done = run(folder, *words)
        holds(done.returncode == 2 and said in done.stderr, f"{words}: {done.returncode}, {done.stderr}")


def leaves_nothing(folder):
    env = dict(os.environ, PARKADE_TEST_DISK=folder, TMPDIR=folder, SIM_GPUS="2")
    process = subprocess.Popen([sys.executable, BENCH, "--suite", "disk", "--rounds", "1000"], env=env, stdout=subprocess.DEVNULL)
    end = time.monotonic() + harness.PATIENCE
    while not list(pathlib.Path(folder).glob("node-*/scratch/parkade-v1/*/data.0")):
        holds(process.poll() is None and time.monotonic() < end, "no backup was written")
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while os.listdir(folder):
        holds(time.monotonic() < end, f"left behind: {os.listdir(folder)}")
        time.sleep(0.01)


def main():
    with tempfile.TemporaryDirectory(prefix="bench-", dir=harness.disk()) as folder:
        refuses(folder)
        measures(folder)
        holds(os.listdir(folder) == [], f"left behind: {os.listdir(folder)}")
        leaves_nothing(folder)


main()
