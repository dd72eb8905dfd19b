# SPDX-License-Identifier: GPL-2.0
"""Many hands at the files in sysfs at once, and the ends of devices while they are used."""

import collections
import contextlib
import errno
import json
import time

import pytest

import multipath
import raw
import rnbd
from multipath import FAST, Session
from raw import RawClient
from vmlab import forms, host

pytestmark = pytest.mark.newest

# Writes each line of its input to a file, all of them at the same time; prints OK or the errno's
# name for each.
TOGETHER = """
import errno, os, sys, threading
lines = sys.stdin.read().splitlines()
files = [os.open(sys.argv[1], os.O_WRONLY) for _ in lines]
start = threading.Barrier(len(lines))
results = [""] * len(lines)
def write(number):
    start.wait()
    try:
        os.write(files[number], lines[number].encode())
        results[number] = "OK"
    except OSError as error:
        results[number] = errno.errorcode[error.errno]
threads = [threading.Thread(target=write, args=(number,)) for number in range(len(lines))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*results)
"""


def start_together(guest, file, lines):
    """Start to write these lines to a file at the same time; returns the job."""
    guest.put("/tmp/together.py", TOGETHER)
    return guest.start_job(f"exec python3 /tmp/together.py {file}", 120, "\n".join(lines).encode())


def map_together(pair, lines):
    """Map all of these at the same time; returns what each of them got."""
    return start_together(pair.client, f"{rnbd.CTL}/map_device", lines).wait(150).out.split()


def disks_of(pair, prefix, count, size_mib=4):
    """So many null_blk devices of the server: (names, paths)."""
    names = [f"{prefix}{number}" for number in range(count)]
    return names, [rnbd.null_blk(pair.server, name, size_mib) for name in names]


def end(pair, names):
    """Nothing is mapped any more; the modules go, and the server's disks."""
    assert not pair.client.glob("/sys/block/rnbd*", f"{rnbd.CTL}/devices/*")
    rnbd.unload(pair)
    for name in names:
        rnbd.remove_null_blk(pair.server, name)


def unmap_all(pair, how="normal"):
    """Unmap whatever is mapped, all at the same time."""
    files = pair.client.glob("/sys/block/rnbd*/rnbd/unmap_device")
    pair.client.run("".join(f"echo {how} >{file} &\n" for file in files) + "wait", 120)
    assert not pair.client.glob("/sys/block/rnbd*")


def state(pair, disk):
    """The state of a disk."""
    return pair.client.read(f"/sys/block/{disk[5:]}/rnbd/state")


def fails(pair, disk):
    """A read of a disk ends with EIO."""
    result = pair.client.run(f"dd if={disk} of=/dev/null bs=4k count=1 iflag=direct", check=False)
    return result.rc and "Input/output error" in result.err


# ---- who comes first

def test_two_sessions_one_device(pair, modules):
    """Two sessions map one device for writing at the same time: one of them gets it."""
    rnbd.load(pair, **FAST)
    names, (device,) = disks_of(pair, "both", 1)
    for _ in range(forms.short_or_full(3, 30)):
        lines = [rnbd.map_line(pair, rnbd.new_session(), device) for _ in range(2)]
        assert sorted(map_together(pair, lines)) == ["EPERM", "OK"]
        unmap_all(pair)
    lines = [rnbd.map_line(pair, rnbd.new_session(), device, access_mode=mode)
             for mode in ("ro", "ro", "migration", "migration")]
    assert map_together(pair, lines) == ["OK"] * 4
    unmap_all(pair)
    end(pair, names)


