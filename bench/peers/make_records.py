"""Writes TFRecords of random bytes: make_records.py PATH SIZE TOTAL. Sizes vary by a tenth."""

import random
import struct
import sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def main():
    path, size, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(7)
    # A few distinct records, again and again: a checksum in Python takes long.
    distinct = []
    for _ in range(32):
        data = rng.randbytes(rng.randint(size * 9 // 10, size * 11 // 10))
        length = struct.pack("<Q", len(data))
        distinct.append(length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data)))
    with open(path, "wb") as out:
        written = 0
        while written < total:
            written += out.write(rng.choice(distinct))


if __name__ == "__main__":
    main()
