"""What the tests of the Python module share."""

import os
import pathlib
import subprocess
import sys

import pytest

import penstock

DATA = os.environ.get("PENSTOCK_DATA", "")


@pytest.fixture(scope="session")
def photographs() -> str:
    """A folder of JPEGs: real ones, or some that the program makes."""
    folder = os.path.join(DATA, "imagenet-sample")
    if not DATA or not os.path.isdir(folder):
        pytest.skip("PENSTOCK_DATA names no folder with imagenet-sample")
    return folder


@pytest.fixture
def run_python(tmp_path: pathlib.Path):
    """Runs a program in a process of its own, and returns it when it has ended."""

    def run(code: str, *, timeout: float = 60) -> subprocess.CompletedProcess:
        script = tmp_path / "program.py"
        script.write_text(code)
        return subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                              timeout=timeout, check=False)

    return run


@pytest.fixture(scope="session")
def program() -> str:
    """The program: that of the wheel, or that of the build in which the module lies."""
    package = pathlib.Path(penstock.__file__).parent
    for path in (package / "penstock", package.parents[1] / "bin" / "penstock"):
        if path.is_file():
            return str(path)
    pytest.skip("there is no program beside the module")