def test_one_device_by_two_names(pair, modules):
    """One session maps one device by several names, or twice by one, at the same time."""
    rnbd.load(pair, **FAST)
    names, (device, other) = disks_of(pair, "alias", 2)
    session = Session(pair)
    anchor = session.map(other, [0])
    spellings = [device, device[1:], device.replace("/", "//"), device]
    for _ in range(forms.short_or_full(4, 30)):
        lines = [rnbd.map_line(pair, session.name, spelling, access_mode="ro")
                 for spelling in spellings]
        assert sorted(map_together(pair, lines)) == ["EEXIST"] * 3 + ["OK"]
        for disk in set(pair.client.glob("/sys/block/rnbd*")) - {f"/sys/block/{anchor[5:]}"}:
            rnbd.unmap(pair, disk)
    assert session.read(0, "stats/reconnects").split() == ["0", "0"]
    rnbd.unmap(pair, anchor)
    end(pair, names)


def test_open_storm(pair, modules):
    """24 maps at once, in sessions that nobody has made yet; all unmapped at once."""
    rnbd.load(pair, rtrs_server__sess_queue_depth=64, **FAST)
    names, devices = disks_of(pair, "storm", 6)
    for _ in range(forms.short_or_full(1, 10)):
        sessions = [rnbd.new_session() for _ in range(4)]
        lines = [rnbd.map_line(pair, session, device, access_mode="ro")
                 for device in devices for session in sessions]
        started = time.monotonic()
        assert map_together(pair, lines) == ["OK"] * 24
        took = time.monotonic() - started
        disks = pair.client.glob("/sys/block/rnbd*")
        assert sorted(pair.client.read(f"{disk}/rnbd/mapping_path") for disk in disks) == \
            sorted(devices * 4)
        assert {pair.client.read(f"{disk}/rnbd/state") for disk in disks} == {"open"}
        pair.client.run("".join(f"dd if=/dev/{disk[11:]} of=/dev/null bs=4k count=1 iflag=direct "
                                "status=none || exit 1\n" for disk in disks))
        unmap_all(pair)
        host.progress(f"MEASURED 24 maps at once took {took:.1f} s")
    end(pair, names)


def test_creator_that_fails(pair, modules):
    """Row D02: who waits for a session that somebody else tries to make hears how that ends."""
    rnbd.load(pair, **FAST)
    names, (device,) = disks_of(pair, "vain", 1)
    for _ in range(forms.short_or_full(4, 40)):
        session = rnbd.new_session()
        # Nobody listens on that port.
        makes = rnbd.map_line(pair, session, device, dest_port=1235)
        waits = f"sessname={session} device_path={device}"
        got = map_together(pair, [makes, waits, waits, makes])
        assert "ECONNREFUSED" in got and set(got) <= {"ECONNREFUSED", "ENXIO"}, got
        # The name is free again.
        rnbd.unmap(pair, rnbd.map_disk(pair, device, session))
    end(pair, names)


# ---- the end of what is used

@contextlib.contextmanager
def hanging(pair, device, size_mib):
    """A device-mapper disk over a device; yields its path and a function that makes it hang."""
    server = pair.server
    server.run(f"modprobe dm_mod && dmsetup create hanging --table '0 {size_mib * 2048} linear "
               f"{device} 0' && dmsetup mknodes")
    yield "/dev/mapper/hanging", lambda: server.run("dmsetup suspend --noflush --nolockfs hanging")
    server.run("dmsetup remove hanging")


def server_writes(pair, session):
    """How many WRITEs of a session have arrived at the server."""
    path, = pair.server.glob(f"/sys/class/rtrs-server/{session}/paths/*/stats/rdma")
    return int(pair.server.read(path).split()[2])


