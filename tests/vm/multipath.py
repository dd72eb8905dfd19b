# SPDX-License-Identifier: GPL-2.0
"""Sessions with several paths: their sysfs nodes, I/O in the background, and a stopwatch."""

import contextlib
import ipaddress
import itertools
import json
from dataclasses import dataclass

import rnbd
from vmlab import pair as vmlab_pair

CLASS = "/sys/class/rtrs-client"

# Heartbeats of one second, and three of them may be missed, on both sides.
FAST = {f"rtrs_{side}__heartbeat_{key}": value for side in ("client", "server")
        for key, value in (("interval_ms", 1000), ("max_missed", 3))}
# What a lost path is allowed to take until it is noticed, in seconds
DETECTION = 5.5
DETECTION_DEFAULT = 36.5
# ... from then until its requests are on another path
FAILOVER = 1.0
# ... and from the end of the trouble until it is connected again, with one back-off step on top
RECOVERY = 5.0
# How late a sample may be taken in an emulated machine
LATE = 0.5

POLICIES = ("round-robin", "min-inflight", "min-latency")

_numbers = itertools.count(1)


def back_off(outage):
    """An upper bound of the pause between two attempts after an outage of so many seconds.

    They are 1, 2, 4, ... 30 s long, each of them a quarter more or less.
    """
    return min(37.5, 1.25 * (1 + outage / 0.75))


def plain(text):
    """An IP address as the kernel prints it."""
    return ipaddress.ip_address(text).compressed


def endpoints(link=0, family=4):
    """(client's address, server's address) of a link."""
    address = vmlab_pair.address if family == 4 else vmlab_pair.address6
    return plain(address(2, link)), plain(address(1, link))


def path_name(link=0, family=4):
    """A path as it is written to add_path, and the name of its directory."""
    client, server = endpoints(link, family)
    return f"ip:{client}@ip:{server}"


