# SPDX-License-Identifier: GPL-2.0
"""Sessions with several paths, under verified I/O: cables, policies, paths that come and go.

"row" names a line of the list of known defects of other implementations.
"""

import errno
import re

import pytest

import multipath
import rnbd
from multipath import FAST, POLICIES, Session, Watch, verified_io
from vmlab import forms, host

pytestmark = pytest.mark.links(2)


def null_blk(pair, name, size_mib=256, **attributes):
    """A disk of the server."""
    return rnbd.null_blk(pair.server, name, size_mib, **attributes)


def end(pair, disks, *names):
    """Unmap, remove the server's disks and unload; nothing may be left."""
    for disk in [disks] if isinstance(disks, str) else disks:
        rnbd.unmap(pair, disk)
    for name in names:
        rnbd.remove_null_blk(pair.server, name)
    rnbd.unload(pair)


def say(kernel, text):
    """Print measured times."""
    host.progress(f"MEASURED {kernel}: {text}")


# ---- cables

def pull_and_plug(session, watch, guest, link, bound):
    """One link down and up again; returns (detection, failover, recovery) in seconds."""
    other = 1 - link
    pulled = watch.now()
    guest.cable(link, False)
    detection = watch.wait_state(link, pulled, "disconnected", bound + 10)
    lost = pulled + detection
    moved = watch.wait(link, lost, lambda _, stats: stats and not stats.inflight, 40,
                       "the requests of the dead path are elsewhere")
    session.wait_traffic(other)
    multipath.assert_reachable(guest, link)
    plugged = watch.now()
    guest.cable(link, True)
    recovery = watch.wait_state(link, plugged, "connected", 120)
    session.wait_traffic(0, 1)
    assert detection <= bound + multipath.LATE
    assert moved <= multipath.FAILOVER + multipath.LATE
    allowed = multipath.RECOVERY + multipath.back_off(plugged - lost)
    assert recovery <= allowed + multipath.LATE, f"recovered in {recovery:.1f} of {allowed:.1f} s"
    return detection, moved, recovery


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("heartbeat", [
    "fast", pytest.param("default", marks=pytest.mark.full)])
def test_one_link_goes_down(pair, modules, kernel, side, heartbeat):
    """A cable is pulled: I/O goes on over the other; it is plugged: both are used again."""
    parameters, bound = (FAST, multipath.DETECTION) if heartbeat == "fast" else \
        ({}, multipath.DETECTION_DEFAULT)
    rnbd.load(pair, **parameters)
    session = Session(pair)
    disk = session.map(null_blk(pair, "cable"))
    session.policy = "round-robin"
    watch = Watch(session)
    fio = multipath.Fio(pair.client, disk)
    session.wait_traffic(0, 1)
    times = pull_and_plug(session, watch, getattr(pair, side), 0, bound)
    fio.assert_running()
    stall = multipath.longest(fio.stop())
    watch.stop()
    say(kernel, f"cable of the {side}, {heartbeat} heartbeat: detection %.1f s, failover %.1f s, "
        "recovery %.1f s" % times + f"; longest I/O {stall:.1f} s")
    end(pair, disk, "cable")


@pytest.mark.newest
def test_links_flap(pair, modules, kernel):
    """The links go down and up in turns, 20 times (short: 2)."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "flap"))
    session.policy = "round-robin"
    watch = Watch(session)
    times = []
    with verified_io(pair.client, disk):
        session.wait_traffic(0, 1)
        for number in range(forms.short_or_full(2, 20)):
            guest = pair.guests[(number + number // 2) % 2]
            times.append(pull_and_plug(session, watch, guest, number % 2, multipath.DETECTION))
    watch.stop()
    say(kernel, f"{len(times)} flaps: at most %.1f s detection, %.1f s failover, %.1f s recovery"
        % tuple(max(column) for column in zip(*times)))
    end(pair, disk, "flap")


# ---- paths come and go

def test_remove_and_add_a_path(pair, modules):
    """A path is removed and added 20 times (short: 2) under load; the last can be, too."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "comego"))
    session.policy = "round-robin"
    with verified_io(pair.client, disk) as fio:
        for number in range(forms.short_or_full(2, 20)):
            session.wait_traffic(0, 1)
            session.remove(number % 2)
            session.wait_traffic(1 - number % 2)
            session.add(number % 2)
            assert session.up(number % 2)
            fio.assert_running()
        session.wait_traffic(0, 1)
    session.remove(0)
    session.remove(1)
    assert session.paths() == set()
    assert pair.client.run(f"dd if={disk} of=/dev/null bs=4k count=1 iflag=direct",
                           check=False).rc, "a read without a path must fail"
    session.add(1)
    multipath.wait_open(pair, disk, 10)
    multipath.check_disk(pair.client, disk, 1)
    end(pair, disk, "comego")


