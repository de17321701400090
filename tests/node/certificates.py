"""Certificates for scenarios over the network: an authority, and what it signs."""

import subprocess


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"openssl {words}: {done.stderr}")


def authority(folder, name):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem")
    return name


def certificate(folder, signer, name, san="DNS:localhost"):
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", request)
    extensions.write_text(f"subjectAltName={san}\n")
    openssl("x509", "-req", "-in", request, "-CA", folder / f"{signer}.pem", "-CAkey", folder / f"{signer}.key",
            "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", folder / f"{name}.pem")
    (folder / f"{name}.key").chmod(0o600)