@dataclass(frozen=True)
class Counters:
    """The file stats/rdma of a path of the client."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    inflight: int
    failed_over: int

    @property
    def requests(self):
        """Reads and writes together."""
        return self.reads + self.writes


def counters(text):
    """Parse stats/rdma."""
    fields = text.split()
    assert len(fields) == 6, f"stats/rdma is {text!r}"
    return Counters(*map(int, fields))


class Session:
    """A session of the client.  A path is named by its link, or (link, 6) for its IPv6 twin."""

    def __init__(self, pair, name=None):
        self.pair = pair
        self.client = pair.client
        self.name = name or rnbd.new_session()
        self.dir = f"{CLASS}/{self.name}"

    @staticmethod
    def spec(path):
        """The path as text; a string is taken as it is."""
        if isinstance(path, str):
            return path
        return path_name(*path) if isinstance(path, tuple) else path_name(path)

    def map(self, device, paths=(0, 1), **keys):
        """Map a device over these paths; returns /dev/rnbd<N>."""
        words = " path=".join(map(self.spec, paths))
        return rnbd.map_disk(self.pair, device, self.name, path=words, **keys)

    def node(self, path, file=""):
        """Name of a file of a path."""
        return f"{self.dir}/paths/{self.spec(path)}/{file}"

    def read(self, path, file):
        """A file of a path."""
        return self.client.read(self.node(path, file))

    def paths(self):
        """Names of all paths."""
        return set(self.client.out(f"ls {self.dir}/paths").split())

    def up(self, path):
        """True if a path is connected."""
        return self.read(path, "state") == "connected"

    def wait_up(self, path, timeout):
        """Wait until a path is connected."""
        self.client.wait_for(f"grep -qx connected '{self.node(path, 'state')}'", timeout)

    def wait_down(self, path, timeout):
        """Wait until a path is not connected."""
        self.client.wait_for(f"grep -qx disconnected '{self.node(path, 'state')}'", timeout)

    def do(self, path, what, timeout=120):
        """Write 1 to disconnect, reconnect or remove_path."""
        self.client.write(self.node(path, what), "1", timeout)

    def add(self, path, timeout=120):
        """Write to add_path."""
        self.client.write(f"{self.dir}/add_path", self.spec(path), timeout)

    def remove(self, path):
        """Remove a path; its directory is gone then."""
        self.do(path, "remove_path")
        assert self.spec(path) not in self.paths()

    @property
    def policy(self):
        """What mpath_policy says."""
        return self.client.read(f"{self.dir}/mpath_policy")

    @policy.setter
    def policy(self, value):
        self.client.write(f"{self.dir}/mpath_policy", value)

    def stats(self, path):
        """The Counters of a path."""
        return counters(self.read(path, "stats/rdma"))

    def reset(self, path):
        """Reset the statistics of a path."""
        self.client.write(self.node(path, "stats/reset_all"), "1")

    def wait_traffic(self, *paths, requests=20, timeout=60):
        """Wait until each of these paths has carried some more requests."""
        for path in paths:
            before = self.stats(path).requests
            self.client.wait_for(lambda path=path, before=before:
                                 self.stats(path).requests >= before + requests, timeout,
                                 f"traffic on {self.spec(path)}")

    def wait_idle(self, *paths, timeout=10):
        """Wait until nothing is in flight on these paths."""
        for path in paths:
            self.client.wait_for(lambda path=path: self.stats(path).inflight == 0, timeout,
                                 f"{self.spec(path)} is idle")


def wait_open(pair, disk, timeout):
    """Wait until a disk can be used (again)."""
    pair.client.wait_for(f"grep -qx open /sys/block/{disk[5:]}/rnbd/state", timeout)


# ---- I/O in the background

# A disk that is gone must not become a file of that name.
FIO = ("exec fio --direct=1 --thread --randrepeat=0 --group_reporting=0 --allow_file_create=0 "
       "--output-format=json --eta=never ")
# With time_based it begins the next round over its blocks before the last one has ended.  Two
# operations on one block would be on their way at once then; as soon as one half of a block is
# slower than the other, what is on any disk is half of this and half of that, and it says so.
VERIFY = ("--verify=crc32c --verify_backlog=16 --verify_fatal=1 --verify_state_save=0 "
          "--serialize_overlap=1 ")


class Fio:
    """fio, which writes and verifies until stop(), or for a given time."""

    def __init__(self, guest, disks, jobs=2, depth=4, block="4k", size_mib=8, seconds=None,
                 pattern="randwrite", engine="libaio", options=VERIFY):
        disks = [disks] if isinstance(disks, str) else disks
        self.guest = guest
        self.file = f"/tmp/fio-{next(_numbers)}.json"
        command = (FIO + f"--output={self.file} --ioengine={engine} --iodepth={depth} "
                   f"--bs={block} --rw={pattern} --size={size_mib}m "
                   f"--offset_increment={size_mib}m --numjobs={jobs} --time_based "
                   f"--runtime={seconds or 1700} {options} ")
        command += " ".join(f"--name={disk[5:]} --filename={disk}" for disk in disks)
        self.seconds = seconds
        self._job = guest.start_job(command, 1800)

    @property
    def running(self):
        """False once it has ended, be it for an error."""
        return self._job.running

    def assert_running(self):
        """Nothing has gone wrong so far."""
        if not self.running:
            self.finish(0)
            raise AssertionError("fio has ended by itself")

    def finish(self, error, timeout=300):
        """Wait for its end; every job must have ended with this errno, or one of a set.

        Returns its jobs.
        """
        result = self._job.wait(timeout, check=False)
        text = self.guest.get(self.file).decode(errors="replace")
        jobs = json.loads(text[text.index("{"):])["jobs"]
        errors = {job["error"] for job in jobs}
        expected = error if isinstance(error, set) else {error}
        assert errors and errors <= expected, f"fio: errors {errors}\n{result.err}\n{text[:text.index('{')]}"
        return jobs

    def stop(self):
        """End it; no I/O may have failed.  Returns its jobs."""
        if self.running and not self.seconds:
            self._job.kill(2)
        return self.finish(0, 300 + (self.seconds or 0))


def longest(jobs):
    """The longest that an I/O of fio's jobs has taken, seconds."""
    return max(job[kind]["clat_ns"].get("max", 0) for job in jobs
               for kind in ("read", "write")) / 1e9


def done(jobs):
    """How many I/Os fio's jobs have done."""
    return sum(job[kind]["total_ios"] for job in jobs for kind in ("read", "write"))


def completed(guest, disk):
    """How many reads and writes a disk has completed."""
    fields = guest.get(f"/sys/block/{disk[5:]}/stat").split()
    return int(fields[0]) + int(fields[4])


