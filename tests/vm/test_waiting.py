# SPDX-License-Identifier: GPL-2.0
"""I/O that gets no answer: for how long it waits, and what ends the wait."""

import contextlib
import errno
import re
import time

import pytest

import multipath
import rnbd
from multipath import FAST, Session
from vmlab import forms, host

pytestmark = pytest.mark.links(2)

# A server's disk that survives its machine
DISK = "/dev/disk/vmlab/data"
NOISE = ("I/O error, dev rnbd", "Buffer I/O error on dev rnbd", "rnbd[0-9]+: unable to read")
# Write, until the first error; prints its name and what the failed write took.
WRITER = r"""
import errno, mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
block = mmap.mmap(-1, 4096)
while True:
    begin = time.monotonic()
    try:
        os.pwrite(fd, block, 0)
    except OSError as error:
        print(errno.errorcode[error.errno], time.monotonic() - begin)
        break
    time.sleep(0.05)
"""


def say(kernel, text):
    """Print measured times."""
    host.progress(f"MEASURED {kernel}: {text}")


def state(pair, disk):
    """State of a device in sysfs."""
    return pair.client.read(f"/sys/block/{disk[5:]}/rnbd/state")


def tmo(disk):
    """Where a device's fast_io_fail_tmo is."""
    return f"/sys/block/{disk[5:]}/rnbd/fast_io_fail_tmo"


def cables(pair, plugged):
    """Pull or plug both."""
    for link in (0, 1):
        pair.client.cable(link, plugged)


def writer(guest, disk):
    """Write over and over; ends with an error and says which one, and how long that took."""
    return guest.start_job(f"python3 -c '{WRITER}' {disk}", 300)


def outcome(job, timeout=120):
    """(errno, seconds the failed write took) of a writer()."""
    name, seconds = job.wait(timeout).out.split()
    return getattr(errno, name), float(seconds)


@contextlib.contextmanager
def hanging(guest, device):
    """A device-mapper device over another one that answers nothing until the end of the block."""
    guest.run(f"dmsetup suspend --nolockfs --noflush {device}")
    try:
        yield
    finally:
        guest.run(f"dmsetup resume {device}")


def hang_disk(pair, name):
    """A disk of the server that can be made to hang(); returns its path."""
    below = rnbd.null_blk(pair.server, name, 64)
    pair.server.run(f"modprobe dm_mod && dmsetup create {name}-dm --table "
                    f"\"0 $(blockdev --getsz {below}) linear {below} 0\" && dmsetup mknodes")
    return f"/dev/mapper/{name}-dm"


def end(pair, *names):
    """Unload; nothing may be left."""
    for name in names:
        pair.server.run(f"if dmsetup info {name}-dm; then dmsetup remove --retry {name}-dm; fi")
        rnbd.remove_null_blk(pair.server, name)
    rnbd.unload(pair)


@pytest.mark.newest
def test_filesystem_survives_a_server_reboot(pair, modules, kernel):
    """Row D19: a mounted ext4 with verified I/O; the server loses power and boots: no error at all."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    begin = pair.client.log.position()
    disk = session.map(DISK, fast_io_fail_tmo=600)
    pair.client.run(f"mkfs.ext4 -q {disk} && mkdir -p /mnt/a && mount {disk} /mnt/a && "
                    "cp -a /usr/lib/python3*/json /mnt/a/ && sync", 300)
    fio = multipath.Fio(pair.client, "/mnt/a/verified", block="16k", size_mib=16,
                        options=multipath.VERIFY + "--fsync=32 --allow_file_create=1 ")
    session.wait_traffic(0)
    pair.server.kill()
    for link in (0, 1):
        session.wait_down(link, 60)
    pair.client.wait_for(f"grep -qx closed /sys/block/{disk[5:]}/rnbd/state", 10)
    pair.server.restart()
    rnbd.load(pair, client=False, **FAST)
    began = time.monotonic()
    multipath.wait_open(pair, disk, 150)
    session.wait_traffic(0)
    say(kernel, f"filesystem goes on {time.monotonic() - began:.0f} s after the server is back")
    fio.assert_running()
    assert multipath.done(fio.stop()) > 0
    pair.client.run("diff -r /usr/lib/python3*/json /mnt/a/json && umount /mnt/a && "
                    f"e2fsck -fn {disk}", 300)
    pair.client.sync_log()
    assert not [line for line in pair.client.log.since(begin)
                if re.search("I/O error, dev|EXT4-fs.*error|not supported", line)]
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)


@pytest.mark.newest
def test_what_ends_a_wait(pair, modules, kernel):
    """Row D19: the time; 0 written to fast_io_fail_tmo; a forced unmap; the session's return."""
    rnbd.load(pair, **FAST)
    pair.allow(*NOISE)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "ends", 64), fast_io_fail_tmo=8)
    assert pair.client.read(tmo(disk)) == "8"

    def lose(seconds):
        pair.client.write(tmo(disk), str(seconds))
        job = writer(pair.client, disk)
        session.wait_traffic(0)
        cables(pair, False)
        pair.client.wait_for(f"grep -qx closed /sys/block/{disk[5:]}/rnbd/state", 30)
        return job

    def back():
        cables(pair, True)
        multipath.wait_open(pair, disk, 120)

    error, took = outcome(lose(8))
    say(kernel, f"a wait of 8 s has taken {took:.1f} s with the detection of the loss")
    assert error == errno.EIO and 8 <= took <= 8 + multipath.DETECTION + 2
    error, took = outcome(writer(pair.client, disk))
    assert error == errno.EIO and took < 1, "once it has waited in vain it fails at once"
    back()

    job = lose(600)
    back()
    session.wait_traffic(0)
    assert job.running, "the session came back, so nothing may fail"
    cables(pair, False)
    pair.client.wait_for(f"grep -qx closed /sys/block/{disk[5:]}/rnbd/state", 30)
    pair.client.write(tmo(disk), "0")
    error, took = outcome(job, 10)
    assert error == errno.EIO
    back()

    job = lose(600)
    began = time.monotonic()
    rnbd.unmap(pair, disk, "force")
    error, took = outcome(job, 10)
    say(kernel, f"unmapping by force ends a wait in {time.monotonic() - began:.1f} s")
    assert error == errno.EIO
    cables(pair, True)
    end(pair, "ends")


