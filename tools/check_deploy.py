#!/usr/bin/env python3
"""Checks what stands in deploy/: `check_deploy.py flags HELP` that each flag of `penstock train` and `serve` is in a --help,
which the file HELP holds; `check_deploy.py jobset FILE` a JobSet against the models of its fields in kubeflow-trainer-api, and
the pods in it as Jobs, written to stdout for kubernetes-validate; `check_deploy.py secrets` that no secret is a flag."""

import pathlib
import re
import sys

DEPLOY = pathlib.Path(__file__).resolve().parent.parent / "deploy"


def shell_flags(text):
    """Of `penstock train …`, its lines that continue, and the arrays that are handed to it."""
    text = "\n".join(line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#"))
    parts = re.findall(r"^common=\((.*?)\)$", text, re.MULTILINE | re.DOTALL)
    parts += re.findall(r"penstock train (.*)", text)
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(parts)))


def yaml_flags(text):
    """Of the containers whose command is penstock."""
    import yaml
    found = set()

    def look(node):
        if isinstance(node, dict):
            if node.get("command") == ["penstock"]:
                found.update(arg.split("=")[0] for arg in node.get("args", []) if arg.startswith("--"))
            node = list(node.values())
        if isinstance(node, list):
            for one in node:
                look(one)

    for document in yaml.safe_load_all(text):
        look(document)
    return found


def check_flags(help_file):
    known = set(re.findall(r"--[a-z][a-z-]*", pathlib.Path(help_file).read_text()))
    bad = 0
    for path in sorted(DEPLOY.iterdir()):
        text = path.read_text()
        if "penstock" not in text or path.name in ("Dockerfile", "etcd.yaml"):
            continue
        flags = yaml_flags(text) if path.suffix == ".yaml" else shell_flags(text)
        if len(flags) < 5:
            print(f"{path.name}: only {len(flags)} flags were found: is it read as it is written?")
            bad += 1
        for flag in sorted(flags - known):
            print(f"{path.name}: there is no flag {flag}")
            bad += 1
        print(f"{path.name}: {len(flags)} flags")
    return bad


def check_secrets():
    bad = 0
    for path in sorted(DEPLOY.iterdir()):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"BEGIN [A-Z ]*PRIVATE KEY|--token[= ]|(password|secret|token)\s*[:=]\s*['\"]?(?!/)[A-Za-z0-9+/]{16,}",
                         line, re.IGNORECASE):
                print(f"{path.name}:{number}: a secret in the file: {line.strip()[:60]}")
                bad += 1
    return bad


def missing(given, kept, where):
    """What a model did not take: it leaves out what it does not know."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [text for key, value in given.items() for text in
                ([f"{where}.{key}"] if key not in kept else missing(value, kept[key], f"{where}.{key}"))]
    if isinstance(given, list) and isinstance(kept, list):
        return [text for i, (a, b) in enumerate(zip(given, kept)) for text in missing(a, b, f"{where}[{i}]")]
    return []


def check_jobset(path):
    import yaml
    from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
    bad = 0
    for document in yaml.safe_load_all(pathlib.Path(path).read_text()):
        if (document["apiVersion"], document["kind"]) != ("jobset.x-k8s.io/v1alpha2", "JobSet"):
            sys.exit(f"{path}: no JobSet")
        kept = JobsetV1alpha2JobSet.from_dict(document).to_dict()
        for where in missing(document["spec"], kept["spec"], "spec"):
            print(f"{path}: a JobSet has no {where}", file=sys.stderr)
            bad += 1
        names = {job["name"] for job in document["spec"]["replicatedJobs"]}
        for name in document["spec"].get("successPolicy", {}).get("targetReplicatedJobs", []):
            if name not in names:
                print(f"{path}: successPolicy names {name}, which is not there", file=sys.stderr)
                bad += 1
        jobs = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, "spec": job["template"]["spec"]}
                for job in document["spec"]["replicatedJobs"]]
        yaml.Dumper.ignore_aliases = lambda *_: True
        yaml.dump_all(jobs, sys.stdout)
    return bad


def main():
    what, *rest = sys.argv[1:] or [""]
    checks = {"flags": check_flags, "jobset": check_jobset, "secrets": check_secrets}
    if what not in checks:
        sys.exit(__doc__)
    sys.exit(1 if checks[what](*rest) else 0)


if __name__ == "__main__":
    main()
