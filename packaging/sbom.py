"""Prints what the given .deb files of one version contain and are linked with, as SPDX 2.3 in JSON."""

import datetime
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# What is compiled in: the Debian package it comes from, its licence, and whose files have it.
COMPILED_IN = {
    "libstdc++-12-dev": ("GPL-3.0-or-later WITH GCC-exception-3.1", ["libparkade"]),
    "libxxhash-dev": ("BSD-2-Clause", ["libparkade", "parkaded"]),
    "libtomlplusplus-dev": ("MIT", ["parkaded"]),
    "libcli11-dev": ("BSD-3-Clause", ["parkaded", "parkade"]),
    "nlohmann-json3-dev": ("MIT", ["parkade"]),
}


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def identifier(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(words))


def digest(path, kind="sha256"):
    return hashlib.new(kind, pathlib.Path(path).read_bytes()).hexdigest()


@functools.cache
def version_of(package):
    """The version that is installed here, where the files were built."""
    return run("dpkg-query", "-W", "-f", "${Version}", package)


@functools.cache
def package_of(library):
    """The Debian package of a library by its soname."""
    places = run("/sbin/ldconfig", "-p")
    path = os.path.realpath(re.search(rf"^\s*{re.escape(library)} .*x86-64.* => (\S+)", places, re.MULTILINE)[1])
    # By pattern: packages name files in /lib, which is /usr/lib.
    found = subprocess.run(["dpkg-query", "-S", f"*/{os.path.basename(path)}"], capture_output=True, text=True, check=False).stdout
    for line in found.splitlines():
        package, _, file = line.partition(": ")
        if os.path.realpath(file) == path:
            return package.split(":")[0]
    raise SystemExit(f"no package has {path}")


class Document:
    def __init__(self):
        self.packages, self.files, self.relationships = {}, [], []

    def relate(self, one, kind, other):
        self.relationships.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    def debian(self, name, licence="NOASSERTION"):
        """A package of Debian's; its identifier."""
        one = identifier("Debian", name)
        version = version_of(name)
        self.packages.setdefault(one, {
            "name": name, "SPDXID": one, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION", "supplier": "Organization: Debian",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{name}@{version}?distro=bookworm"}],
        })
        return one

    def add(self, deb):
        """One of our packages with its files, and what they need."""
        name, version = run("dpkg-deb", "-f", deb, "Package").strip(), run("dpkg-deb", "-f", deb, "Version").strip()
        one = identifier("Package", name)
        digests = []
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "-x", deb, folder)
            for path in sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file() and not path.is_symlink()):
                inside = str(path.relative_to(folder))
                digests.append(digest(path, "sha1"))
                file = identifier("File", name, inside)
                self.files.append({
                    "fileName": f"./{inside}", "SPDXID": file, "licenseConcluded": "Apache-2.0", "licenseInfoInFiles": ["NOASSERTION"],
                    "copyrightText": "NOASSERTION",
                    "checksums": [{"algorithm": kind.upper(), "checksumValue": digest(path, kind)} for kind in ("sha1", "sha256")],
                })
                self.relate(one, "CONTAINS", file)
                if path.read_bytes()[:4] == b"\x7fELF":
                    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", path))
                    for library in sorted({package_of(library) for library in needed}):
                        self.relate(file, "DYNAMIC_LINK", self.debian(library))
        self.packages[one] = {
            "name": name, "SPDXID": one, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
            "packageFileName": os.path.basename(deb), "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
            "licenseInfoFromFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION", "supplier": "Organization: Parkade",
            # As SPDX 2.3, 7.9: of the sorted digests of its files.
            "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sorted(digests)).encode()).hexdigest()},
            "checksums": [{"algorithm": "SHA256", "checksumValue": digest(deb)}],
        }
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", one)
        for library, (licence, users) in COMPILED_IN.items():
            if name in users:
                self.relate(one, "STATIC_LINK", self.debian(library, licence))
        for dependency in re.findall(r"(?:^|, )([a-z0-9.+-]+)", run("dpkg-deb", "-f", deb, "Depends").strip()):
            other = identifier("Package", dependency)
            ours = dependency in ("parkade", "parkaded", "libparkade", "libparkade-dev", "python3-parkade")
            self.relate(one, "DEPENDS_ON", other if ours else self.debian_by_name(dependency))
        return version

    def debian_by_name(self, name):
        """A dependency that need not be installed where this runs."""
        if subprocess.run(["dpkg-query", "-W", name], capture_output=True, check=False).returncode == 0:
            return self.debian(name)
        one = identifier("Debian", name)
        self.packages.setdefault(one, {"name": name, "SPDXID": one, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                                       "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"})
        return one

    def json(self, version):
        when = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or int(datetime.datetime.now().timestamp())
        content = json.dumps([self.packages, self.files, self.relationships], sort_keys=True)
        return {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"parkade-{version}",
            "documentNamespace": f"https://parkade.invalid/spdx/{version}/{hashlib.sha256(content.encode()).hexdigest()}",
            "creationInfo": {"created": datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: parkade-sbom"]},
            "packages": list(self.packages.values()), "files": self.files, "relationships": self.relationships,
        }


def main(debs):
    document = Document()
    versions = {document.add(deb) for deb in debs}
    if len(versions) != 1:
        raise SystemExit(f"packages of one version are expected: {versions}")
    json.dump(document.json(versions.pop()), sys.stdout, indent=1)
    print()


main(sys.argv[1:])
