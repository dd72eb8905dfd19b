# SPDX-License-Identifier: GPL-2.0
"""Sizes and numbers of the transport: depths, chunks, sessions, poll queues, silent clients."""

import errno
import re
import shutil
import struct
import subprocess
import time

import pytest

import multipath
import rnbd
from multipath import FAST, Session, verified_io
from vmlab import forms, host

pytestmark = pytest.mark.newest
LINKS = pytest.mark.links(2)


def end(pair, disks, *names):
    """Unmap, remove the server's disks and unload; nothing may be left."""
    for disk in [disks] if isinstance(disks, str) else disks:
        rnbd.unmap(pair, disk)
    for name in names:
        rnbd.remove_null_blk(pair.server, name)
    rnbd.unload(pair)


# ---- queue depths and chunk sizes

def fits(depth, chunk):
    """What the 28 bits of an immediate can address."""
    return (depth - 1).bit_length() + (chunk - 1).bit_length() <= 28


def geometries():
    """(depth, chunk size, always_invalidate): a choice, or all of them."""
    if forms.full():
        return [(depth, 8192 << n, invalidate) for depth in (1, 2, 128, 512, 1024, 4096)
                for n in range(8) for invalidate in "YN"]
    return [(1, 8192, "Y"), (2, 1 << 20, "N"), (1024, 131072, "N"), (4096, 8192, "Y"),
            (4096, 131072, "Y")]


def refused_load(guest, depth, chunk, *words):
    """Loading the server fails with EINVAL, and the log names the reason."""
    position = guest.log.position()
    result = guest.run("modprobe rtrs_server", check=False)
    assert result.rc and "Invalid argument" in result.err, result.describe()
    guest.sync_log()
    lines = [line for line in guest.log.since(position) if "rtrs_server" in line]
    assert any(all(word in line for word in (str(depth), str(chunk), *words)) for line in lines), \
        f"no line names {depth} and {chunk}: {lines}"


def test_depths_and_chunk_sizes(pair, modules):
    """Depths 1 to 4096 with chunks of 8 KiB to 1 MiB; refused with a reason where they do not fit.

    Rows S54 and D01: depth 4096 connects with invalidation, depth 1 maps.
    """
    device = rnbd.null_blk(pair.server, "depths", 256)
    for depth, chunk, invalidate in geometries():
        parameters = {"rtrs_server__sess_queue_depth": depth,
                      "rtrs_server__max_chunk_size": chunk,
                      "rtrs_server__always_invalidate": invalidate}
        if not fits(depth, chunk):
            rnbd.load(pair, server=False, **parameters)
            pair.server.put("/etc/modprobe.d/vmlab.conf", "".join(
                f"options {name.replace('__', ' ', 1)}={value}\n"
                for name, value in parameters.items()))
            refused_load(pair.server, depth, chunk)
            assert "rtrs_server" not in pair.server.loaded_modules()
            # It stays when a module that needs it cannot be loaded.
            pair.server.run("modprobe -r rtrs_core")
            rnbd.unload(pair)
            continue
        rnbd.load(pair, **parameters)
        disk = rnbd.map_disk(pair, device)
        largest = int(pair.client.read(f"/sys/block/{disk[5:]}/queue/max_hw_sectors_kb")) * 1024
        assert largest <= chunk - 4096
        size = forms.short_or_full("512k", "2m")
        for block in ("4k", "256k"):
            pair.client.run(
                f"fio --name=v --filename={disk} --direct=1 --ioengine=libaio --thread "
                f"--bs={block} --rw=randwrite --iodepth=32 --numjobs=2 --size={size} "
                "--offset_increment=2m --verify=crc32c --verify_fatal=1 --verify_state_save=0 "
                "--output-format=terse >/tmp/fio.out", 300)
        rnbd.unmap(pair, disk)
        rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "depths")


AWKWARD = [(8192, "Y", "S36"), (513, "N", "S37")] + forms.short_or_full(
    [], [(8192, "N", "S36"), (1023, "N", "S37"), (4096, "Y", "S54"), (1500, "Y", "S54")])