@pytest.mark.newest
def test_values_of_fast_io_fail_tmo(pair, modules):
    """0 to 86400; mainline's behaviour without it; not for sessions without tags of messages."""
    rnbd.load(pair, rtrs_server__sess_queue_depth=2)
    backing = rnbd.null_blk(pair.server, "values", 64)
    with pytest.raises(OSError) as refused:
        rnbd.map_disk(pair, backing, fast_io_fail_tmo=1)
    assert refused.value.errno == errno.EINVAL
    disk = rnbd.map_disk(pair, backing)
    assert pair.client.read(tmo(disk)) == "0"
    for value in ("1", "86401", "-1", "x", ""):
        if value:
            with pytest.raises(OSError) as refused:
                pair.client.write(tmo(disk), value)
            assert refused.value.errno == errno.EINVAL, value
        assert pair.client.read(tmo(disk)) == "0"
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.load(pair)
    disk = rnbd.map_disk(pair, backing, fast_io_fail_tmo=86400)
    for value in ("86400", "0", "0x10"):
        pair.client.write(tmo(disk), value)
        assert pair.client.read(tmo(disk)) == str(int(value, 0))
    for value in ("86401", "4294967296"):
        with pytest.raises(OSError):
            pair.client.write(tmo(disk), value)
        assert pair.client.read(tmo(disk)) == "16"
    rnbd.unmap(pair, disk)
    end(pair, "values")


def test_writes_through_while_it_may_wait(pair, modules):
    """A disk with a volatile cache: each write is durable when it is acknowledged; zeroes, too."""
    rnbd.load(pair)
    disk = rnbd.map_disk(pair, DISK)
    assert pair.client.read(f"/sys/block/{disk[5:]}/queue/write_cache") == "write back"
    name = pair.server.readlink(DISK).rsplit("/", 1)[1]

    def flushes(command):
        """How often the server flushes its disk because of a command at the client."""
        before = int(pair.server.read(f"/sys/block/{name}/stat").split()[15])
        pair.client.run(command)
        return int(pair.server.read(f"/sys/block/{name}/stat").split()[15]) - before

    write = f"dd if=/dev/urandom of={disk} bs=4k count=40 oflag=direct"
    zero = f"blkdiscard -f -z -o 0 -l 65536 {disk}"
    assert flushes(write) < 5
    pair.client.write(tmo(disk), "60")
    assert flushes(write) >= 40
    assert flushes(zero) >= 1
    assert pair.client.out(f"head -c 65536 {disk} | tr -d '\\0' | wc -c") == "0"
    pair.client.write(tmo(disk), "0")
    assert flushes(write) < 5
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)


