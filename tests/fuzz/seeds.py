#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""seeds.py TARGET DIR -- write the seed inputs of a fuzz target into DIR.

They are the test vectors of tests/unit/vectors.txt behind the parameters that
the target takes from the front of its input.
"""

import pathlib
import re
import struct
import sys

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "unit" / "vectors.txt"


def load(path):
    """name -> bytes of all vectors"""
    vectors = {}
    for name, dump in re.findall(r"^\[(\w+)\]\n((?:[0-9a-f*].*\n)+)",
                                 path.read_text(), re.M):
        data, row = b"", b""
        repeat = False
        for line in dump.splitlines():
            if line == "*":
                repeat = True
                continue
            offset, _, text = line.partition(" ")
            while repeat and len(data) < int(offset, 16):
                data += row
            repeat = False
            assert len(data) == int(offset, 16), name
            row = bytes.fromhex(text)
            data += row
        vectors[name] = data
    return vectors


def seeds(target, v):
    """The inputs of one target"""
    def named(prefix):
        return [data for name, data in v.items() if name.startswith(prefix)]

    def pack(layout, *values):
        return struct.pack("<" + layout, *values)

    if target == "conn_req":
        return named("conn_req") + [v["conn_req_first"] + bytes(36)]
    if target == "conn_rsp":
        return [pack("B", geometry) + data for data in named("conn_rsp")
                for geometry in (0, 1)]
    if target == "reject":
        return named("conn_rsp") + [bytes(148)]
    if target == "info_req":
        return named("info_req")
    if target == "info_rsp":
        return [pack("HB", 3, 30) + v["info_rsp_inval"],
                pack("HB", 511, 30) + v["info_rsp_plain"]]
    if target == "imm":
        return [pack("IHI", imm, depth - 1, 131071)
                for imm in (0x48, 0x80140, 0x281020, 0xff9f020, 0xfa00020,
                            0x1a0000, 0x10000005, 0x20280005, 0x13580007,
                            0x80000000, 0x30000000)
                for depth in (1, 500, 512)]
    if target == "io_hdr":
        return [pack("IHB", off, 30, 0) + v[name] + pad
                for off, name in ((544, "write_hdr_32"), (8, "write_hdr_8"),
                                  (4128, "read_hdr_desc"),
                                  (32, "read_hdr_empty"))
                for pad in (b"", bytes(20))]
    if target == "rkey_rsp":
        return [pack("H", 511) + data for data in named("rkey_rsp")]
    if target == "sess_info":
        return [pack("B", 0) + v["sess_info"], pack("B", 1) + v["sess_info_rsp"]]
    if target == "open":
        return [v["open_rw"], v["open_ro"], v["open_migration"]]
    if target == "open_rsp":
        return named("open_rsp")
    if target == "close":
        return named("close")
    if target == "options":
        return [b"\x07" + text for text in (
            b"sessname=blktest device_path=/dev/ram0",
            b" sessname=s path=ip:10.0.0.1@ip:10.0.0.2 path=gid:fe80::1 "
            b"device_path=d dest_port=1234 access_mode=ro nr_poll_queues=-1\n",
            b"sessname=s device_path=d access_mode=migration access_mode=rw "
            + 7 * b"path=ip:1 ")]
    if target == "io":
        out = []
        for name, data in v.items():
            if name.startswith("io_"):
                op, size = data[16], struct.unpack("<I", data[20:24])[0]
                out.append(pack("BI", op not in (0, 2),
                                size if op < 2 else 0) + data)
        return out
    raise SystemExit(f"no seeds known for {target}")


def main(target, directory):
    """Write them"""
    out = pathlib.Path(directory)
    out.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(target, load(VECTORS))):
        (out / f"{target}-{number:02}").write_bytes(data)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