@contextlib.contextmanager
def verified_io(guest, disks, **kwargs):
    """fio with verification for the time of a block, which begins when there is I/O."""
    disks = [disks] if isinstance(disks, str) else disks
    before = completed(guest, disks[0])
    fio = Fio(guest, disks, **kwargs)
    # It prepares each of its threads before the first one begins.
    guest.wait_for(lambda: completed(guest, disks[0]) > before or not fio.running,
                   60 + 3 * len(disks), f"fio uses {disks[0]}")
    yield fio
    fio.assert_running()
    assert done(fio.stop()) > 0


def check_disk(guest, disk, size_mib=4):
    """A short verified run, all of it."""
    guest.run(f"fio --name=check --filename={disk} --direct=1 --ioengine=libaio --thread --bs=4k "
              f"--rw=randwrite --iodepth=8 --size={size_mib}m --verify=crc32c --verify_fatal=1 "
              "--verify_state_save=0 --output-format=terse >/tmp/fio.out", 300)


# ---- stopwatch

WATCH = r"""
import os, sys, time
base = sys.argv[1]
def read(*names):
    try:
        with open(os.path.join(base, *names)) as f:
            return f.read().strip()
    except OSError:
        return "-"
while True:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    for path in os.listdir(base) if os.path.isdir(base) else ():
        print(f"{now:.3f}", path, read(path, "state"), read(path, "stats", "rdma"), flush=True)
    time.sleep(0.1)
"""


class Watch:
    """Samples the paths of a session ten times a second, by the client's clock."""

    def __init__(self, session):
        self.session = session
        self.guest = session.client
        self.guest.put("/tmp/watch.py", WATCH)
        self._job = self.guest.start_job(f"exec python3 /tmp/watch.py {session.dir}/paths", 1800)
        self.guest.wait_for(lambda: self.samples(), 20, "the watch runs")

    def now(self):
        """The client's clock."""
        return float(self.guest.out("cut -d' ' -f1 /proc/uptime"))

    def samples(self):
        """(time, path, state, Counters or None) of every sample."""
        found = []
        for line in self._job.output().decode().split("\n")[:-1]:
            time, path, state, rdma = line.split(" ", 3)
            found.append((float(time), path, state, counters(rdma) if rdma != "-" else None))
        return found

    def first(self, path, after, condition):
        """When a sample of a path first met condition(state, counters), or None."""
        name = self.session.spec(path)
        for time, its, state, stats in self.samples():
            if its == name and time >= after and condition(state, stats):
                return time
        return None

    def wait(self, path, after, condition, timeout, what):
        """The time of first(), waiting for it; then relative to `after`."""
        when = self.guest.wait_for(lambda: self.first(path, after, condition), timeout, what)
        return when - after

    def wait_state(self, path, after, state, timeout):
        """How long after `after` a path got into a state."""
        return self.wait(path, after, lambda its, _: its == state, timeout,
                         f"{self.session.spec(path)} is {state}")

    def stop(self):
        """No more samples."""
        self._job.kill()


# ---- the network: soft-RoCE's state, slow and lossy links

def assert_reachable(guest, link):
    """The CM's queue pair of a soft-RoCE device lives; nothing would start it again."""
    found = guest.out(f"rdma resource show qp link rxe{link}/1 | grep 'type GSI'")
    assert "state RTS" in found, f"rxe{link} cannot be connected to any more: {found}"


@contextlib.contextmanager
def netem(guest, link, how):
    """Treat what a guest sends on a link, for example "delay 20ms"; yields a function to change it.

    To add or remove the treatment can drop a packet, and that can cost a queue pair of
    soft-RoCE (see "Provider bugs" in rtrs/README.md); to change it does not.
    """
    guest.run(f"modprobe sch_netem && tc qdisc add dev eth{link} root netem limit 100000 {how}")
    try:
        yield lambda how: guest.run(
            f"tc qdisc change dev eth{link} root netem limit 100000 {how}")
    finally:
        guest.run(f"tc qdisc del dev eth{link} root")


# ---- row X01

MIXED_UP = "the request that hung has written something else"