@pytest.mark.newest
def test_disconnect_and_reconnect(pair, modules):
    """disconnect closes for good, reconnect brings back, of a connected path too; under load."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "recon"))
    session.policy = "round-robin"
    with verified_io(pair.client, disk):
        session.wait_traffic(0, 1)
        assert session.read(0, "stats/reconnects") == "0 0"
        session.do(0, "disconnect")
        assert not session.up(0)
        session.do(0, "disconnect")
        session.wait_traffic(1, requests=200)
        assert not session.up(0), "a path that was disconnected has come back by itself"
        session.do(0, "reconnect")
        assert session.up(0)
        assert session.read(0, "stats/reconnects") == "1 0"
        session.wait_traffic(0, 1)
        session.do(1, "reconnect")
        assert session.up(1)
        session.wait_traffic(0, 1)
    end(pair, disk, "recon")


def refused(session, path):
    """The errno's name of an add_path."""
    with pytest.raises(OSError) as caught:
        session.add(path)
    return errno.errorcode[caught.value.errno]


@pytest.mark.newest
def test_wrong_paths(pair, modules):
    """Every wrong add_path has its errno and leaves nothing; a GID parses and has no device here."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "wrong"), [0])
    before = session.paths()
    gid = "gid:fe80:0000:0000:0000:5054:00ff:fe71:0001"
    for path, expected in ((0, "EEXIST"), ("\n", "EINVAL"), ("ip:", "EINVAL"), ("foo", "EINVAL"),
                           ("192.168.71.1", "EINVAL"), ("gid:xyz", "EINVAL"), (gid, "ENODEV"),
                           (f"{gid}@{gid}", "ENODEV"), ("ip:127.0.0.1", "ENODEV"),
                           ("ip:10.9.9.9", "ENETUNREACH"),
                           ("ip:192.168.72.77@ip:192.168.72.1", "EADDRNOTAVAIL")):
        assert (path, refused(session, path)) == (path, expected)
        assert session.paths() == before, f"after {path!r}"
    assert session.up(0)
    end(pair, disk, "wrong")


@pytest.mark.newest
def test_add_a_disconnected_path_again(pair, modules):
    """Row C11: the address pair of a disconnected path is refused, and nothing is freed twice."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "twice"))
    with verified_io(pair.client, disk):
        for _ in range(2):
            session.do(0, "disconnect")
            assert refused(session, 0) == "EEXIST"
            assert refused(session, 1) == "EEXIST"
            session.do(0, "reconnect")
            assert session.up(0)
        session.remove(0)
        session.add(0)
        assert session.up(0)
    end(pair, disk, "twice")


@pytest.mark.newest
@pytest.mark.parametrize("trouble", [
    "device", pytest.param("cable", marks=pytest.mark.full)])
def test_map_with_one_dead_path(pair, modules, kernel, trouble):
    """One of two paths cannot connect: the map succeeds, and the path follows when it can."""
    rnbd.load(pair, **FAST)
    if trouble == "device":
        pair.client.run("rdma link delete rxe1")
    else:
        pair.server.cable(1, False)
    client, server = multipath.endpoints(1)
    session = Session(pair)
    # No source is given: what the directory is called shows it.
    disk = session.map(null_blk(pair, "partly"), [0, f"ip:{server}"])
    unresolved = f"ip:0.0.0.0@ip:{server}"
    assert session.paths() in ({session.spec(0), unresolved}, {session.spec(0), session.spec(1)})
    assert session.up(0)
    with verified_io(pair.client, disk):
        session.wait_traffic(0)
        watch = Watch(session)
        mended = watch.now()
        pair.server.cable(1, True)
        pair.client.setup_rxe(1)
        recovery = watch.wait_state(1, mended, "connected", 90)
        watch.stop()
        assert session.paths() == {session.spec(0), session.spec(1)}
        assert session.read(1, "src_addr") == f"ip:{client}"
        session.policy = "round-robin"
        session.wait_traffic(0, 1)
    say(kernel, f"a path that was dead at map time ({trouble}) connects {recovery:.1f} s later")
    end(pair, disk, "partly")


