"""The wheel as it is installed: its program, its libraries, and states that others wrote."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import penstock as ps

PACKAGE = pathlib.Path(ps.__file__).parent
ROOT = pathlib.Path(__file__).parents[2]

PIPELINE = """
[source]
kind = "range"
stop = 100
[[stages]]
kind = "shuffle"
[[stages]]
kind = "batch"
size = 8
[run]
seed = 5
"""


def execute(*words):
    """A program that has ended."""
    environment = dict(os.environ)
    if words[0] != sys.executable:
        environment.pop("LD_PRELOAD", None)  # a sanitizer's, for the module
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False, env=environment)


def run(*words):
    """The output of a program that succeeds."""
    result = execute(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def installed():
    if not (PACKAGE / "penstock").is_file():
        pytest.skip("the module is not of a wheel")


def test_libraries_are_in_the_wheel(installed):
    base = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libresolv.so.2",
            "libz.so.1", "linux-vdso.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
    inside = {path.name for path in PACKAGE.parent.glob("penstock.libs/*")} | {path.name for path in PACKAGE.iterdir()}
    files = [*PACKAGE.glob("*.so"), PACKAGE / "penstock"]
    assert len(files) >= 4
    for file in files:
        for line in run("ldd", file).splitlines():
            name = pathlib.Path(line.split()[0]).name
            assert name in base or name in inside and str(PACKAGE.parent) in line, f"{file.name}: {line}"


def test_command(installed):
    command = pathlib.Path(sys.executable).parent / "penstock"
    assert run(command, "--version").startswith(ps.__version__ + "\n")
    assert "100 elements" in run(command, "profile", "--synthetic", "count=100,bytes=8")
    for words in (["train"], ["train", "--model", "resnet50"]):
        refused = subprocess.run([command, *words], capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == 2 and "no subcommand train: this penstock was built without" in refused.stderr


def test_states_of_the_program_and_of_python(program, tmp_path):
    file, state, digests = tmp_path / "p.toml", tmp_path / "state", tmp_path / "digests"
    file.write_text(PIPELINE)
    dataset = ps.Dataset.from_toml(file)
    batches = [batch["value"].tolist() for batch in dataset.iterate(seed=5)]

    run(program, "profile", "--pipeline", file, "--batches", 4, "--state", state, "--digests", digests)
    resumed = dataset.restore(ps.load_state(state))
    assert [next(resumed)["value"].tolist() for _ in range(3)] == batches[4:7]

    ps.save_state(state, resumed.state())
    run(program, "profile", "--pipeline", file, "--state", state, "--digests", digests)
    rest = digests.read_text().splitlines()
    ps.save_state(state, resumed.state())
    refused = execute(program, "profile", "--pipeline", file, "--seed", "6", "--state", state, "--digests", tmp_path / "d")
    assert refused.returncode == 2 and "saved with seed 5, not 6" in refused.stderr
    run(program, "profile", "--pipeline", file, "--state", tmp_path / "other", "--digests", digests)
    whole = digests.read_text().splitlines()
    # A line begins with the place of its batch, which the program counts from where it began.
    assert [line.split()[2:] for line in rest] == [line.split()[2:] for line in whole[7:]] and len(rest) == 6


def test_states_of_two_ranks_for_the_program(program, tmp_path):
    def shard(count, index):
        file = tmp_path / f"{index}-of-{count}.toml"
        file.write_text(PIPELINE.replace('kind = "batch"\nsize = 8', f'''kind = "shard"
count = {count}
index = {index}
[[stages]]
kind = "batch"
size = 2''').replace("seed = 5", ""))
        return file

    states, seen = [tmp_path / f"state{rank}" for rank in range(2)], 0
    for rank, state in enumerate(states):
        with ps.Dataset.from_toml(shard(2, rank)).iterate(seed=9) as rank_run:
            seen += sum(next(rank_run).valid_rows for _ in range(6))
            ps.save_state(state, rank_run.state())
    rest = 0
    for rank in range(4):
        digests = tmp_path / f"digests{rank}"
        words = ["profile", "--pipeline", shard(4, rank), "--resume-from", *states, "--state", tmp_path / f"r{rank}",
                 "--digests", digests]
        run(program, *words, "--batches", 1)
        report = json.loads(run(program, *words, "--json", "-"))
        assert report["seed"] == 9
        rest += sum(int(line.split()[2]) for line in digests.read_text().splitlines())
    assert seen == 24 and seen + rest == 100


def test_example(photographs, tmp_path):
    def images(*words):
        return run(sys.executable, ROOT / "examples/python/images.py", *words)

    folder = tmp_path / "photos"
    folder.mkdir()
    for photograph in sorted(pathlib.Path(photographs).rglob("*.*"))[:40]:
        (folder / photograph.name).symlink_to(photograph)
    whole = images(folder).splitlines()[:-1]
    assert images(folder, tmp_path / "state").splitlines()[:-1] == whole
    assert images(folder, tmp_path / "state").splitlines()[:-1] == []
    missing = subprocess.run([sys.executable, ROOT / "examples/python/images.py", "nowhere"], capture_output=True,
                             text=True, timeout=60, check=False)
    assert missing.returncode == 1 and missing.stderr == "images.py: no such file or folder: nowhere\n"