@pytest.mark.parametrize("depth,invalidate,row", AWKWARD)
def test_awkward_depths(pair, modules, depth, invalidate, row):
    """Rows S36, S37, S54: depths that load connect, and many of their ids work at once."""
    rnbd.load(pair, rtrs_server__sess_queue_depth=depth, rtrs_server__max_chunk_size=8192,
              rtrs_server__always_invalidate=invalidate)
    disk = rnbd.map_disk(pair, rnbd.null_blk(pair.server, row, 128))
    size = forms.short_or_full("3m", "16m")
    pair.client.run(
        f"fio --name=v --filename={disk} --direct=1 --ioengine=libaio --thread --bs=4k "
        f"--rw=randwrite --iodepth=512 --numjobs=2 --size={size} --offset_increment=16m "
        "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --output-format=terse "
        ">/tmp/fio.out", 300)
    end(pair, disk, row)


def rate(job):
    """I/Os per second of a job of fio."""
    return sum(job[kind]["iops"] for kind in ("read", "write"))


def test_more_requests_than_tags(pair, modules, kernel):
    """A session of few tags: no collapse under many requests, and no disk starves another one."""
    rnbd.load(pair, rtrs_server__sess_queue_depth=32)
    session = Session(pair)
    disks = [session.map(rnbd.null_blk(pair.server, name, 64), [0]) for name in ("busy", "quiet")]
    seconds = forms.short_or_full(8, 30)

    def run(disk, jobs, depth):
        return multipath.Fio(pair.client, disk, jobs=jobs, depth=depth, seconds=seconds,
                             pattern="randrw", options="")

    rates = {depth: sum(map(rate, run(disks[0], 2, depth).stop())) for depth in (14, 128)}
    alone = rate(run(disks[1], 1, 1).stop()[0])
    busy, quiet = run(disks[0], 2, 128), run(disks[1], 1, 1)
    quiet, busy = rate(quiet.stop()[0]), sum(map(rate, busy.stop()))
    host.progress(f"MEASURED {kernel}: 30 tags: {rates[14]:.0f} IOPS with 28 requests, "
                  f"{rates[128]:.0f} with 256; a disk with one request at a time: {alone:.0f} alone, "
                  f"{quiet:.0f} beside {busy:.0f}")
    assert rates[128] > 0.7 * rates[14], "too many requests"
    # One request at a time beside 15 others, on processors that all of them share
    assert quiet > alone / 60, "starved"
    end(pair, disks, "busy", "quiet")


# One partition of 4 MiB from 1 MiB on
PARTITION_TABLE = bytes(446) + struct.pack("<8B2I", 0, 0, 0, 0, 0x83, 0, 0, 0, 2048, 8192) + \
    bytes(48) + b"\x55\xaa"


@pytest.mark.parametrize("depth,disks", [(1, 2), (4, 4)])
def test_as_many_maps_as_buffers(pair, modules, depth, disks):
    """Row D01: parallel maps with as few buffers; partitions are scanned meanwhile."""
    rnbd.load(pair, rtrs_server__sess_queue_depth=depth)
    names = [f"few{number}" for number in range(disks)]
    devices = [rnbd.null_blk(pair.server, name, 16) for name in names]
    session = Session(pair)
    # A partition table, so that the scan finds something to do.
    pair.server.put("/tmp/table", PARTITION_TABLE)
    for device in devices:
        pair.server.run(f"dd if=/tmp/table of={device} oflag=direct status=none")
    jobs = [pair.client.start_job(
        f"printf %s 'sessname={session.name} path={session.spec(0)} device_path={device}' "
        f">{rnbd.CTL}/map_device", 60) for device in devices]
    for job in jobs:
        job.wait(90)
    found = [pair.client.out(f"basename $(readlink {rnbd.CTL}/devices/"
                             f"{device.replace('/', '!')}@{session.name})") for device in devices]
    for name in found:
        pair.client.wait_for(f"test -b /dev/{name}p1", 10)
    disks = [f"/dev/{name}" for name in found]
    with verified_io(pair.client, disks, jobs=1, size_mib=4):
        pair.client.run(f"for i in $(seq 20); do dd if={disks[0]} of=/dev/null bs=4k count=8 "
                        "iflag=direct status=none || exit 1; done")
    end(pair, disks, *names)


# ---- many sessions

