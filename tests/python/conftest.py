"""What the tests of the Python module share."""

import os
import pathlib
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import penstock

DATA = os.environ.get("PENSTOCK_DATA", "")


def png(pixels: np.ndarray) -> bytes:
    """A PNG of u8 [height, width, 3]."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, 3 * width)], 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(b"IEND", b""))


def checksum(data: bytes) -> bytes:
    """The masked CRC32C of a TFRecord."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(record: bytes) -> bytes:
    size = struct.pack("<Q", len(record))
    return size + checksum(size) + record + checksum(record)


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that holds bytes."""
    size, length = b"", len(content)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


def example(**features: bytes | list[int]) -> bytes:
    """A tf.Example of texts and of lists of numbers below 128."""
    return field(1, b"".join(
        field(1, field(1, name.encode()) + field(2, field(1, field(1, value)) if isinstance(value, bytes)
                                                 else field(3, field(1, bytes(value)))))
        for name, value in features.items()))


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
