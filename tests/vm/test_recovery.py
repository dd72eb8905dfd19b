# SPDX-License-Identifier: GPL-2.0
"""Everything is lost for a while: both links, a whole machine, an RDMA device."""

import errno
import itertools

import pytest

import multipath
import rnbd
from multipath import FAST, Session, Watch, verified_io
from vmlab import forms, host

pytestmark = pytest.mark.links(2)

# A server's disk that survives its machine
DISK = "/dev/disk/vmlab/data"
# The longest pause between two attempts, and what one attempt may take
REATTEMPT = 30 * 1.25 + 31


def say(kernel, text):
    """Print measured times."""
    host.progress(f"MEASURED {kernel}: {text}")


def end(pair, disks, *names):
    """Unmap, remove the server's disks and unload; nothing may be left."""
    for disk in [disks] if isinstance(disks, str) else disks:
        rnbd.unmap(pair, disk)
    for name in names:
        rnbd.remove_null_blk(pair.server, name)
    rnbd.unload(pair)


def fill(guest, disk):
    """Write 4 MiB of random data past what fio uses; returns their checksum."""
    guest.run("dd if=/dev/urandom of=/tmp/random bs=1M count=4 status=none && "
              f"dd if=/tmp/random of={disk} bs=1M seek=64 oflag=direct conv=fsync status=none")
    return guest.out("sha256sum </tmp/random")


def checksum(guest, disk):
    """The checksum of what fill() wrote."""
    return guest.out(f"dd if={disk} bs=1M skip=64 count=4 iflag=direct status=none | sha256sum")


def fails(guest, disk):
    """True if a read ends with EIO."""
    result = guest.run(f"dd if={disk} of=/dev/null bs=4k count=1 iflag=direct", check=False)
    return result.rc and "Input/output error" in result.err


def test_both_links_down(pair, modules, kernel):
    """Both cables are out for 60 s (short: 10 s): EIO meanwhile, and all is well afterwards."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "both", 256))
    session.policy = "round-robin"
    before = fill(pair.client, disk)
    watch = Watch(session)
    fio = multipath.Fio(pair.client, disk)
    session.wait_traffic(0, 1)
    pulled = watch.now()
    for link in (0, 1):
        pair.client.cable(link, False)
    detection = max(watch.wait_state(link, pulled, "disconnected", 60) for link in (0, 1))
    fio.finish(errno.EIO)
    pair.client.wait_for(f"grep -qx closed /sys/block/{disk[5:]}/rnbd/state", 5)
    assert fails(pair.client, disk)
    outage = forms.short_or_full(10, 60)
    pair.client.wait_for(lambda: watch.now() >= pulled + outage, outage + 30, "time has passed")
    assert pair.client.read(f"/sys/block/{disk[5:]}/rnbd/state") == "closed"
    plugged = watch.now()
    for link in (0, 1):
        pair.client.cable(link, True)
    times = [watch.wait_state(link, plugged, "connected", 120) for link in (0, 1)]
    multipath.wait_open(pair, disk, 5)
    assert checksum(pair.client, disk) == before
    with verified_io(pair.client, disk):
        session.wait_traffic(0, 1)
    watch.stop()
    say(kernel, f"both links down for {plugged - pulled:.0f} s: noticed after {detection:.1f} s, "
        "connected again {:.1f} and {:.1f} s after their end".format(*times))
    assert detection <= multipath.DETECTION + multipath.LATE
    assert max(times) <= multipath.RECOVERY + multipath.back_off(outage) + multipath.LATE
    end(pair, disk, "both")


@pytest.mark.newest
def test_server_is_killed(pair, modules, kernel):
    """The server loses power and boots: EIO meanwhile; then the disk works, with its data."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    session = Session(pair)
    disk = session.map(DISK)
    before = fill(pair.client, disk)
    fio = multipath.Fio(pair.client, disk)
    session.wait_traffic(0)
    watch = Watch(session)
    killed = watch.now()
    pair.server.kill()
    detection = max(watch.wait_state(link, killed, "disconnected", 60) for link in (0, 1))
    fio.finish(errno.EIO)
    assert fails(pair.client, disk)
    pair.server.restart()
    rnbd.load(pair, client=False, **FAST)
    ready = watch.now()
    times = [watch.wait_state(link, ready, "connected", 150) for link in (0, 1)]
    watch.stop()
    multipath.wait_open(pair, disk, 10)
    assert checksum(pair.client, disk) == before
    with verified_io(pair.client, disk):
        session.wait_traffic(0)
    say(kernel, f"server killed: noticed after {detection:.1f} s; connected %.1f and %.1f s after "
        "its modules were loaded again" % tuple(times))
    assert detection <= multipath.DETECTION + multipath.LATE
    assert max(times) <= REATTEMPT
    end(pair, disk)


