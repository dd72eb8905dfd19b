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


# How the server makes a disk that can go away ($DISK), how it goes away, how what is left is removed
VANISHING = {
    "scsi": ("modprobe sd_mod && modprobe scsi_debug dev_size_mb=16 delay=0\n"
             "for i in $(seq 50); do DISK=$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/"
             "target*/*:*/block) && break; sleep 0.1; done\nDISK=/dev/$DISK",
             "echo 1 >/sys/block/${DISK#/dev/}/device/delete", "modprobe -r scsi_debug"),
    "null_blk": ("modprobe null_blk nr_devices=0; mkdir /sys/kernel/config/nullb/gone\n"
                 "cd /sys/kernel/config/nullb/gone; echo 1 >memory_backed; echo 64 >size\n"
                 "echo 1 >power; DISK=/dev/gone; [ -b $DISK ] || DISK=/dev/nullb$(<index)",
                 "echo 0 >/sys/kernel/config/nullb/gone/power",
                 "rmdir /sys/kernel/config/nullb/gone"),
    "dm": ("modprobe -a dm_mod loop; truncate -s 64m /tmp/dm; L=$(losetup -f --show /tmp/dm)\n"
           "dmsetup create gone --table \"0 131072 linear $L 0\"; dmsetup mknodes\n"
           "DISK=/dev/mapper/gone",
           "dmsetup remove --force gone || :", "dmsetup remove gone; losetup -D; rm /tmp/dm"),
    "loop": ("modprobe loop; truncate -s 64m /tmp/loop; DISK=$(losetup -f --show /tmp/loop)",
             "losetup -d $DISK; truncate -s 0 /tmp/loop", "losetup -D; rm /tmp/loop"),
}


@pytest.mark.newest
@pytest.mark.parametrize("kind", VANISHING)
def test_disk_vanishes(loaded, kind):
    """The server's disk goes away under I/O: errors and a closed export, nothing hangs."""
    pair, server = loaded, loaded.server
    pair.allow("I/O error, dev", "Buffer I/O error on dev", "Synchronize Cache", "Sense Key",
               "Start/Stop Unit", r"loop\d+: detected capacity change", "lost async page write")
    make, vanish, clean = VANISHING[kind]
    device = server.out(f"set -e\n{make}\necho $DISK").split()[-1]
    disk = rnbd.map_disk(pair, device)
    assert probe(pair, disk, "write", 4096) == "OK"
    fio = pair.client.start_job(f"fio --name=v --filename={disk} --direct=1 --rw=randrw --bs=4k "
                                "--iodepth=8 --ioengine=libaio --time_based --runtime=100", 120)
    pair.client.wait_for(f"awk '{{exit $1 + $5 < 50}}' /sys/block/{disk[5:]}/stat", 30)
    server.run(f"DISK={device}\n{vanish}", 60)
    assert fio.wait(60, check=False).rc, "I/O must fail"
    # The file of a loop device grows again with what is written to it.
    assert kind == "loop" or probe(pair, disk, "read", 8 << 20) != "OK"
    if kind in ("scsi", "null_blk"):
        # Whoever only has it open would keep what is gone.
        server.wait_for("! ls /sys/class/rnbd-server/ctl/devices | grep .", 10)
    assert pair.client.read(f"/sys/block/{disk[5:]}/rnbd/state") == "open"
    rnbd.unmap(pair, disk)
    server.run(clean)
    rnbd.unload(pair)


def test_read_only(loaded):
    """Row D27: access_mode=ro: readable, not writable, and not to be made so."""
    pair = loaded
    device = rnbd.null_blk(pair.server, "readonly", 64)
    disk = rnbd.map_disk(pair, device, access_mode="ro")
    assert pair.client.read(f"/sys/block/{disk[5:]}/ro") == "1"
    assert pair.client.read(f"/sys/block/{disk[5:]}/rnbd/access_mode") == "ro"
    assert probe(pair, disk, "read", 0) == "OK"
    assert probe(pair, disk, "write", 0) == "EPERM"
    assert pair.client.run(f"blockdev --setrw {disk}", check=False).rc
    assert pair.client.read(f"/sys/block/{disk[5:]}/ro") == "1"
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
    """Row B29: dev_search_path with %SESSNAME% in the middle: each session sees its own disks."""
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


def test_path_that_is_too_long(pair, modules):
    """Row B33: what is too long together with the search path is refused, not cut."""
    rnbd.load(pair, rnbd_server__dev_search_path="/" + "d/" * 1990)
    for length, wanted in ((100, errno.ENOENT), (200, errno.EINVAL)):
        with pytest.raises(OSError) as caught:
            rnbd.map_disk(pair, "n" * length)
        assert caught.value.errno == wanted, length
    rnbd.unload(pair)
