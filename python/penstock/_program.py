"""The command `penstock` of the wheel."""

import os
import sys


def main() -> None:
    """Becomes the program, which lies beside this file."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "penstock")
    os.execv(program, ["penstock", *sys.argv[1:]])
