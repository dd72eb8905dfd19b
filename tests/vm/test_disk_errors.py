# SPDX-License-Identifier: GPL-2.0
"""A server's disk that fails, is read-only, or goes away: the client is told what happened."""

import errno

import pytest

import rnbd

# Opens a disk O_DIRECT and prints the errno of one read or write of 4 KiB at an offset.
PROBE = """
import errno, mmap, os, sys
disk, what, offset = sys.argv[1], sys.argv[2], int(sys.argv[3])
buffer = mmap.mmap(-1, 4096)
try:
    fd = os.open(disk, os.O_RDWR | os.O_DIRECT if what == "write" else os.O_RDONLY | os.O_DIRECT)
    done = os.pwritev(fd, [buffer], offset) if what == "write" else os.preadv(fd, [buffer], offset)
    print("OK" if done == 4096 else f"short: {done}")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@pytest.fixture(name="loaded")
def loaded_fixture(pair, modules):
    """Both sides loaded; the test unloads them and so checks for leftovers."""
    rnbd.load(pair)
    pair.client.put("/tmp/probe.py", PROBE)
    return pair


def probe(pair, disk, what, offset):
    """OK or the name of the errno."""
    return pair.client.out(f"python3 /tmp/probe.py {disk} {what} {offset}")


def test_errors_of_a_broken_disk(loaded):
    """A device-mapper target that fails: EIO there, and only there."""
    pair, server = loaded, loaded.server
    pair.allow("I/O error, dev", "Buffer I/O error on dev")
    device = rnbd.null_blk(server, "broken", 64)
    server.run("modprobe dm_mod && dmsetup create broken <<END\n"
               f"0 2048 linear {device} 0\n2048 2048 error\n4096 2048 linear {device} 4096\nEND")
    server.run("dmsetup mknodes")
    disk = rnbd.map_disk(pair, "/dev/mapper/broken")
    assert [probe(pair, disk, what, offset) for what in ("write", "read")
            for offset in (0, 1 << 20, 2 << 20)] == ["OK", "EIO", "OK"] * 2
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    server.run("dmsetup remove broken")
    rnbd.remove_null_blk(server, "broken")


def test_medium_error(loaded):
    """A SCSI disk with an unreadable sector: ENODATA, as on the server itself."""
    pair, server = loaded, loaded.server
    pair.allow("critical medium error", "I/O error, dev", "Buffer I/O error on dev",
               "Sense Key", "Add. Sense", "tag#", "CDB:")
    # opts=2: medium errors at the ten sectors from 0x1234 on
    server.run("modprobe sd_mod && modprobe scsi_debug dev_size_mb=16 opts=2 delay=0")
    device = "/dev/" + server.wait_for("ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/"
                                       "target*/*:*/block")
    disk = rnbd.map_disk(pair, device)
    assert probe(pair, disk, "read", 0) == "OK"
    assert probe(pair, disk, "read", 0x1234 * 512 // 4096 * 4096) == "ENODATA"
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    server.run("modprobe -r scsi_debug")


def test_read_only(loaded):
    """access_mode=ro: readable, not writable."""
    pair = loaded
    device = rnbd.null_blk(pair.server, "readonly", 64)
    disk = rnbd.map_disk(pair, device, access_mode="ro")
    assert pair.client.read(f"/sys/block/{disk[5:]}/ro") == "1"
    assert pair.client.read(f"/sys/block/{disk[5:]}/rnbd/access_mode") == "ro"
    assert probe(pair, disk, "read", 0) == "OK"
    assert probe(pair, disk, "write", 0) == "EPERM"
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "readonly")


def test_operations_the_disk_cannot_do(loaded):
    """Discard and secure erase on a disk without them are refused before they are sent."""
    pair = loaded
    device = rnbd.null_blk(pair.server, "plain", 64, discard=0)
    disk = rnbd.map_disk(pair, device)
    assert pair.client.read(f"/sys/block/{disk[5:]}/queue/discard_max_bytes") == "0"
    for option in ("", "-s"):
        result = pair.client.run(f"blkdiscard {option} {disk}", check=False)
        assert result.rc and "not supported" in result.err
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "plain")


def test_search_path(pair, modules):
    """dev_search_path with %SESSNAME%: each session sees its own disks."""
    server = pair.server
    pair.setup_rxe()
    device = rnbd.null_blk(server, "search", 64)
    server.run(f"mkdir -p /srv/one/vols && ln -sf {device} /srv/one/vols/disk0")
    rnbd.load(pair, rnbd_server__dev_search_path="/srv/%SESSNAME%/vols")
    assert server.read("/sys/module/rnbd_server/parameters/dev_search_path") == \
        "/srv/%SESSNAME%/vols"
    disk = rnbd.map_disk(pair, "disk0", session="one")
    nodes = f"/sys/class/rnbd-server/ctl/devices/{device[5:]}/sessions/one"
    assert server.read(f"{nodes}/mapping_path") == "disk0"
    assert server.read(f"{nodes}/access_mode") == "rw"
    assert server.read(f"{nodes}/read_only") == "0"
    with pytest.raises(OSError) as caught:
        rnbd.map_disk(pair, "disk0", session="two")
    assert caught.value.errno == errno.ENOENT
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.remove_null_blk(server, "search")
