# SPDX-License-Identifier: GPL-2.0
"""What every pair of client and server must do, ours or mainline's, of whatever kernels."""

import rnbd

SIZES = ({"bs": "512", "rw": "randwrite", "size": "512k", "iodepth": 8},
         {"bs": "4k", "rw": "randwrite", "size": "4m", "iodepth": 8},
         {"bs": "128k", "rw": "randwrite", "size": "16m", "iodepth": 8},
         {"bs": "1m", "rw": "write", "size": "32m", "iodepth": 4})


# The kernels whose modules of mainline do not say yet whether a disk has a write cache, and
# those that know no write zeroes yet
NO_CACHE_POLICY = {"5.10"}
NO_WRITE_ZEROES = {"5.10", "6.1"}


def exercise(pair, mainline=frozenset()):
    """What every pair must do: verified writes of all sizes, flush, discard, write zeroes.

    mainline: the versions of mainline's modules that take part
    """
    client = pair.client
    device = rnbd.null_blk(pair.server, "interop", 256, discard=1, cache_size=4)
    disk = rnbd.map_disk(pair, device)
    name = disk[5:]
    # Mainline's default policy fails I/O where the kernel itself is preempted.
    for policy in client.glob("/sys/class/rtrs-client/*/mpath_policy"):
        client.write(policy, "round-robin")
    if not mainline & NO_CACHE_POLICY:
        assert client.read(f"/sys/block/{name}/queue/write_cache") == "write back"
    rnbd.fio(client, disk, *SIZES)
    client.run(f"dd if=/dev/urandom of={disk} bs=64k count=16 oflag=direct conv=fsync")
    client.run(f"dd if=/dev/urandom of={disk} bs=4k count=4 oflag=direct,dsync")
    client.run(f"blkdiscard -o 0 -l 65536 {disk}")
    assert zeroes(client, disk, 65536), "discarded blocks of null_blk read as zeroes"
    rnbd.unmap(pair, disk)

    disk = rnbd.map_disk(pair, "/dev/disk/vmlab/data")
    name = disk[5:]
    offered = int(client.read(f"/sys/block/{name}/queue/write_zeroes_max_bytes")) > 0
    assert offered == (not mainline & NO_WRITE_ZEROES)
    client.run(f"dd if=/dev/urandom of={disk} bs=64k count=2 oflag=direct")
    client.run(f"blkdiscard -z -o 0 -l 65536 {disk}")
    assert zeroes(client, disk, 65536), "write zeroes did not write zeroes"
    assert not zeroes(client, disk, 131072), "write zeroes wrote too much"
    rnbd.unmap(pair, disk)
    rnbd.remove_null_blk(pair.server, "interop")


def zeroes(guest, disk, length):
    """True if the disk begins with that many zero bytes."""
    return guest.run(f"dd if={disk} bs=64k count={length // 65536} iflag=direct status=none | "
                     f"cmp -s -n {length} - /dev/zero", check=False).rc == 0


def run(pair, mainline, client="ours", server="ours", invalidate="Y"):
    """Load both sides, each "ours" or "mainline", exercise() them, unload, see nothing left."""
    versions = set()
    for guest, role, whose in ((pair.server, "server", server), (pair.client, "client", client)):
        if whose == "mainline":
            versions.add(guest.suite.version)
            pair.setup_rxe()
            mainline.load(guest, role, rtrs_server__always_invalidate=invalidate)
    rnbd.load(pair, server=server == "ours", client=client == "ours",
              **({"rtrs_server__always_invalidate": invalidate} if server == "ours" else {}))
    exercise(pair, versions)
    for guest, role, whose in ((pair.client, "client", client), (pair.server, "server", server)):
        if whose == "mainline":
            mainline.unload(guest, role)
        else:
            rnbd.remove_module(guest, f"rnbd_{role}")
            rnbd.assert_gone(guest)
