# SPDX-License-Identifier: GPL-2.0
"""A disk at the client is what it is at the server: blocks, caches, discard, sizes."""

import errno
import itertools

import pytest

import rnbd

QUEUE = ("logical_block_size", "physical_block_size", "write_cache", "fua", "discard_max_bytes",
         "discard_granularity")
# Logical blocks, MiB of write cache, discard
KINDS = list(itertools.product((512, 4096), (0, 2), (0, 1)))
MIB = 1 << 20
# Heads, sectors, cylinders as HDIO_GETGEO tells them
GEOMETRY = """
import fcntl, struct, sys
with open(sys.argv[1], "rb") as disk:
    print(*struct.unpack("BBHL", fcntl.ioctl(disk, 0x301, bytes(16)))[:3])
"""


@pytest.fixture(name="loaded")
def loaded_fixture(pair, modules):
    """Both sides loaded; the test unloads them and so checks for leftovers."""
    rnbd.load(pair)
    return pair


def queue(guest, device, block):
    """What /sys/block/<disk>/queue says; the client discards whole blocks only."""
    found = {key: guest.read(f"/sys/block/{device[5:]}/queue/{key}") for key in QUEUE}
    found["discard_max_bytes"] = int(found["discard_max_bytes"]) // block * block
    return found


def expected(block, cache, discard):
    """What the queue of a null_blk must say; how much it can discard at once is up to it."""
    return {"logical_block_size": str(block), "physical_block_size": str(block),
            "write_cache": "write back" if cache else "write through",
            "fua": "1" if cache else "0", "discard": bool(discard)}


def fio_jobs(disk, block):
    """The smallest blocks and large ones, with flushes and forced writes."""
    return [{"filename": disk, "bs": block, "rw": "randwrite", "iodepth": 16,
             "size": 256 * block, "fsync": 32},
            {"filename": disk, "bs": 65536, "rw": "randrw", "iodepth": 4, "size": MIB,
             "offset": 2 * MIB, "sync": "dsync"}]


def discard_in_the_middle(pair, disk, device):
    """A discarded MiB reads as zeroes at both ends; what is around it stays."""
    command = (f"set -e; head -c 3M /dev/urandom >/tmp/data; dd if=/tmp/data of={disk} bs=1M "
               f"seek=8 oflag=direct status=none; blkdiscard -o {9 * MIB} -l {MIB} {disk}\n"
               "dd if=/dev/zero of=/tmp/data bs=1M count=1 seek=1 conv=notrunc status=none\n"
               "sha256sum </tmp/data")
    read = "dd if=%s bs=1M skip=8 count=3 iflag=direct status=none | sha256sum"
    wanted = pair.client.out(command)
    assert pair.client.out(read % disk) == wanted
    assert pair.server.out(read % device) == wanted


@pytest.mark.newest
def test_blocks_caches_and_discard(loaded):
    """Every combination of block size, write cache and discard: same at both ends, and it works.

    Row D23: the caches. Row D24: optimal_io_size. Row D26: a discard is one range.
    """
    pair, session = loaded, rnbd.new_session()
    devices = [rnbd.null_blk(pair.server, f"kind{number}", 32, blocksize=block, cache_size=cache,
                             discard=discard)
               for number, (block, cache, discard) in enumerate(KINDS)]
    disks = [rnbd.map_disk(pair, device, session) for device in devices]
    for kind, device, disk in zip(KINDS, devices, disks):
        there, here = queue(pair.server, device, kind[0]), queue(pair.client, disk, kind[0])
        assert here == there, kind
        del here["discard_granularity"]
        here["discard"] = here.pop("discard_max_bytes") > 0
        assert here == expected(*kind), kind
        hint, ranges = (int(pair.client.read(f"/sys/block/{disk[5:]}/queue/{key}"))
                        for key in ("optimal_io_size", "max_discard_segments"))
        assert hint % kind[0] == 0 and hint & (hint - 1) == 0, hint
        assert ranges == 1
    jobs = [job for kind, disk in zip(KINDS, disks) for job in fio_jobs(disk, kind[0])]
    rnbd.fio(pair.client, None, *jobs)
    for (_, _, discard), device, disk in zip(KINDS, devices, disks):
        if discard:
            discard_in_the_middle(pair, disk, device)
    for disk in disks:
        rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    for number in range(len(KINDS)):
        rnbd.remove_null_blk(pair.server, f"kind{number}")


# ---- other kinds of devices

def partition(server):
    """A partition of an odd size of a loop device that begins at an odd sector."""
    return server.out("set -e; modprobe loop; f=$(mktemp /var/tmp/loop.XXXXXX)\n"
                      "truncate -s 16M $f; d=$(losetup -P -f --show $f); rm $f\n"
                      "echo start=2049,size=20001 | sfdisk -q $d; echo ${d}p1")


def loop_with_large_blocks(server):
    """A loop device with blocks of 4096 bytes."""
    return server.out("set -e; modprobe loop; f=$(mktemp /var/tmp/loop.XXXXXX)\n"
                      "truncate -s 16M $f; losetup -b 4096 -f --show $f; rm $f")


def linear(server):
    """A piece of another disk, made by the device mapper."""
    device = rnbd.null_blk(server, "below", 64, blocksize=4096)
    server.run("set -e; modprobe dm_mod; dmsetup create piece --table "
               f"'0 40008 linear {device} 1032'; dmsetup mknodes")
    return "/dev/mapper/piece"


def emulated_blocks(server, exponent=3):
    """A SCSI disk with logical blocks of 512 bytes in physical ones of 4096 (or another size)."""
    server.run("modprobe sd_mod && "
               f"modprobe scsi_debug dev_size_mb=16 physblk_exp={exponent} delay=0")
    return "/dev/" + server.wait_for("ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/"
                                     "target*/*:*/block")