class Patterns:
    """Two disks of the server, of which the first can be made to hang; mapped in one session."""

    def __init__(self, pair, block):
        self.pair = pair
        self.block = block
        self.size = int(block[:-1]) * 1024
        server = pair.server
        self.backing = [rnbd.null_blk(server, name, 64) for name in ("hung", "free")]
        server.run("modprobe dm_mod && dmsetup create hung --table "
                   f"'0 131072 linear {self.backing[0]} 0' && dmsetup mknodes")
        for letter in "AB":
            pair.client.put(f"/tmp/{letter}", letter.encode() * self.size)
        self.session = Session(pair)
        self.disks = [self.session.map("/dev/mapper/hung", [0]),
                      self.session.map(self.backing[1], [0])]

    def writer(self, letter):
        """A command that writes a block of letters to the first or second disk."""
        disk = self.disks["AB".index(letter)]
        return f"dd if=/tmp/{letter} of={disk} bs={self.block} oflag=direct status=none"

    def hang(self):
        """Write A to the disk that hangs; returns the job once the server has the request."""
        stats = f"cat /sys/class/rtrs-server/{self.session.name}/paths/*/stats/rdma"
        writes = int(self.pair.server.out(stats).split()[2])
        self.pair.server.run("dmsetup suspend --noflush --nolockfs hung")
        job = self.pair.client.start_job(self.writer("A"), 300)
        self.pair.server.wait_for(
            lambda: int(self.pair.server.out(stats).split()[2]) > writes, 30, "A is at the server")
        assert job.running
        return job

    def resume(self):
        """The disk hangs no longer, and has done what it had to do."""
        self.pair.server.run("dmsetup resume hung")
        self.pair.server.wait_for("[ \"$(tr -s ' ' </sys/block/dm-0/inflight)\" = ' 0 0' ]", 30)

    def contents(self, number):
        """The letters at the begin of one of the server's disks."""
        self.pair.server.run(f"dd if={self.backing[number]} of=/tmp/block bs={self.block} count=1 "
                             "iflag=direct status=none")
        return set(self.pair.server.get("/tmp/block").decode())

    def remove(self):
        """Unmap and remove all of it."""
        for disk in self.disks:
            rnbd.unmap(self.pair, disk)
        self.pair.server.run("dmsetup remove hung")
        for name in ("hung", "free"):
            rnbd.remove_null_blk(self.pair.server, name)


def hung_buffer(pair, block, how):
    """A request hangs at the server, its path dies, and all buffer ids are used on another path.

    how: "alone": the path is the session's only one, and a new one is made; "two-paths": the
    request fails over; "cable": it does so because the link is down.  To be called with 16
    buffers or less.
    """
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    patterns = Patterns(pair, block)
    hung = patterns.hang()
    try:
        writing, adding = _use_all_buffers(pair, patterns, hung, how)
    finally:
        patterns.resume()
    if adding:
        adding.wait(60)
        wait_open(pair, patterns.disks[1], 30)
        writing.wait(60)
        assert patterns.contents(0) <= {"A", "\0"}, MIXED_UP
    else:
        hung.wait(60)
        assert patterns.contents(0) == {"A"}, MIXED_UP
    assert patterns.contents(1) == {"B"}
    pair.client.cable(0, True)
    patterns.remove()


def _use_all_buffers(pair, patterns, hung, how):
    """While a request hangs; returns the jobs that may need its end, see hung_buffer()."""
    session = patterns.session
    adding = None
    if how == "alone":
        session.do(0, "disconnect")
        assert hung.wait(60, check=False).rc, "a write over a lost path cannot succeed"
        # The server may keep the new path waiting until the old request has ended.
        adding = pair.client.start_job(f"echo {session.spec(1)} >{session.dir}/add_path", 120)
    else:
        session.add(1)
        if how == "cable":
            pair.client.cable(0, False)
            session.wait_down(0, 60)
        else:
            session.do(0, "disconnect")
        assert hung.running, "the request must go on over the other path"
    # 40 writes need every one of the 16 ids, or fail because nothing is connected.
    writing = pair.client.start_job(
        f"for i in $(seq 40); do until {patterns.writer('B')} 2>/dev/null; do sleep 0.1; done; "
        "done", 120)
    if how == "alone":
        # Writes that go through while the old one hangs are the dangerous ones.
        # A server that fences the new path off lets none through, however long one waits.
        with contextlib.suppress(AssertionError):
            pair.client.wait_for(lambda: not writing.running, 5)
    else:
        assert writing.wait(60).rc == 0, "one busy id must not hold up the others"
    return writing, adding
