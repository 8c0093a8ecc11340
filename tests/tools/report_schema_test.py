#!/usr/bin/env python3
"""docs/report.schema.json against reports of every kind: report_schema_test.py PROGRAM SCHEMA

Every report must be of its kind in the schema, and every field of the schema must be in some report. A report that lacks a
required field, or has one more, must be refused.
"""
import contextlib
import copy
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SCHEMA = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KEYWORDS = {"$schema", "title", "description", "$defs", "$ref", "type", "enum", "pattern", "minimum", "anyOf", "items", "properties",
            "required", "additionalProperties", "dependentRequired", "propertyNames"}
# Parts of the schema and fields that may be in no report: of a change by the engine, of one that gains, of a slow shard.
RARE = {"decision", "prize", "slow_shard"}
ALONE = {name: value for name, value in os.environ.items()
         if not re.match("PENSTOCK_|RANK$|WORLD_SIZE$|OMPI_|PMI_|PMIX_|SLURM_|TF_CONFIG$", name)}
ALONE["PENSTOCK_INDEX_DIR"] = "indices"


def is_type(value, name):
    if name in ("number", "integer"):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def problems(value, schema, at="", seen=None):
    """What of the value the schema refuses. The fields that it has are added to `seen`."""
    found = []
    assert not schema.keys() - KEYWORDS, f"this test knows no {schema.keys() - KEYWORDS}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        found += problems(value, SCHEMA["$defs"][name], at, seen)
        if seen is not None and isinstance(value, dict):
            seen.update((name, field) for field in value)
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, one) for one in types):
            return found + [f"{at}: {value!r} is no {' or '.join(types)}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        found.append(f"{at}: {value!r} is not {schema['pattern']}")
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        found.append(f"{at}: {value!r} is below {schema['minimum']}")
    if "anyOf" in schema:
        tried = [problems(value, one, at) for one in schema["anyOf"]]
        if all(tried):
            found += min(tried, key=len)
        else:
            problems(value, schema["anyOf"][tried.index([])], at, seen)
    if isinstance(value, list):
        for i, one in enumerate(value):
            found += problems(one, schema.get("items", {}), f"{at}[{i}]", seen)
    if isinstance(value, dict):
        own = schema.get("properties", {})
        needed = schema.get("required", []) + [each for one, all_of in schema.get("dependentRequired", {}).items() if one in value
                                               for each in all_of]
        found += [f"{at}: there is no {name}" for name in needed if name not in value]
        for name, one in value.items():
            found += problems(name, schema.get("propertyNames", {}), f"{at} name")
            rest = schema.get("additionalProperties", {})
            if name not in own and rest is False:
                found.append(f"{at}: the schema has no {name}")
            else:
                found += problems(one, own.get(name, rest), f"{at}.{name}", seen)
    return found


def run(*arguments, code=0, **variables):
    done = subprocess.run([PROGRAM, *map(str, arguments), "--quiet"], env={**ALONE, **variables}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.returncode == code, f"{arguments} ended with {done.returncode}, not {code}:\n{done.stderr}"
    return done


def has(feature):
    version = subprocess.run([PROGRAM, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return f"{feature} yes\n" in version


@contextlib.contextmanager
def worker():
    process = subprocess.Popen([PROGRAM, "serve", "--threads", "1"], env=ALONE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


@contextlib.contextmanager
def server(data):
    """Serves the data at every path, by ranges."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            first, last = (int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)) if asked else (0, len(data) - 1)
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", last + 1 - first)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"1"')
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data[first:last + 1])

        def log_message(self, *_):
            pass

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{serving.server_port}"
    finally:
        serving.shutdown()
        serving.server_close()


def synth(*arguments):
    subprocess.run([PROGRAM, "synth", *arguments], env=ALONE, stdout=subprocess.DEVNULL, timeout=300, check=True)


def reports():
    """Makes reports in this folder. Returns the kind of each file."""
    synth("photos", "--images", "60", "--size", "48x48")
    synth("odd", "--images", "20", "--size", "48x48", "--progressive")
    synth("bad", "--images", "40", "--size", "48x48", "--corrupt", "25%", "--fault", "truncate")
    synth("cifar", "--format", "cifar10", "--images", "96")
    decode = ("--random-resized-crop", "32", "--batch", "8")
    kinds = {"run.json": "run"}
    run("profile", "photos", "--shuffle", *decode, "--epochs", "2", "--digest", "--step-ms", "1", "--json", "run.json")
    state = ("profile", "odd", *decode, "--digests", "digests", "--state", "state", "--json")
    run(*state, "saved.json", "--batches", "1")
    run(*state, "resumed.json")
    run("profile", "bad", *decode, "--on-error", "skip", "--json", "skipped.json")
    run("profile", "bad", *decode, "--json", "failed.json", code=1)
    run("profile", "photos", *decode, "--device", "host:0,host:1", "--epochs", "2", "--step-ms", "2", "--json", "towers.json")
    kinds |= dict.fromkeys(("saved.json", "resumed.json", "skipped.json", "failed.json", "towers.json"), "run")
    if has("gRPC"):
        with worker() as address:
            run("profile", "photos", *decode, "--workers", address, "--local-threads", "0", "--json", "workers.json")
        kinds["workers.json"] = "run"
    else:
        RARE.update(("worker", "workers", "groups_of_workers", "groups_made_here"))
    if has("libcurl"):
        with server(b"a,b\n" + b"1,2\n" * 100) as address:
            run("profile", "--csv", f"{address}/data.csv", "--batch", "10", "--json", "remote.json")
        kinds["remote.json"] = "run"
    else:
        RARE.add("remote")
    for rank in ("0", "1"):
        run("profile", "photos", *decode, *(("--device", "host:0") if rank == "0" else ()), PENSTOCK_REPORT="rank-%r.json", RANK=rank,
            WORLD_SIZE="2")
        kinds[f"rank-{rank}.json"] = "process"
    subprocess.run([PROGRAM, "report", "merge", "rank-0.json", "rank-1.json", "--json", "merged.json"], env=ALONE, timeout=300,
                   stdout=subprocess.DEVNULL, check=True)
    data = "cifar/data_batch_1.bin"
    train = ("train", "--model", "cifar10", "--batch", "16", "--max-steps", "3", "--tower-threads", "1", "--eval-data", data, "--checkpoint",
             "kept", "--json")
    run(*train, "trained.json", "--data", data)
    run(*train, "followed.json", "--role", "evaluator")
    run("train", "--model", "cifar10", "--batch", "16", "--max-steps", "4", "--tower-threads", "1", "--data", data, "--device",
        "host:0,host:1", "--strategy", "async", "--json", "async.json")
    run("evaluate", "--model", "cifar10", "--variables", "kept", "--data", data, "--json", "evaluated.json")
    return kinds | {"merged.json": "merged", "trained.json": "training", "async.json": "training", "evaluated.json": "evaluation",
                    "followed.json": "evaluator", "kept/evaluations.jsonl": "recorded"}


def check_refusals(name, report, kind):
    """Every object of the report, without each required field of it and with one more."""
    def refuse(what):
        wrong = copy.deepcopy(report)
        at = wrong
        for part in path:
            at = at[part]
        what(at)
        assert problems(wrong, {"$ref": f"#/$defs/{kind}"}), f"{name}: a wrong report is accepted: {path}, {at}"

    todo = [((), report, SCHEMA["$defs"][kind])]
    while todo:
        path, value, schema = todo.pop()
        if "anyOf" in schema:
            schema = schema["anyOf"][0]
        schema = {**SCHEMA["$defs"].get(schema.get("$ref", "").removeprefix("#/$defs/"), {}), **schema}
        if isinstance(value, list) and value:
            todo.append(((*path, 0), value[0], schema["items"]))
        if not isinstance(value, dict) or schema.get("additionalProperties", True) is not False:
            continue
        refuse(lambda at: at.update(one_more=1))
        for field, one in value.items():
            if field in schema["required"]:
                refuse(lambda at: at.pop(field))
            todo.append(((*path, field), one, schema["properties"][field]))


def main():
    seen = set()
    kinds = reports()
    for name, kind in kinds.items():
        text = pathlib.Path(name).read_text(encoding="utf-8")
        report = json.loads(text.splitlines()[0] if name.endswith(".jsonl") else text)
        found = problems(report, {"$ref": f"#/$defs/{kind}"}, seen=seen) or problems(report, SCHEMA)
        assert not found, f"{name}:\n" + "\n".join(found)
        check_refusals(name, report, kind)
        others = [other for other in set(kinds.values()) - {kind} if not problems(report, {"$ref": f"#/$defs/{other}"})]
        assert not others, f"{name} is of {others} too"
    every = {(name, field) for name, one in SCHEMA["$defs"].items() for field in one.get("properties", {})
             if not {name, field} & RARE}
    assert not every - seen, f"in no report: {sorted(every - seen)}"
    silent = [(name, field) for name, one in SCHEMA["$defs"].items() for field, each in one["properties"].items()
              if not each.get("description") and "$ref" not in each]
    assert not silent, f"without a description: {silent}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
