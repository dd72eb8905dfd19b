# SPDX-License-Identifier: GPL-2.0
"""The server loses power: what was acknowledged as durable is on its disk.

The disk is behind dm-log-writes, which logs a write when a flush or its own FUA has made it
durable: a disk with a volatile cache of any size.  A mark in the log is the moment of the power
cut; replayed up to there, the log is what the disk would have been found with.
"""

import itertools
import json

import pytest

import raw
import rnbd
from multipath import FAST
from raw import RawClient
from vmlab import forms, host

pytestmark = pytest.mark.newest

LOG = "/dev/disk/vmlab/data"
SIZE_MIB = 64
BLOCK = 4096

# Writes numbered blocks to a region of a disk, in batches; prints the number of the last block
# of a batch when the kernel says that it is durable.  Block k has k in it and goes to a place
# that follows from k.
WRITER = """
import itertools, mmap, os, struct, sys
disk, how, base, blocks, batch = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
flags = {"fdatasync": os.O_DIRECT, "dsync": os.O_DIRECT | os.O_DSYNC, "fsync": 0}[how]
fd = os.open(disk, os.O_WRONLY | flags)
buffer = mmap.mmap(-1, 4096)
for number in itertools.count(1):
    buffer[:] = struct.pack("<Q", number) * 512
    os.pwrite(fd, buffer, (base + number * 7 % blocks) * 4096)
    if number % batch == 0:
        if how != "dsync":
            getattr(os, how)(fd)
        print(number, flush=True)
"""
# Prints the number in each block of a region, -1 for a block that is not of one piece.
READER = """
import json, struct, sys
with open(sys.argv[1], "rb") as disk:
    disk.seek(int(sys.argv[2]) * 4096)
    found = [set(struct.unpack("<512Q", disk.read(4096))) for _ in range(int(sys.argv[3]))]
print(json.dumps([numbers.pop() if len(numbers) == 1 else -1 for numbers in found]))
"""
# Makes files and prints their numbers when they are durable.
FILES = """
import itertools, os, sys
for number in itertools.count(1):
    with open(f"/mnt/disk/{number}", "wb") as file:
        file.write(b"%d\\n" % number * (number % 3000))
        file.flush()
        os.fsync(file.fileno())
    if number % 10 == 0 and number > 50:
        os.unlink(f"/mnt/disk/{number - 50}")
    print(number, flush=True)
"""
# Checks the files up to a number.
CHECK = """
import os, sys
last = int(sys.argv[1])
for number in range(1, last + 1):
    name = f"/mnt/disk/{number}"
    if number % 10 == 0 and not os.path.exists(name):
        continue
    with open(name, "rb") as file:
        assert file.read() == b"%d\\n" % number * (number % 3000), f"{name} of {last}"
"""

_targets = itertools.count(1)


class Logged:
    """A disk of the server whose writes are logged, exported as /dev/mapper/logged."""

    path = "/dev/mapper/logged"

    def __init__(self, pair):
        self.server = pair.server
        backing = rnbd.null_blk(self.server, "backing", SIZE_MIB)
        self.server.put("/tmp/replay.py", (host.VM_DIR / "guest" / "replay.py").read_bytes())
        # An old log has no power over a new one.
        self.server.run(f"dd if=/dev/zero of={LOG} bs=1M count=1 oflag=direct status=none\n"
                        "modprobe -a dm_mod dm_log_writes && dmsetup create logged --table "
                        f"'0 {SIZE_MIB * 2048} log-writes {backing} {LOG}' && dmsetup mknodes")
        self.cache = "/sys/block/dm-0/queue/write_cache"

    def cut(self, mark):
        """The power fails now."""
        self.server.run(f"dmsetup message logged 0 mark {mark}")

    def after(self, mark):
        """A disk as this one would have been found after a power cut."""
        target = rnbd.null_blk(self.server, f"target{next(_targets)}", SIZE_MIB)
        self.server.wait_for(f"python3 /tmp/replay.py {LOG} {target} {mark}", 30)
        return target

    def remove(self):
        """Undo it."""
        self.server.run("dmsetup remove logged")
        for path in self.server.glob("/sys/kernel/config/nullb/*/power"):
            rnbd.remove_null_blk(self.server, path.split("/")[5])


# ---- flags of the wire

def test_flags(pair, modules):
    """Row B22: FUA makes a write durable, PREFLUSH all before it, FLUSH all; a write alone nothing."""
    rnbd.load(pair, **FAST)
    disk = Logged(pair)
    client = RawClient(pair)
    device = client.open(disk.path)

    def write(block, flags=0):
        return raw.changed(raw.io(device, raw.WRITE | flags, block * 8, BLOCK), fill=block)

    steps = {
        "write": ([write(1), write(2)], set()),
        "fua": ([write(3, raw.FUA)], {3}),
        "preflush": ([write(4, raw.PREFLUSH)], {1, 2, 3}),
        "both": ([write(5), write(6, raw.PREFLUSH | raw.FUA)], {1, 2, 3, 4, 5, 6}),
        "sync": ([write(7, raw.SYNC)], {1, 2, 3, 4, 5, 6}),
        "flush": ([raw.io(device, raw.FLUSH)], set(range(1, 8))),
    }
    for mark, (requests, _) in steps.items():
        assert set(client.errors(*requests, cids=(1, 2))) == {"OK"}
        disk.cut(mark)
    for mark, (_, durable) in steps.items():
        numbers = json.loads(pair.server.out(f"python3 - {disk.after(mark)} 0 16 <<'END'\n{READER}END"))
        expected = [int.from_bytes(bytes([block]) * 8, "little") if block in durable else 0
                    for block in range(16)]
        assert numbers == expected, f"{mark}: {numbers}"
    client.end()
    rnbd.unload(pair)
    disk.remove()