@pytest.mark.newest
def test_mixed_families(pair, modules):
    """IPv4 and IPv6 paths in one session, at map time and later; each alone keeps it alive."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "mixed"), [0, (1, 6)])
    session.policy = "round-robin"
    with verified_io(pair.client, disk):
        session.wait_traffic(0, (1, 6))
        session.add((0, 6))
        session.add(1)
        every = [0, 1, (0, 6), (1, 6)]
        assert session.paths() == set(map(session.spec, every))
        session.wait_traffic(*every)
        assert {session.read(path, "src_addr") for path in every} == {
            "ip:" + multipath.endpoints(link, family)[0] for link in (0, 1) for family in (4, 6)}
        for path in (0, 1):
            session.remove(path)
        session.wait_traffic((0, 6), (1, 6))
        session.add(0)
        for path in ((0, 6), (1, 6)):
            session.remove(path)
        session.wait_traffic(0)
    end(pair, disk, "mixed")


# ---- policies

@pytest.mark.newest
def test_policy_names(pair, modules):
    """mpath_policy takes numbers, long names in any case, short names; and says what is set."""
    rnbd.load(pair)
    session = Session(pair)
    disk = session.map(null_blk(pair, "names"))
    says = ("round-robin (RR: 0)", "min-inflight (MI: 1)", "min-latency (ML: 2)")
    assert session.policy == says[1], "the default"
    for number, aliases in enumerate((("0", "round-robin", "Round-Robin\n", "rr", "RR\n", "00"),
                                      ("1", "min-inflight", "MIN-INFLIGHT", "mi", "Mi"),
                                      ("2\n", "min-latency", "min-latencY", "ml", "ML"))):
        for alias in aliases:
            session.policy = POLICIES[(number + 1) % 3]
            session.policy = alias
            assert session.policy == says[number], alias
    for wrong in ("3", "-1", " 1", "1 ", "r", "round", "xx", "rrr", "\n", "min-"):
        with pytest.raises(OSError) as caught:
            session.policy = wrong
        assert caught.value.errno == errno.EINVAL, wrong
        assert session.policy == says[2]
    end(pair, disk, "names")


@pytest.mark.newest
def test_policies_are_switched_under_load(pair, modules):
    """Another policy every second for a minute (short: 9 seconds)."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "switch"))
    script = (f"for i in $(seq {forms.short_or_full(3, 20)}); do for p in rr mi ml; do "
              f"echo $p >{session.dir}/mpath_policy || exit; sleep 1; done; done")
    with verified_io(pair.client, disk, jobs=4):
        pair.client.run(script)
        session.wait_traffic(0)
    end(pair, disk, "switch")


def read_and_write(session, disk, seconds):
    """12 readers and 12 writers for so long; none may fail."""
    common = {"jobs": 12, "depth": 2, "seconds": seconds}
    writers = multipath.Fio(session.client, disk, **common)
    readers = multipath.Fio(session.client, disk, pattern="randread", options="", **common)
    assert multipath.done(writers.stop()) and multipath.done(readers.stop())


def preemption(guest):
    """The name of the preemption model that a kernel runs with."""
    offered = guest.out("[ ! -e /sys/kernel/realtime ] && mount -t debugfs none /mnt && "
                        "cat /mnt/sched/preempt && umount /mnt || echo '(realtime)'")
    return re.search(r"\((\w+)\)", offered).group(1)