def test_close_while_io_runs(pair, modules):
    """Row B06: CLOSE waits for the I/O of its id, a second one is answered at once, new I/O fails."""
    rnbd.load(pair, **FAST)
    names, (device,) = disks_of(pair, "closing", 1)
    with hanging(pair, device, 4) as (path, suspend):
        client = RawClient(pair)
        for _ in range(forms.short_or_full(3, 30)):
            ident = client.open(path)
            suspend()
            before = server_writes(pair, client.name)
            write, = client.post(raw.io(ident, raw.WRITE, 0, 4096))
            pair.server.wait_for(lambda: server_writes(pair, client.name) > before, 30)
            closing = client.post(raw.close(ident), raw.close(ident), cids=(1, 2))
            # One of them waits, the other one does not, and the device is nobody's any more.
            pair.client.wait_for(lambda: any(map(client.answered, closing)), 30)
            assert client.errors(raw.close(ident), raw.io(ident, raw.READ, 0, 512),
                                 cids=(0, 2)) == ["OK", "ENOTCONN"]
            assert [client.answered(tag) for tag in closing].count(True) == 1
            assert not client.answered(write)
            pair.server.run("dmsetup resume hanging")
            assert client.answer(write).error == "OK"
            assert {client.answer(tag).error for tag in closing} == {"OK"}
        client.end()
        rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, names[0])


# Writes a block of a disk and reads it again and again; prints how that ends.
KEEPER = """
import errno, mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
buffer = mmap.mmap(-1, 4096)
buffer[:] = b"K" * 4096
os.pwritev(fd, [buffer], 32 << 20)
print("reading", flush=True)
try:
    while True:
        buffer[:] = b"?" * 4096
        if not os.preadv(fd, [buffer], 32 << 20):
            break
        assert buffer[:] == b"K" * 4096
    print("no longer there")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


def writes_done(pair, disk):
    """How many writes a disk of the client has completed."""
    return int(pair.client.read(f"/sys/block/{disk[5:]}/stat").split()[4])


def test_unmap_while_io_runs(pair, modules):
    """Unmapped by force under load: I/O fails, the device is gone at the server, and maps again.

    Row D28: who has the disk open still can wait for nothing. Row D29: EBUSY if it is not forced.
    """
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    names, (device,) = disks_of(pair, "used", 1, 64)
    session = Session(pair)
    pair.client.put("/tmp/keeper.py", KEEPER)
    for _ in range(forms.short_or_full(2, 20)):
        disk = session.map(device, [0])
        fio = multipath.Fio(pair.client, disk, options="")
        keeper = pair.client.start_job(f"exec python3 /tmp/keeper.py {disk}", 300)
        pair.client.wait_for(lambda keeper=keeper: b"reading" in keeper.output())
        pair.client.wait_for(lambda disk=disk: writes_done(pair, disk) > 100)
        with pytest.raises(OSError) as caught:
            rnbd.unmap(pair, disk)
        assert caught.value.errno == errno.EBUSY
        fio.assert_running()
        rnbd.unmap(pair, disk, "force")
        # A disk that is no more has no size any longer: a write may find no space.
        fio.finish({errno.EIO, errno.ENOSPC, errno.ENODEV})
        assert keeper.wait(30).out.split("\n")[1] in ("no longer there", "EIO", "ENODEV")
        assert not pair.client.exists(disk)
        pair.server.wait_for(f"! test -e /sys/class/rnbd-server/ctl/devices/{device[5:]}", 10)
    disk = session.map(device, [0])
    multipath.check_disk(pair.client, disk, 1)
    rnbd.unmap(pair, disk)
    end(pair, names)


def test_unmap_with_few_buffers(pair, modules):
    """Row D21: two disks want the same few buffers; one is unmapped by force, the other goes on."""
    rnbd.load(pair, rtrs_server__sess_queue_depth=4, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    names, (device, other) = disks_of(pair, "few", 2, 64)
    session = Session(pair)
    beside = session.map(other, [0])
    with multipath.verified_io(pair.client, beside, depth=16):
        for _ in range(forms.short_or_full(2, 30)):
            disk = session.map(device, [0])
            fio = multipath.Fio(pair.client, disk, depth=16, options="")
            pair.client.wait_for(lambda disk=disk: writes_done(pair, disk) > 50)
            rnbd.unmap(pair, disk, "force")
            fio.finish({errno.EIO, errno.ENOSPC, errno.ENODEV})
            before = multipath.completed(pair.client, beside)
            pair.client.wait_for(lambda before=before:
                                 multipath.completed(pair.client, beside) > before + 50)
    rnbd.unmap(pair, beside)
    end(pair, names)


def test_force_close_while_io_runs(pair, modules):
    """Force-closed under load: EIO from then on, the state stays open, unmapping works."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    names, (device, other) = disks_of(pair, "forced", 2, 64)
    nodes = f"/sys/class/rnbd-server/ctl/devices/{device[5:]}"
    session = Session(pair)
    beside = session.map(other, [0])
    with multipath.verified_io(pair.client, beside, jobs=1):
        for _ in range(forms.short_or_full(1, 20)):
            disk = session.map(device, [0])
            fio = multipath.Fio(pair.client, disk)
            before = multipath.completed(pair.client, disk)
            pair.client.wait_for(lambda: multipath.completed(pair.client, disk) > before + 50)
            pair.server.write(f"{nodes}/sessions/{session.name}/force_close", "1")
            assert not pair.server.exists(nodes)
            fio.finish(errno.EIO)
            assert fails(pair, disk) and state(pair, disk) == "open"
            # Somebody else may write now.
            borrowed = rnbd.map_disk(pair, device)
            assert fails(pair, disk)
            rnbd.unmap(pair, borrowed)
            rnbd.unmap(pair, disk)
    rnbd.unmap(pair, beside)
    end(pair, names)


