"""The Kubernetes recipe: its chart, rendered with its own values, is what the API server takes, as far as a schema of the
kinds that it uses says; names within it meet; what it repeats of the rest of the tree is the same there. Neither helm nor
kubeconform is packaged in Debian 12, so the chart keeps to three constructs, which `rendered` knows."""

import pathlib
import re
import sys

import jsonschema
import yaml

TREE = pathlib.Path(__file__).resolve().parents[2]
RECIPE = TREE / "scripts/deploy/kubernetes"

NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"}
STRINGS = {"type": "array", "items": {"type": "string"}}
LABELS = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}}
METADATA = {"type": "object", "properties": {"name": NAME, "labels": LABELS, "annotations": {"type": "object", "additionalProperties": {"type": "string"}}}, "additionalProperties": False}
PROBE = {"type": "object", "required": ["exec"], "additionalProperties": False, "properties": {
    "exec": {"type": "object", "required": ["command"], "properties": {"command": STRINGS}, "additionalProperties": False},
    **{name: {"type": "integer", "minimum": 1} for name in ("periodSeconds", "timeoutSeconds", "failureThreshold", "initialDelaySeconds")}}}
QUANTITIES = {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9]+(m|[KMGT]i)?$"}}
CONTAINER = {"type": "object", "required": ["name", "image"], "additionalProperties": False, "properties": {
    "name": NAME, "image": {"type": "string", "pattern": "^[a-z0-9./:_-]+$"}, "command": STRINGS, "args": STRINGS,
    "env": {"type": "array", "items": {"type": "object", "required": ["name"], "additionalProperties": False, "properties": {
        "name": {"type": "string", "pattern": "^[A-Z_0-9]+$"}, "value": {"type": "string"},
        "valueFrom": {"type": "object", "required": ["fieldRef"], "properties": {"fieldRef": {"type": "object", "required": ["fieldPath"]}}}}}},
    "securityContext": {"type": "object", "additionalProperties": False, "properties": {
        "allowPrivilegeEscalation": {"type": "boolean"},
        "capabilities": {"type": "object", "properties": {"add": STRINGS, "drop": STRINGS}, "additionalProperties": False}}},
    "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE,
    "resources": {"type": "object", "properties": {"requests": QUANTITIES, "limits": QUANTITIES}, "additionalProperties": False},
    "volumeMounts": {"type": "array", "items": {"type": "object", "required": ["name", "mountPath"], "additionalProperties": False, "properties": {
        "name": NAME, "mountPath": {"type": "string", "pattern": "^/"}, "readOnly": {"type": "boolean"}}}}}}
POD = {"type": "object", "required": ["containers"], "additionalProperties": False, "properties": {
    "priorityClassName": NAME, "hostPID": {"type": "boolean"}, "nodeSelector": LABELS, "terminationGracePeriodSeconds": {"type": "integer"},
    "tolerations": {"type": "array", "items": {"type": "object", "required": ["key", "operator"], "additionalProperties": False, "properties": {
        "key": {"type": "string"}, "operator": {"enum": ["Exists", "Equal"]}, "effect": {"enum": ["NoSchedule", "NoExecute"]}}}},
    "initContainers": {"type": "array", "items": CONTAINER}, "containers": {"type": "array", "minItems": 1, "items": CONTAINER},
    "volumes": {"type": "array", "items": {"type": "object", "required": ["name"], "additionalProperties": False, "properties": {
        "name": NAME,
        "hostPath": {"type": "object", "required": ["path", "type"], "properties": {"path": {"type": "string", "pattern": "^/"}, "type": {"enum": ["DirectoryOrCreate"]}}},
        "configMap": {"type": "object", "required": ["name"], "properties": {"name": NAME}}}}}}}


def kind(version, name, **properties):
    return {"type": "object", "required": ["apiVersion", "kind", "metadata", *properties], "additionalProperties": False,
            "properties": {"apiVersion": {"const": version}, "kind": {"const": name}, "metadata": METADATA, **properties}}