@LINKS
def test_many_sessions(pair, modules, kernel):
    """64 sessions with two paths each (short: 8), and 16 disks on each of 4 (short: 4 on 2)."""
    sessions, crowded, crowd = forms.short_or_full((8, 2, 4), (64, 4, 16))
    rnbd.load(pair, rtrs_server__sess_queue_depth=64, **FAST)
    every = [Session(pair) for _ in range(sessions)]
    disks, names = [], []
    for number, session in enumerate(every):
        for place in range(crowd if number < crowded else 1):
            names.append(f"m{number}x{place}")
            disks.append(session.map(rnbd.null_blk(pair.server, names[-1], 4)))
    assert all(session.up(path) for session in every for path in (0, 1))
    listed = pair.server.out("ls /sys/class/rtrs-server").split()
    assert sorted(listed) == sorted(session.name for session in every)
    with verified_io(pair.client, disks, jobs=1, size_mib=2):
        for session in every:
            session.wait_traffic(0, requests=5)
        # One after the other they lose a path.
        for session in every[:forms.short_or_full(4, 64)]:
            session.do(0, "disconnect")
            session.wait_traffic(1, requests=5)
            session.do(0, "reconnect")
    host.progress(f"MEASURED {kernel}: {sessions} sessions with {len(disks)} disks")
    end(pair, disks, *names)


# ---- poll queues

TRACE = "/sys/kernel/tracing"
EVENTS = ("cq_alloc", "cq_schedule", "cq_reschedule", "cq_poll")


class CqTrace:
    """What the kernel's RDMA core does with completion queues."""

    def __init__(self, guest):
        self.guest = guest
        guest.run(f"mountpoint -q {TRACE} || mount -t tracefs none {TRACE}\n"
                  f"cd {TRACE} && echo 0 >tracing_on && echo >trace && echo 16384 >buffer_size_kb\n"
                  + "".join(f"echo 1 >events/rdma_core/{event}/enable\n" for event in EVENTS)
                  + "echo 1 >tracing_on")

    def polled(self):
        """Ids of the queues that were allocated to be polled by their owner."""
        text = self.guest.out(f"grep cq_alloc {TRACE}/trace")
        return set(re.findall(r"cq\.id=(\d+) .*poll_ctx=(?:IB_POLL_)?DIRECT\b", text))

    def restart(self):
        """Forget what was."""
        self.guest.run(f"echo >{TRACE}/trace")

    def counts(self, ids, others=False):
        """(handlers run, completions found) on these queues, or on all but these."""
        script = ("BEGIN{split(ids, list, \",\"); for (i in list) want[list[i]] = 1}"
                  "match($0, /cq\\.id=[0-9]+/) {id = substr($0, RSTART + 6, RLENGTH - 6);"
                  f" if ((id in want) == {int(others)}) next;"
                  " if ($0 ~ / cq_poll: /) {sub(/.*returned /, \"\"); if ($0 > 0) got += $0}"
                  " else if ($0 ~ / cq_(re)?schedule: /) ran++}"
                  "END{print ran + 0, got + 0}")
        ran, got = self.guest.out(f"awk -v ids={','.join(sorted(ids))} '{script}' {TRACE}/trace",
                                  300).split()
        return int(ran), int(got)

    def stop(self):
        """As it was."""
        self.guest.run(f"cd {TRACE} && echo 0 >tracing_on\n"
                       + "".join(f"echo 0 >events/rdma_core/{event}/enable\n" for event in EVENTS)
                       + "echo >trace; echo 1408 >buffer_size_kb")


HIPRI = [("pvsync2", 1), ("io_uring", 8)]