# ---- a workload

class Writer:
    """WRITER in the client, in a region of the disk of its own."""

    blocks = 256

    def __init__(self, pair, disk, how, number):
        self.how = how
        self.base = 1024 * number
        self._job = pair.client.start_job(f"exec python3 /tmp/writer.py {disk} {how} {self.base} "
                                          f"{self.blocks} {1 if how == 'dsync' else 5}", 600)

    def acknowledged(self):
        """The last block that is durable, says the kernel."""
        assert self._job.running, self._job.output("err")
        lines = self._job.output().split(b"\n")[:-1]
        return int(lines[-1]) if lines else 0

    def lost(self, server, target, last):
        """What is not there although it was acknowledged."""
        found = json.loads(server.out(f"python3 - {target} {self.base} {self.blocks} <<'END'\n"
                                      f"{READER}END"))
        newest = [0] * self.blocks
        for number in range(1, last + 1):
            newest[number * 7 % self.blocks] = number
        return [f"{self.how}: {has} instead of {wanted}" for has, wanted in zip(found, newest)
                if has < wanted]

    def stop(self):
        """No more writes."""
        self._job.kill()
        self._job.wait(60, check=False)


@pytest.mark.parametrize("who", ["nobody", "server", *forms.short_or_full([], ["client"])])
def test_acknowledged_writes(pair, modules, kernel, who):
    """Row B22: what was acknowledged before a power cut is there; not so if somebody ignores flushes."""
    rnbd.load(pair, **FAST)
    logged = Logged(pair)
    pair.client.put("/tmp/writer.py", WRITER)
    if who == "server":
        pair.server.write(logged.cache, "write through")
    disk = rnbd.map_disk(pair, logged.path)
    cache = f"/sys/block/{disk[5:]}/queue/write_cache"
    assert pair.client.read(cache) == ("write through" if who == "server" else "write back")
    if who == "client":
        pair.client.write(cache, "write through")
    writers = [Writer(pair, disk, how, number)
               for number, how in enumerate(("fdatasync", "dsync", "fsync"))]
    cuts = {}
    for number in range(forms.short_or_full(2, 12) if who == "nobody" else 1):
        seen = [writer.acknowledged() for writer in writers]
        pair.client.wait_for(lambda seen=seen: all(
            writer.acknowledged() >= before + 60 for writer, before in zip(writers, seen)), 60)
        cuts[f"cut{number}"] = [writer.acknowledged() for writer in writers]
        logged.cut(f"cut{number}")
    for writer in writers:
        writer.stop()
    host.progress(f"MEASURED {kernel}: acknowledged before the last cut: {list(cuts.values())[-1]}")
    for mark, acknowledged in cuts.items():
        target = logged.after(mark)
        for writer, last in zip(writers, acknowledged):
            lost = writer.lost(pair.server, target, last)
            assert bool(lost) == (who != "nobody"), f"{mark}: {lost[:10] or 'nothing was lost'}"
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    logged.remove()


@pytest.mark.parametrize("filesystem", forms.short_or_full(["ext4"], ["ext4", "xfs"]))
def test_filesystem(pair, modules, kernel, filesystem):
    """A filesystem of the client on the disk as found after a power cut: whole, no fsync was vain."""
    rnbd.load(pair, **FAST)
    logged = Logged(pair)
    disk = rnbd.map_disk(pair, logged.path)
    # So small a disk is not for use, says mkfs.xfs.
    options = {"ext4": "-E nodiscard", "xfs": "-K --unsupported"}[filesystem]
    pair.client.run(f"mkfs.{filesystem} -q {options} {disk} && mkdir -p /mnt/disk && "
                    f"mount {disk} /mnt/disk", 120)
    pair.client.put("/tmp/files.py", FILES)
    job = pair.client.start_job("exec python3 /tmp/files.py", 600)

    def acknowledged():
        assert job.running, job.output("err")
        return job.output().count(b"\n")

    cuts = {}
    for number in range(forms.short_or_full(2, 8)):
        before = acknowledged()
        pair.client.wait_for(lambda before=before: acknowledged() >= before + 40, 120)
        cuts[f"cut{number}"] = acknowledged()
        logged.cut(f"cut{number}")
    job.kill()
    job.wait(60, check=False)
    host.progress(f"MEASURED {kernel}: {filesystem}: files made before the cuts: "
                  f"{list(cuts.values())}")
    pair.client.run("umount /mnt/disk")
    check = {"ext4": "e2fsck -fn", "xfs": "xfs_repair -n"}[filesystem]
    pair.server.put("/tmp/check.py", CHECK)
    for mark, last in cuts.items():
        target = logged.after(mark)
        pair.server.run(f"mkdir -p /mnt/disk && mount {target} /mnt/disk && "
                        f"python3 /tmp/check.py {last} && umount /mnt/disk && {check} {target}", 120)
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    logged.remove()