@pytest.mark.parametrize("beside", ["nothing", "unmap", "disconnect"])
def test_force_close_by_many(pair, modules, beside):
    """Rows B07, B25, B26, B27: sixteen writers close one device while its client unmaps it, or leaves."""
    rnbd.load(pair, **FAST)
    names, (device, other) = disks_of(pair, "sixteen", 2)
    session = Session(pair)
    anchor = session.map(other, [0], access_mode="ro")
    file = f"/sys/class/rnbd-server/ctl/devices/{device[5:]}/sessions/{session.name}/force_close"
    for _ in range(forms.short_or_full(2, 30)):
        disk = session.map(device, [0])
        job = start_together(pair.server, file, ["1"] * 16)
        if beside == "unmap":
            rnbd.unmap(pair, disk)
        elif beside == "disconnect":
            session.do(0, "disconnect")
        got = job.wait(90, check=False)
        if beside == "nothing":
            assert got.out.split().count("OK") == 1, got.describe()
        # The file may be gone before any of them has opened it.
        assert set(got.out.split()) <= {"OK", "EBUSY", "ENODEV"}, got.describe()
        pair.server.wait_for(lambda: not pair.server.exists(file), 10)
        if beside == "disconnect":
            session.do(0, "reconnect")
            multipath.wait_open(pair, disk, 20)
            multipath.wait_open(pair, anchor, 20)
        if beside != "unmap":
            rnbd.unmap(pair, disk)
    rnbd.unmap(pair, anchor)
    end(pair, names)


def test_map_that_is_interrupted(pair, modules):
    """Row D09: the answer to OPEN comes when nobody waits for it: what it has opened is closed."""
    rnbd.load(pair, **FAST)
    names, (device, other) = disks_of(pair, "tardy", 2)
    session = Session(pair)
    anchor = session.map(other, [0])
    line = rnbd.map_line(pair, session.name, device)
    with multipath.netem(pair.server, 0, "delay 0ms") as treat:
        for _ in range(forms.short_or_full(2, 20)):
            position = pair.server.log.position()
            treat("delay 1000ms")
            pair.client.run(f"echo '{line}' >{rnbd.CTL}/map_device & sleep 0.2; kill -9 $!; wait",
                            check=False)
            assert pair.server.log.wait_for(f"opened {device} rw", position, 20)
            pair.server.wait_for(
                f"! test -e /sys/class/rnbd-server/ctl/devices/{device[5:]}", 20)
            treat("delay 0ms")
            assert pair.client.glob("/sys/block/rnbd*") == [f"/sys/block/{anchor[5:]}"]
            rnbd.unmap(pair, session.map(device, [0]))
    rnbd.unmap(pair, anchor)
    end(pair, names)