@pytest.mark.parametrize("queues", forms.short_or_full([2], [1, 2]))
def test_polling(pair, modules, kernel, queues):
    """hipri I/O completes, what is polled for on poll queues; no handler of those ever runs."""
    rnbd.load(pair)
    trace = CqTrace(pair.client)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "poll", 256), [0], nr_poll_queues=queues)
    assert pair.client.read(f"/sys/block/{disk[5:]}/queue/io_poll") == "1"
    polled = trace.polled()
    assert len(polled) == queues, f"completion queues to poll: {polled}"
    for engine, depth in HIPRI:
        trace.restart()
        jobs = multipath.Fio(pair.client, disk, jobs=2, depth=depth, engine=engine,
                             seconds=forms.short_or_full(3, 20),
                             options=multipath.VERIFY + "--hipri").stop()
        ran, got = trace.counts(polled)
        host.progress(f"MEASURED {kernel}: {engine} on {queues} poll queues: "
                      f"{multipath.done(jobs)} I/Os, {got} completions polled, {ran} handlers run")
        assert ran == 0
        # The block layer does not poll for synchronous I/O.
        assert got > 0 or engine == "pvsync2"
    # I/O that nobody polls for takes the other queues, whose handlers do run.
    trace.restart()
    multipath.check_disk(pair.client, disk, 2)
    assert trace.counts(polled) == (0, 0)
    assert min(trace.counts(polled, others=True)) > 0
    trace.stop()
    end(pair, disk, "poll")


