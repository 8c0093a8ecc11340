"""Writes a tar of samples, one file of random bytes each: make_tar.py PATH SIZE TOTAL. Sizes vary by a tenth."""

import io
import random
import sys
import tarfile


def main():
    path, size, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(7)
    distinct = [rng.randbytes(rng.randint(size * 9 // 10, size * 11 // 10)) for _ in range(32)]
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        written = number = 0
        while written < total:
            member = tarfile.TarInfo(f"{number:07}.bin")
            data = rng.choice(distinct)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
            written += len(data)
            number += 1


if __name__ == "__main__":
    main()