def readers_and_writers(pair, model):
    """Under every policy, for a minute (short: 3 s): nothing fails.

    Row C15, with one path as there and with two.
    """
    assert [preemption(guest) for guest in pair.guests] == [model, model]
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "many"), [0])
    for policy in POLICIES:
        session.policy = policy
        if model != "voluntary" or forms.full():
            read_and_write(session, disk, forms.short_or_full(2, 10))
        session.add(1)
        read_and_write(session, disk, forms.short_or_full(3, 60))
        assert session.up(0) and session.up(1)
        session.wait_idle(0, 1)
        session.remove(1)
    end(pair, disk, "many")


@pytest.mark.kernels(*forms.short_or_full((), ["6.1"]), "6.12", "7.3")
def test_readers_and_writers(pair, modules, kernel):
    """On stock kernels as they come: preempted nowhere, or (7.3) anywhere, but lazily."""
    readers_and_writers(pair, "lazy" if kernel == "7.3" else "voluntary")


@pytest.mark.kernels("6.12")
@pytest.mark.append("preempt=full")
def test_readers_and_writers_preempted(pair, modules):
    """Preempted anywhere, at once."""
    readers_and_writers(pair, "full")


@pytest.mark.full
@pytest.mark.kernels("6.12-rt")
def test_readers_and_writers_in_real_time(pair, modules):
    """With spinlocks that sleep, and threads in place of interrupts."""
    readers_and_writers(pair, "realtime")


def load_for(session, disk, **kwargs):
    """Some seconds of I/O with fresh statistics; returns the Counters of both paths."""
    for path in (0, 1):
        session.reset(path)
    multipath.Fio(session.client, disk, seconds=forms.short_or_full(5, 30), **kwargs).stop()
    session.wait_idle(0, 1)
    return session.stats(0), session.stats(1)


@pytest.mark.newest
def test_round_robin_is_even(pair, modules, kernel):
    """Round-robin spreads requests within 5 %."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "even"))
    session.policy = "round-robin"
    one, two = load_for(session, disk)
    say(kernel, f"round-robin: {one.requests} and {two.requests} requests")
    assert min(one.requests, two.requests) >= 0.95 * max(one.requests, two.requests) > 100
    assert min(one.writes, two.writes) > 0 < min(one.reads, two.reads)
    end(pair, disk, "even")


@pytest.mark.newest
def test_min_inflight_prefers_the_idle_path(pair, modules, kernel):
    """One link is slowed, in both directions of the cable in turn: most go over the other."""
    rnbd.load(pair)
    session = Session(pair)
    disk = session.map(null_blk(pair, "idle"))
    session.policy = "min-inflight"
    for slow in (0, 1):
        with multipath.netem(pair.guests[slow], slow, "delay 100ms"):
            found = load_for(session, disk)
        say(kernel, f"min-inflight: {found[slow].requests} requests over the link with 100 ms of "
            f"delay, {found[1 - slow].requests} over the other")
        assert found[1 - slow].requests > 3 * found[slow].requests
    assert session.up(0) and session.up(1)
    end(pair, disk, "idle")


def dropped(guest, link):
    """Packets that netem has dropped."""
    return int(re.search(r"dropped (\d+)", guest.out(f"tc -s qdisc show dev eth{link}")).group(1))


@pytest.mark.newest
@pytest.mark.parametrize("sender", ["client", "server"])
def test_one_link_loses_packets(pair, modules, kernel, sender):
    """What one machine sends on one link gets lost now and then: slower, but no error, no hang."""
    rnbd.load(pair)
    session = Session(pair)
    disks = [session.map(null_blk(pair, name)) for name in ("small", "large")]
    session.policy = "round-robin"
    guest = pair.client if sender == "client" else pair.server
    seconds = forms.short_or_full(15, 120)
    with multipath.netem(guest, 0, "loss 1%"):
        runs = [multipath.Fio(pair.client, disk, pattern="randrw", block=block, seconds=seconds)
                for disk, block in zip(disks, ("16k", "256k"))]
        jobs = [job for fio in runs for job in fio.stop()]
        lost = dropped(guest, 0)
    say(kernel, f"1% of the {sender}'s packets of a link lost, {lost} in all: {multipath.done(jobs)} "
        f"I/Os in {seconds} s, the longest took {multipath.longest(jobs):.1f} s")
    assert lost > 20, "nothing was lost"
    # A send queue that stands still is given up after 30 s: it must not come to that.
    assert multipath.longest(jobs) < 30
    for link in (0, 1):
        session.wait_up(link, 45)
    with verified_io(pair.client, disks):
        session.wait_traffic(0, 1)
    end(pair, disks, "small", "large")


@pytest.mark.newest
def test_min_latency_follows(pair, modules, kernel):
    """min-latency takes the path whose heartbeats are faster, and changes when that changes."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "latency"))
    session.policy = "min-latency"

    def latency(path):
        value, unit = session.read(path, "cur_latency").split()
        assert unit == "ns"
        return int(value) / 1e6

    for slow in (0, 1):
        with multipath.netem(pair.server, slow, "delay 100ms"):
            pair.client.wait_for(lambda slow=slow: latency(slow) > 80 > latency(1 - slow) > 0, 30,
                                 "latencies tell the slow path")
            say(kernel, f"min-latency: {latency(slow):.1f} ms on the slow path, "
                f"{latency(1 - slow):.1f} ms on the other")
            found = load_for(session, disk)
            assert found[1 - slow].requests > 10 * max(1, found[slow].requests)
    end(pair, disk, "latency")