@LINKS
def test_polling_on_an_added_path(pair, modules):
    """Row C12: a path that is added to a session with poll queues has them, too."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "pollpath", 256), [0], nr_poll_queues=2)
    session.add(1)
    session.policy = "round-robin"
    for engine, depth in HIPRI:
        fio = multipath.Fio(pair.client, disk, jobs=2, depth=depth, engine=engine,
                            options=multipath.VERIFY + "--hipri")
        session.wait_traffic(0, 1)
        session.do(0, "disconnect")
        session.wait_traffic(1)
        session.do(0, "reconnect")
        session.remove(1)
        session.wait_traffic(0)
        session.add(1)
        session.wait_traffic(0, 1)
        fio.stop()
    session.wait_idle(0, 1)
    end(pair, disk, "pollpath")


# ---- clients that misbehave

@pytest.fixture(name="hostile", scope="session")
def hostile_fixture():
    """A program that plays a client, badly."""
    target = host.BUILD / "hostile"
    target.parent.mkdir(parents=True, exist_ok=True)
    assert shutil.which("cc"), "a C compiler is among the host packages"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", target,
                    host.VM_DIR / "guest" / "hostile.c", "-lrdmacm", "-libverbs"], check=True)
    return target


@pytest.fixture(name="attacker")
def attacker_fixture(pair, modules, hostile):
    """A function that runs the program in the client and returns its job."""
    rnbd.load(pair, **FAST)
    pair.client.run("modprobe -a rdma_ucm ib_uverbs")
    pair.client.put("/tmp/hostile", hostile, 0o755)

    def attack(*words):
        return pair.client.start_job(f"exec /tmp/hostile {multipath.endpoints()[1]} 1234 "
                                     + " ".join(map(str, words)) + " 2>&1", 300)

    return attack


def memory_mib(guest, what):
    """MemTotal or MemAvailable."""
    return int(re.search(rf"{what}: +(\d+)", guest.get("/proc/meminfo").decode()).group(1)) >> 10


def test_bad_session_names(pair, attacker):
    """Row S07: an INFO_REQ with an empty, endless or forbidden name closes that path only."""
    device = rnbd.null_blk(pair.server, "names", 16)
    session = Session(pair)
    disk = session.map(device, [0])
    with verified_io(pair.client, disk):
        for name in ("empty", "endless", "slash", "dot", f"taken:{session.name}"):
            result = attacker("info", name).wait(60, check=False)
            assert result.rc == 0 and "closed" in result.out, f"{name}: {result.describe()}"
            assert pair.server.out("ls /sys/class/rtrs-server") == session.name
    # Two that race for one name: one of them gets it.
    jobs = [attacker("info", "race") for _ in range(2)]
    pair.client.wait_for(lambda: any(b"accepted" in job.output() for job in jobs), 30)
    pair.client.wait_for(lambda: any(not job.running for job in jobs), 30, "one was closed")
    for job in jobs:
        if job.running:
            job.kill()
    pair.server.wait_for(f"test \"$(ls /sys/class/rtrs-server)\" = {session.name}", 30)
    end(pair, disk, "names")


def mapped(pair, device):
    """Map; None if the server says that it has no room."""
    try:
        return rnbd.map_disk(pair, device)
    except OSError as error:
        assert error.errno in (errno.ENOMEM, errno.EUSERS), error
        return None


def test_silent_clients(pair, attacker):
    """Row S25: connections that say nothing take bounded memory and are closed after a while."""
    server = pair.server
    count = forms.short_or_full(40, 200)
    before = memory_mib(server, "MemAvailable")
    position = server.log.position()
    job = attacker("silent", count)
    pair.client.wait_for(lambda: b"all asked" in job.output(), 120)
    taken = before - memory_mib(server, "MemAvailable")
    refused = int(re.search(rb"(\d+) refused", job.output()).group(1))
    host.progress(f"MEASURED {count} silent sessions: {taken} MiB taken, {refused} refused")
    assert refused > 0, "nothing bounds what strangers can take"
    assert taken < memory_mib(server, "MemTotal") // 2 + 128
    server.sync_log()
    assert [line for line in server.log.since(position) if "rtrs_server" in line
            and "refused" in line], "the log says nothing about the refusals"
    # Those who say nothing are let go, and others are served.
    device = rnbd.null_blk(server, "served", 16)
    started = time.monotonic()
    disk = pair.client.wait_for(lambda: mapped(pair, device), 45, "others are served")
    host.progress(f"MEASURED others are served {time.monotonic() - started:.0f} s later")
    multipath.check_disk(pair.client, disk, 1)
    assert memory_mib(server, "MemAvailable") > before - 256
    job.kill()
    end(pair, disk, "served")


def test_crowds_of_connections(pair, attacker):
    """Row S26: what connections take, however many, is claimed before they are accepted."""
    server = pair.server
    limit = 256
    server.write("/sys/module/rtrs_server/parameters/max_memory", str(limit))
    for count in forms.short_or_full((16, 160), (16, 64, 160, 1000)):
        before = memory_mib(server, "MemAvailable")
        job = attacker("crowd", count)
        pair.client.wait_for(lambda job=job: b"all asked" in job.output(), 120)
        refused = int(re.search(rb"(\d+) refused", job.output()).group(1))
        taken = before - memory_mib(server, "MemAvailable")
        host.progress(f"MEASURED {count} silent connections: {taken} MiB taken, {refused} refused")
        assert refused in (0, count)
        assert (refused == 0) == (count < 100), "the limit is where this test expects it"
        assert taken < limit
        job.kill()
        server.wait_for(lambda before=before:
                        memory_mib(server, "MemAvailable") > before - 48, 60, "memory is back")
    rnbd.unload(pair)


@pytest.mark.full
def test_endless_handshake(pair, attacker):
    """Row S24: one more connection every 20 s does not keep a path for ever."""
    position = pair.server.log.position()
    started = time.monotonic()
    job = attacker("drip", 20)

    def given_up():
        pair.server.sync_log()
        return [line for line in pair.server.log.since(position)
                if "did not finish its handshake" in line]

    pair.server.wait_for(given_up, 160, "the path is given up")
    took = time.monotonic() - started
    host.progress(f"MEASURED an endless handshake is given up after {took:.0f} s")
    assert took > 100 and job.output().count(b"connected") >= 5, "given up for another reason"
    job.kill()
    rnbd.unload(pair)


@LINKS
def test_path_to_two_places(pair, attacker):
    """Row S32: the connections of a path must lead to one address over one device."""
    result = attacker("astray", multipath.endpoints(1)[1]).wait(60, check=False)
    assert result.rc == 0 and "refused" in result.out, result.describe()
    rnbd.unload(pair)


def test_client_that_takes_no_answer(pair, attacker):
    """A path whose heartbeats go on while a send queue stands still is closed after 30 s."""
    server = pair.server
    position = server.log.position()
    started = time.monotonic()
    job = attacker("deaf", "deaf")
    pair.client.wait_for(lambda: b"asked" in job.output(), 60)
    result = job.wait(90, check=False)
    assert result.rc == 0 and "closed" in result.out, result.describe()
    took = time.monotonic() - started
    host.progress(f"MEASURED a send queue that stands still is given up after {took:.0f} s")
    assert took > 25, "closed too early: for another reason?"
    server.sync_log()
    assert [line for line in server.log.since(position) if "stands still" in line]
    server.wait_for("! ls /sys/class/rtrs-server 2>/dev/null | grep .", 30)
    rnbd.unload(pair)