@pytest.mark.newest
def test_io_timeout(pair, modules, kernel):
    """Row D20: queue/io_timeout: the path is declared bad and the request fails over; then it fails."""
    rnbd.load(pair, **FAST)
    pair.allow(*NOISE)
    session = Session(pair)
    device = hang_disk(pair, "timeout")
    disk = session.map(device)
    node = f"/sys/block/{disk[5:]}/queue/io_timeout"
    assert pair.client.read(node) == "0", "never is the default"
    with hanging(pair.server, device):
        job = writer(pair.client, disk)
        pair.client.wait_for(lambda: session.stats(0).inflight + session.stats(1).inflight, 20,
                             "a request hangs")
        # Longer than the block layer would wait by default is too long for a test.
        with pytest.raises(AssertionError):
            pair.client.wait_for(lambda: not job.running, forms.short_or_full(5, 45))
        assert session.up(0) and session.up(1)
    session.wait_idle(0, 1)

    pair.client.write(node, "4000")
    with hanging(pair.server, device):
        pair.client.wait_for(lambda: not (session.up(0) and session.up(1)), 30,
                             "a path is declared bad")
    session.wait_traffic(*(link for link in (0, 1) if session.up(link)), requests=3)
    assert job.running, "after the failover the disk has answered in time"
    for link in (0, 1):
        session.wait_up(link, 60)

    with hanging(pair.server, device):
        error, took = outcome(job, 60)
        say(kernel, f"a request with an io_timeout of 4 s has failed after {took:.1f} s")
        assert error == errno.ETIMEDOUT and 8 <= took < 30
    multipath.wait_open(pair, disk, 120)
    for link in (0, 1):
        session.wait_up(link, 120)
    multipath.check_disk(pair.client, disk, 1)
    rnbd.unmap(pair, disk)
    end(pair, "timeout")


@pytest.mark.newest
def test_late_when_the_session_is_lost(pair, modules, kernel):
    """Row D19: io_timeout passes before the loss is noticed: what was on its way waits all the same."""
    rnbd.load(pair, **FAST)
    pair.allow(*NOISE)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "late", 64), fast_io_fail_tmo=600)
    # Twice as long as that is longer than the heartbeats take.
    pair.client.write(f"/sys/block/{disk[5:]}/queue/io_timeout", "3000")
    job = writer(pair.client, disk)
    session.wait_traffic(0)
    cables(pair, False)
    pair.client.wait_for(f"grep -qx closed /sys/block/{disk[5:]}/rnbd/state", 30)
    # A request that failed would have ended it by now.
    with pytest.raises(AssertionError):
        pair.client.wait_for(lambda: not job.running, 5)
    cables(pair, True)
    multipath.wait_open(pair, disk, 120)
    session.wait_traffic(0)
    assert job.running
    job.kill()
    job.wait(20, check=False)
    rnbd.unmap(pair, disk)
    end(pair, "late")


@pytest.mark.newest
@pytest.mark.full
def test_unmap_of_a_hung_disk(pair, modules, kernel):
    """Row D20: the server's disk answers nothing any more: unmapping by force ends all the same."""
    rnbd.load(pair, **FAST)
    pair.allow(*NOISE)
    session = Session(pair)
    device = hang_disk(pair, "hung")
    disk = session.map(device)
    with hanging(pair.server, device):
        job = writer(pair.client, disk)
        pair.client.wait_for(lambda: session.stats(0).inflight + session.stats(1).inflight, 20,
                             "a request hangs")
        began = time.monotonic()
        pair.client.write(f"/sys/block/{disk[5:]}/rnbd/unmap_device", "force", 200)
        took = time.monotonic() - began
        error, _ = outcome(job, 10)
    say(kernel, f"a disk that hangs at the server was unmapped by force in {took:.0f} s")
    assert error == errno.ETIMEDOUT and 25 < took < 100
    end(pair, "hung")


@pytest.mark.newest
@pytest.mark.full
def test_map_of_a_hung_disk(pair, modules, kernel):
    """Row D20: a disk is opened, but its partition table cannot be read: mapping it ends."""
    rnbd.load(pair, **FAST)
    pair.allow(*NOISE)
    session = Session(pair)
    device = hang_disk(pair, "late")
    with hanging(pair.server, device):
        began = time.monotonic()
        with contextlib.suppress(OSError):
            pair.client.write(f"{rnbd.CTL}/map_device",
                              rnbd.map_line(pair, session.name, device), 300)
        say(kernel, f"mapping a disk that hangs has ended after {time.monotonic() - began:.0f} s")
        assert time.monotonic() - began < 150
    for disk in pair.client.glob("/sys/block/rnbd*"):
        pair.client.write(f"{disk}/rnbd/unmap_device", "force", 200)
    end(pair, "late")


@pytest.mark.newest
@pytest.mark.full
def test_shutdown_without_a_server(pair, modules, kernel):
    """A client with a dirty filesystem whose server has vanished, default time-outs: 60 s."""
    rnbd.load(pair)
    pair.allow(*NOISE, "EXT4-fs", "JBD2", "rnbd", "lost async page write", "Aborting journal")
    session = Session(pair)
    disk = session.map(DISK)
    pair.client.run(f"mkfs.ext4 -q {disk} && mkdir -p /mnt/a && mount {disk} /mnt/a", 300)
    pair.server.kill()
    began = time.monotonic()
    pair.client.run("dd if=/dev/zero of=/mnt/a/dirty bs=1M count=8 status=none; umount /mnt/a; "
                    f"echo force >/sys/block/{disk[5:]}/rnbd/unmap_device; "
                    "modprobe -r rnbd_client", 300)
    took = time.monotonic() - began
    say(kernel, f"unmounting, unmapping and unloading without a server took {took:.0f} s")
    assert took <= 60
    pair.server.restart()