@pytest.mark.newest
def test_server_is_loaded_under_a_client(pair, modules):
    """Row B32: a client that tries all the time finds everything in place when it gets in."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    device = rnbd.null_blk(pair.server, "reload", 16)
    disk = session.map(device, [0])
    state = f"/sys/block/{disk[5:]}/rnbd/state"
    for _ in range(forms.short_or_full(3, 30)):
        rnbd.remove_module(pair.server, "rnbd_server")
        pair.client.wait_for(f"grep -qx closed {state}", 30)
        job = pair.client.start_job(
            f"until echo 1 >'{session.node(0, 'reconnect')}'; do :; done 2>/dev/null", 90)
        pair.server.run("modprobe rnbd_server")
        job.wait(100)
        multipath.wait_open(pair, disk, 40)
        assert pair.server.read(f"/sys/class/rnbd-server/ctl/devices/{device[5:]}/sessions/"
                                f"{session.name}/mapping_path") == device
        multipath.check_disk(pair.client, disk, 1)
    end(pair, disk, "reload")


@pytest.mark.newest
def test_client_is_killed(pair, modules, kernel):
    """The client loses power, boots and maps under the name of before: soon it can."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(DISK)
    before = fill(pair.client, disk)
    multipath.Fio(pair.client, disk)
    session.wait_traffic(0)
    pair.client.kill()
    # The server notices by itself, too.
    pair.server.wait_for(f"! test -d /sys/class/rtrs-server/{session.name}", 30)
    pair.client.restart()
    rnbd.load(pair, server=False, **FAST)
    disk = session.map(DISK)
    assert checksum(pair.client, disk) == before
    with verified_io(pair.client, disk):
        session.wait_traffic(0)
    end(pair, disk)


@pytest.mark.newest
def test_client_comes_back_before_it_is_missed(pair, modules, kernel):
    """The same, with a server that has not noticed yet: the name is in use, but not for long."""
    rnbd.load(pair)
    session = Session(pair)
    session.map(DISK)
    pair.client.kill()
    pair.client.restart()
    rnbd.load(pair, server=False)
    refusals = set()

    def mapped():
        try:
            return session.map(DISK)
        except OSError as error:
            refusals.add(errno.errorcode[error.errno])
            return None

    disk = pair.client.wait_for(mapped, 60, "the old session is given up")
    say(kernel, f"client back under its old name: refused with {sorted(refusals) or 'nothing'}")
    assert refusals <= {"EADDRINUSE"}
    with verified_io(pair.client, disk):
        session.wait_traffic(0)
    end(pair, disk)


@pytest.mark.newest
@pytest.mark.parametrize("side", ["client", "server"])
def test_device_is_deleted(pair, modules, kernel, side):
    """`rdma link delete` on either side under load: the other path goes on; re-added, it heals."""
    rnbd.load(pair, **FAST)
    guest = getattr(pair, side)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "device", 256))
    session.policy = "round-robin"
    watch = Watch(session)
    for _ in range(forms.short_or_full(1, 10)):
        with verified_io(pair.client, disk):
            session.wait_traffic(0, 1)
            deleted = watch.now()
            guest.run("rdma link delete rxe0", 60)
            detection = watch.wait_state(0, deleted, "disconnected", 30)
            session.wait_traffic(1)
            added = watch.now()
            guest.setup_rxe(0)
            recovery = watch.wait_state(0, added, "connected", 60)
            session.wait_traffic(0, 1)
        say(kernel, f"rxe device of the {side} deleted: noticed after {detection:.1f} s, connected "
            f"{recovery:.1f} s after it was there again")
        assert detection <= multipath.DETECTION + multipath.LATE
        assert recovery <= multipath.RECOVERY + multipath.back_off(added - deleted) + multipath.LATE
    watch.stop()
    end(pair, disk, "device")


@pytest.mark.newest
@pytest.mark.parametrize("side", ["client", "server"])
def test_device_without_a_link_is_deleted(pair, modules, kernel, side):
    """The cable first, then the device: nothing that waits for the link holds the device up."""
    rnbd.load(pair, **FAST)
    guest = getattr(pair, side)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "unlinked", 256))
    session.policy = "round-robin"
    with verified_io(pair.client, disk):
        for noticed in (True, False):
            session.wait_traffic(0, 1)
            guest.cable(0, False)
            if noticed:
                session.wait_down(0, 30)
            started = float(guest.out("cut -d' ' -f1 /proc/uptime"))
            guest.run("rdma link delete rxe0", 60)
            took = float(guest.out("cut -d' ' -f1 /proc/uptime")) - started
            say(kernel, f"device of the {side} without a link deleted in {took:.1f} s")
            # Packets that wait for an ARP answer keep soft-RoCE's queue pairs for some seconds.
            assert took < 20
            guest.cable(0, True)
            guest.setup_rxe(0)
            session.wait_up(0, 60)
    end(pair, disk, "unlinked")


@pytest.mark.newest
@pytest.mark.parametrize("side", ["client", "server"])
def test_all_devices_are_deleted(pair, modules, side):
    """Both at once: EIO, no crash; unmapping and unloading work without any device, too."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    guest = getattr(pair, side)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "none", 256))
    for again in (True, False):
        fio = multipath.Fio(pair.client, disk)
        session.wait_traffic(0)
        guest.run("rdma link delete rxe0; rdma link delete rxe1", 60)
        fio.finish(errno.EIO)
        assert fails(pair.client, disk)
        if again:
            for link in (0, 1):
                guest.setup_rxe(link)
            multipath.wait_open(pair, disk, 60)
            multipath.check_disk(pair.client, disk, 1)
    end(pair, disk, "none")


# ---- a buffer that is used again while an old request still uses it

HUNG = forms.short_or_full(
    [("alone", "64k", "Y"), ("alone", "4k", "N"), ("two-paths", "64k", "Y"),
     ("two-paths", "64k", "N")],
    list(itertools.product(("alone", "two-paths", "cable"), ("4k", "64k"), "YN")))


@pytest.mark.newest
@pytest.mark.parametrize("how,block,invalidate", HUNG)
def test_hung_buffer(pair, modules, how, block, invalidate):
    """Row X01: what is written over a new path never lands in an old request's place."""
    rnbd.load(pair, rtrs_server__always_invalidate=invalidate, rtrs_server__sess_queue_depth=16,
              **FAST)
    multipath.hung_buffer(pair, block, how)
    rnbd.unload(pair)