# ---- without a path

def test_unmap_while_reconnecting(pair, modules):
    """Unmapped without a path, by one and by all at once: no server is waited for."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    names, devices = disks_of(pair, "lost", 6)
    session = Session(pair)
    for round_number in range(forms.short_or_full(1, 5)):
        disks = [session.map(device, [0]) for device in devices]
        pair.client.cable(0, False)
        session.wait_down(0, 30)
        for disk in disks:
            pair.client.wait_for(f"grep -qx closed /sys/block/{disk[5:]}/rnbd/state", 10)
        assert fails(pair, disks[0])
        started = time.monotonic()
        rnbd.unmap(pair, disks[0])
        rnbd.unmap(pair, disks[1], "force")
        if round_number % 2 == 0:
            pair.client.cable(0, True)
        unmap_all(pair)
        took = time.monotonic() - started
        host.progress(f"MEASURED {len(disks)} devices unmapped without a path in {took:.1f} s")
        assert took < 15
        pair.client.cable(0, True)
        pair.server.wait_for(f"! test -d /sys/class/rtrs-server/{session.name}", 60)
    end(pair, names)


# ---- everything at once

# What an operation may end with.  ECANCELED is what a map gets whose connecting somebody ends
# with `disconnect`; EADDRINUSE, if the server has not yet heard of the end of the session before.
EXPECTED = {
    "map": {"OK", "EEXIST", "EPERM", "EBUSY", "ECONNABORTED", "ECANCELED", "EADDRINUSE"},
    "unmap": {"OK", "EBUSY", "EALREADY", "ENODEV", "ENOENT"},
    "remap": {"OK", "EALREADY", "EBUSY", "ECONNABORTED", "ENODEV", "ENOENT", "EPERM"},
    "resize": {"OK", "ENOENT", "ENODEV"},
    "read": {"OK", "EIO", "ENOENT", "ENXIO", "ENODEV"},
    "disconnect": {"OK", "ENOENT", "ENODEV"},
}


@pytest.mark.kernels(*forms.short_or_full(["6.1", "6.12"], ["6.1", "6.12", "6.12-debug"]))
def test_everything_at_once(pair, modules, kernel):
    """Eight processes map, unmap, remap, resize, read and disconnect for a minute (short: 10 s).

    Row D07: maps while the only path is lost.
    """
    rnbd.load(pair, rtrs_server__sess_queue_depth=64, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    names, devices = disks_of(pair, "chaos", 3)
    pair.client.put("/tmp/storm.py", (host.VM_DIR / "guest" / "storm.py").read_bytes())
    seconds, seed = forms.short_or_full(10, 60), time.time_ns() % 10000
    sessions = [rnbd.new_session() for _ in range(2)]
    result = pair.client.run(
        f"exec python3 /tmp/storm.py {seconds} {seed} {multipath.path_name()} "
        f"{','.join(sessions)} {','.join(devices)}", seconds + 120)
    counts = collections.defaultdict(dict, json.loads(result.out))
    host.progress(f"MEASURED {kernel}: seed {seed}: {dict(counts)}")
    odd = {operation: set(counts[operation]) - allowed for operation, allowed in EXPECTED.items()}
    assert not any(odd.values()), odd
    for operation in ("map", "unmap", "resize", "disconnect"):
        assert counts[operation].get("OK"), f"no {operation} succeeded"
    unmap_all(pair, "force")
    # As good as new
    disk = rnbd.map_disk(pair, devices[0])
    multipath.check_disk(pair.client, disk, 1)
    rnbd.unmap(pair, disk)
    end(pair, names)