KINDS = {
    "ConfigMap": kind("v1", "ConfigMap", data={"type": "object", "additionalProperties": {"type": "string"}}),
    "Pod": kind("v1", "Pod", spec=POD),
    "DaemonSet": kind("apps/v1", "DaemonSet", spec={"type": "object", "required": ["selector", "template"], "additionalProperties": False, "properties": {
        "selector": {"type": "object", "required": ["matchLabels"], "properties": {"matchLabels": LABELS}},
        "updateStrategy": {"type": "object"},
        "template": {"type": "object", "required": ["metadata", "spec"], "properties": {"metadata": METADATA, "spec": POD}, "additionalProperties": False}}}),
}
# https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md, version 0.6.0
CDI = {"type": "object", "required": ["cdiVersion", "kind", "devices"], "additionalProperties": False, "properties": {
    "cdiVersion": {"const": "0.6.0"}, "kind": {"type": "string", "pattern": r"^[a-z0-9.-]+\.[a-z]+/[A-Za-z][A-Za-z0-9_-]*$"},
    "devices": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name", "containerEdits"], "additionalProperties": False, "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:-]*$"},
        "containerEdits": {"type": "object", "additionalProperties": False, "properties": {
            "env": {"type": "array", "items": {"type": "string", "pattern": "^[A-Z_]+=."}},
            "mounts": {"type": "array", "items": {"type": "object", "required": ["hostPath", "containerPath"], "additionalProperties": False, "properties": {
                "hostPath": {"type": "string", "pattern": "^/"}, "containerPath": {"type": "string", "pattern": "^/"}, "options": STRINGS}}}}}}}}}}


def rendered(text, scope):
    """`{{ .A.b }}` and `{{ toYaml .A.b | nindent N }}`; anything else is refused."""
    def value(path):
        found = scope
        for part in path.strip(".").split("."):
            found = found[part]
        return found

    def fill(match):
        plain = re.fullmatch(r"\.[\w.]+", match[1])
        if plain:
            return str(value(match[1]))
        block = re.fullmatch(r"toYaml (\.[\w.]+) \| nindent (\d+)", match[1])
        if not block:
            raise AssertionError(f"a construct that this test does not know: {match[0]}")
        written = yaml.safe_dump(value(block[1]), default_flow_style=False, default_style="|" if isinstance(value(block[1]), str) else None)
        head, _, rest = written.partition("\n") if written.startswith("|") else ("", "", written)
        lines = [line for line in rest.splitlines() if line != "..."]
        return head + "\n" + "\n".join(" " * int(block[2]) + line.strip() if head else " " * int(block[2]) + line for line in lines)

    return re.sub(r"\{\{ (.*?) \}\}", fill, text)


def equal(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, must be {wanted!r}")


def mounts_meet(pod):
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod.get("initContainers", []) + pod["containers"]:
        used = {mount["name"] for mount in container.get("volumeMounts", [])}
        equal(used - volumes, set(), f"mounts of {container['name']} without a volume")


def main():
    chart = yaml.safe_load((RECIPE / "chart/Chart.yaml").read_text())
    values = yaml.safe_load((RECIPE / "chart/values.yaml").read_text())
    scope = {"Values": values, "Chart": {"AppVersion": chart["appVersion"]}}
    made = {}
    for template in sorted((RECIPE / "chart/templates").iterdir()):
        document = yaml.safe_load(rendered(template.read_text(), scope))
        jsonschema.validate(document, KINDS[document["kind"]])
        made[document["kind"]] = document
    equal(sorted(made), ["ConfigMap", "DaemonSet"], "kinds of the chart")

    set_ = made["DaemonSet"]["spec"]
    equal(set_["selector"]["matchLabels"].items() <= set_["template"]["metadata"]["labels"].items(), True, "the selector finds its pods")
    mounts_meet(set_["template"]["spec"])
    config = made["ConfigMap"]["data"]
    equal(config["parkaded.toml"], values["config"], "the configuration as it is mounted")
    cdi = yaml.safe_load(config["parkade-cdi.yaml"])
    jsonschema.validate(cdi, CDI)
    pod = yaml.safe_load((RECIPE / "pod.yaml").read_text())
    jsonschema.validate(pod, KINDS["Pod"])
    equal(pod["metadata"]["annotations"]["cdi.k8s.io/parkade"], f"{cdi['kind']}={cdi['devices'][0]['name']}", "what the pod asks for")

    version = re.search(r"project\(parkade VERSION (\S+)", (TREE / "CMakeLists.txt").read_text())[1]
    equal({chart["version"], chart["appVersion"], values["image"].partition(":")[2]}, {version}, "versions")
    wrong = yaml.safe_load(rendered((RECIPE / "chart/templates/daemonset.yaml").read_text(), scope))
    wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    try:
        jsonschema.validate(wrong, KINDS["DaemonSet"])
    except jsonschema.ValidationError:
        return
    sys.exit("a key that does not exist must not pass")


main()