# ---- statistics

@pytest.mark.newest
def test_in_flight_after_failover(pair, modules):
    """Row C23: requests that were failed over are not in flight on the dead path for ever."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "slow", completion_nsec=300_000_000, irqmode=2))
    session.policy = "round-robin"
    moved = 0
    with verified_io(pair.client, disk, jobs=4, depth=16):
        for number in range(forms.short_or_full(2, 6)):
            path = number % 2
            pair.client.wait_for(lambda path=path: session.stats(path).inflight > 4, 20,
                                 "requests are in flight")
            before = session.stats(1 - path).failed_over
            session.do(path, "disconnect")
            assert session.stats(path).inflight == 0
            moved += session.stats(1 - path).failed_over - before
            session.do(path, "reconnect")
    assert moved > 0, "nothing was failed over"
    session.wait_idle(0, 1)
    end(pair, disk, "slow")


@pytest.mark.newest
def test_regions_of_a_lost_path(pair, modules):
    """Two paths share a device that registers memory for large reads; each loses some of them."""
    rnbd.load(pair, rtrs_core__rxe_reg_mr="Y", **FAST)
    session = Session(pair)
    paths = [0, (0, 6)]
    disk = session.map(null_blk(pair, "regions"), paths)
    session.policy = "round-robin"
    with verified_io(pair.client, disk, block="256k", size_mib=16):
        for number in range(forms.short_or_full(4, 40)):
            lost, other = paths[number % 2], paths[1 - number % 2]
            session.wait_traffic(*paths)
            session.do(lost, "disconnect")
            session.wait_traffic(other)
            session.do(lost, "reconnect")
    session.wait_idle(*paths)
    end(pair, disk, "regions")


@pytest.mark.newest
def test_reset_of_statistics_under_load(pair, modules):
    """Row C24: a reset leaves alone what is in flight; single files are reset one by one."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(null_blk(pair, "reset", completion_nsec=20_000_000, irqmode=2))
    session.policy = "round-robin"
    with verified_io(pair.client, disk, jobs=4, depth=16):
        session.wait_traffic(0, 1)
        for _ in range(20):
            for path in (0, 1):
                session.reset(path)
                assert session.stats(path).inflight <= 64
    session.wait_idle(0, 1)
    for path in (0, 1):
        assert session.stats(path).requests > 0
        pair.client.write(session.node(path, "stats/rdma"), "1")
        assert session.read(path, "stats/rdma") == "0 0 0 0 0 0"
        for file in ("rdma", "reconnects", "cpu_migration_from", "cpu_migration_to", "reset_all"):
            with pytest.raises(OSError) as caught:
                pair.client.write(session.node(path, f"stats/{file}"), "0")
            assert caught.value.errno == errno.EINVAL
            pair.client.write(session.node(path, f"stats/{file}"), "1\n")
        assert session.read(path, "stats/reconnects") == "0 0"
        for file in ("cpu_migration_from", "cpu_migration_to"):
            assert pair.client.get(session.node(path, f"stats/{file}")) == b"0 0 \n"
    end(pair, disk, "reset")
