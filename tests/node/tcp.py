"""With [tcp] in its configuration the daemon serves callers with a certificate that the authority has signed and
the configuration names; anybody else is refused."""

import os
import subprocess

import certificates
import harness

UNREACHABLE, DENIED = 6, 1


def configure(node, folder, **changes):
    tcp = {"listen": "localhost:0", "certificate": folder / "daemon.pem", "key": folder / "daemon.key",
           "client_ca": folder / "good.pem", **changes}
    text = "[tcp]\n" + "".join(f'{name} = "{value}"\n' for name, value in tcp.items())
    config = node.root / "parkaded.toml"
    config.write_text(text + 'clients = ["orchestrator", "spiffe://cluster/scheduler"]\n')
    return config


def refused_start(node, config, words):
    done = subprocess.run(
        [harness.BUILD / "bin/parkaded", "--runtime-dir", node.runtime, "--state-dir", node.root / "state", "--config", config],
        env=node.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.PATIENCE, check=False)
    harness.holds(done.returncode in (1, 2), f"the daemon must refuse {config.read_text()}: {done.returncode}")
    said = [line for line in done.stderr.splitlines() if line.startswith("parkaded: ")]
    harness.holds(len(said) == 1 and words in said[0], f"one line with {words!r}: {done.stderr!r}")


def run(node):
    folder = node.root / "certificates"
    folder.mkdir()
    certificates.authority(folder, "good")
    certificates.authority(folder, "evil")
    certificates.certificate(folder, "good", "daemon")
    certificates.certificate(folder, "good", "orchestrator")
    certificates.certificate(folder, "good", "by-uri", "URI:spiffe://cluster/scheduler")
    certificates.certificate(folder, "good", "somebody")
    certificates.certificate(folder, "evil", "forged", "DNS:orchestrator")

    config = configure(node, folder)
    (folder / "daemon.key").chmod(0o644)
    refused_start(node, config, "a key that others may read")
    (folder / "daemon.key").chmod(0o600)
    folder.chmod(0o777)
    refused_start(node, config, "can be changed by every user")
    folder.chmod(0o755)
    refused_start(node, configure(node, folder, key=folder / "somebody.key"), "is no certificate of")
    refused_start(node, configure(node, folder, client_ca=folder / "missing.pem"), "missing.pem cannot be read")
    if os.getuid() == 0:
        os.chown(folder / "good.pem", 65534, 65534)
        refused_start(node, configure(node, folder), "belongs to user 65534")
        os.chown(folder / "good.pem", 0, 0)

    node.start_daemon("--config", configure(node, folder))
    port = harness.wait_for("the daemon says its port", lambda: harness.re.search(r"serving localhost:0, port (\d+)", node.daemon_log.read_text()))[1]
    app = node.stepper("--buffers", 2, "--bytes", "5M")
    app.step()

    def remote(name, *words, ca="good"):
        return node.cli("--address", f"localhost:{port}", "--cert", folder / f"{name}.pem", "--key", folder / f"{name}.key",
                        "--ca", folder / f"{ca}.pem", "--timeout", "10s", *words)

    for name in ("orchestrator", "by-uri"):
        done = remote(name, "-o", "json", "ps")
        harness.equal(done.code, 0, f"{name}: {done.err.strip()}")
        harness.equal([p["pid"] for p in harness.json.loads(done.out)["processes"]], [app.pid], f"what {name} sees")
    harness.equal(remote("orchestrator", "pause", app.pid).code, 0, "a remote pause")
    harness.equal(node.state(app.pid), "paused", "state after it")
    harness.equal(remote("by-uri", "resume", app.pid).code, 0, "a remote resume")
    app.step()

    done = remote("somebody", "ps")
    harness.equal(done.code, DENIED, f"a name that is not configured: {done.err.strip()}")
    harness.holds("NOT_A_CLIENT" in done.err, f"the reason: {done.err.strip()}")
    harness.equal(remote("forged", "ps").code, UNREACHABLE, "another authority's certificate")
    harness.equal(remote("orchestrator", "ps", ca="evil").code, UNREACHABLE, "a daemon that the caller does not trust")
    bare = subprocess.run(["openssl", "s_client", "-ign_eof", "-connect", f"localhost:{port}", "-alpn", "h2", "-CAfile", folder / "good.pem"],
                          input="PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", capture_output=True, text=True, timeout=harness.PATIENCE, check=False)
    harness.holds("alert" in bare.stderr or bare.returncode, f"a caller without a certificate: {bare.stderr[-300:]}")
    harness.equal(node.state(app.pid), "running", "state after what strangers tried")
    app.finish()


harness.scenario(run)