# How to make a device; its logical and physical blocks
OTHERS = [(partition, 512, 512), (linear, 4096, 4096), (loop_with_large_blocks, 4096, 4096),
          (emulated_blocks, 512, 4096)]


def sizes(guest, device):
    """Bytes of the disk, of a logical block, of a physical block."""
    return list(map(int, guest.out(f"blockdev --getsize64 --getss --getpbsz {device}").split()))


def last_block(pair, disk, device, size, block):
    """What the client writes to the last block is in the server's last one."""
    place = f"{size // block - 1}"
    pair.client.run(f"head -c {block} /dev/urandom >/tmp/last && dd if=/tmp/last of={disk} "
                    f"bs={block} seek={place} oflag=direct status=none")
    pair.server.run(f"dd if={device} bs={block} skip={place} iflag=direct status=none >/tmp/last")
    assert pair.server.get("/tmp/last") == pair.client.get("/tmp/last") != b""


@pytest.mark.newest
def test_other_devices(loaded):
    """A partition, a part of a disk, a loop device, 512e: same sizes at both ends, all of it usable.

    Row D14: the geometry is that of the sectors of 512 bytes.
    """
    pair, session = loaded, rnbd.new_session()
    devices = [make(pair.server) for make, _, _ in OTHERS]
    disks = [rnbd.map_disk(pair, device, session) for device in devices]
    for (_, logical, physical), device, disk in zip(OTHERS, devices, disks):
        there = sizes(pair.server, device)
        assert sizes(pair.client, disk) == there
        assert there[1:] == [logical, physical]
        assert pair.client.out(f"python3 -c '{GEOMETRY}' {disk}") == f"4 16 {there[0] // 512 // 64}"
        last_block(pair, disk, device, there[0], logical)
    rnbd.fio(pair.client, None, *(job for (_, block, _), disk in zip(OTHERS, disks)
                                  for job in fio_jobs(disk, block)))
    for disk in disks:
        rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    pair.server.run("dmsetup remove piece; losetup -D; modprobe -r scsi_debug")
    rnbd.remove_null_blk(pair.server, "below")


@pytest.mark.newest
def test_large_physical_blocks(loaded):
    """Row B24: 64 KiB do not fit into OPEN_RSP: the client is told of 32 KiB, and it works."""
    pair, server = loaded, loaded.server
    device = emulated_blocks(server, 7)
    there = sizes(server, device)
    assert there[1:] == [512, 65536]
    disk = rnbd.map_disk(pair, device)
    assert sizes(pair.client, disk) == [there[0], 512, 32768]
    last_block(pair, disk, device, there[0], 512)
    rnbd.fio(pair.client, None, *fio_jobs(disk, 512))
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    server.run("modprobe -r scsi_debug")


@pytest.mark.newest
def test_resize(loaded):
    """Row B35: what is no size is refused; the client believes any other; the server does not."""
    pair, server = loaded, loaded.server
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    below = rnbd.null_blk(server, "below", 64)
    large = rnbd.null_blk(server, "large", 16, blocksize=4096)
    server.run("modprobe dm_mod; dmsetup create grows --table "
               f"'0 32768 linear {below} 0' && dmsetup mknodes")
    session = rnbd.new_session()
    disk, disk4k = (rnbd.map_disk(pair, device, session) for device in ("/dev/mapper/grows", large))

    def size(disk):
        return pair.client.read(f"/sys/block/{disk[5:]}/size")

    def resize(disk, sectors):
        try:
            pair.client.write(f"/sys/block/{disk[5:]}/rnbd/resize", str(sectors))
        except OSError as error:
            return errno.errorcode[error.errno]
        return "OK"

    for sectors, wanted in (("x", "EINVAL"), ("-1", "EINVAL"), ("1 2", "EINVAL"),
                            (1 << 64, "ERANGE"), (1 << 62, "ERANGE"), (1 << 54, "ERANGE")):
        assert (sectors, resize(disk, sectors)) == (sectors, wanted)
    assert resize(disk4k, 32769) == "EINVAL" and size(disk4k) == "32768"
    server.run(f"dmsetup suspend grows && dmsetup load grows --table '0 65536 linear {below} 0' && "
               "dmsetup resume grows")
    assert size(disk) == "32768", "the server tells nobody"
    assert resize(disk, "0x10000\n") == "OK" and size(disk) == "65536"
    last_block(pair, disk, "/dev/mapper/grows", 32 * MIB, 512)
    assert resize(disk, 65544) == "OK"
    result = pair.client.run(f"dd if={disk} of=/dev/null bs=512 skip=65543 count=1 iflag=direct",
                             check=False)
    assert result.rc and "Input/output error" in result.err
    for each in (disk, disk4k):
        rnbd.unmap(pair, each)
    rnbd.unload(pair)
    server.run("dmsetup remove grows")
    for name in ("below", "large"):
        rnbd.remove_null_blk(server, name)


def test_zoned_device(loaded):
    """A zoned disk is refused, and the server's log says why."""
    pair, server = loaded, loaded.server
    device = rnbd.null_blk(server, "zoned", 64, zoned=1, zone_size=4)
    assert server.read(f"/sys/block/{device[5:]}/queue/zoned") == "host-managed"
    position = server.log.position()
    with pytest.raises(OSError) as caught:
        rnbd.map_disk(pair, device)
    assert caught.value.errno == errno.EOPNOTSUPP
    server.sync_log()
    assert [line for line in server.log.since(position)
            if "rnbd_server" in line and device in line and "zoned" in line]
    assert not pair.client.glob(f"{rnbd.CTL}/devices/*", "/sys/class/rtrs-client/*")
    rnbd.unload(pair)
    rnbd.remove_null_blk(server, "zoned")
