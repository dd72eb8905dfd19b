# SPDX-License-Identifier: GPL-2.0
"""A device that the server cannot open: a failed map leaves nothing, a failed re-open is repeated.

And a device whose name leads to another one.
"""

import json
import re

import pytest

import multipath
import rnbd
from multipath import FAST, Session
from vmlab import forms, host

pytestmark = pytest.mark.newest

# Writes a line of its input to map_device so many times; prints how often it ended how.
AGAIN = """
import collections, errno, json, os, sys
line, counts = sys.stdin.read().encode(), collections.Counter()
fd = os.open("/sys/class/rnbd-client/ctl/map_device", os.O_WRONLY)
for _ in range(int(sys.argv[1])):
    try:
        os.write(fd, line)
        counts["OK"] += 1
    except OSError as error:
        counts[errno.errorcode[error.errno]] += 1
    os.lseek(fd, 0, 0)
print(json.dumps(counts))
"""


def map_again_and_again(guest, line, count):
    """Try to map that often; returns how often it ended how."""
    guest.put("/tmp/again.py", AGAIN)
    return json.loads(guest.out(f"python3 /tmp/again.py {count} <<'END'\n{line}\nEND\n", 600))


def objects(guest):
    """{cache: (objects in use, objects of a slab)} of the caches for memory of some size."""
    guest.run("for cache in /sys/kernel/slab/kmalloc*/shrink; do echo 1 >$cache; done")
    text = guest.get("/proc/slabinfo").decode()
    return {name: (int(used), int(slab)) for name, used, slab in
            re.findall(r"^(kmalloc\S*) +(\d+) +\d+ +\d+ +(\d+)", text, re.M)}


def grown(guest, before, after, count):
    """Caches in which at least three of four of so many leaked objects would be: {name: more}.

    A slab that a processor works with counts as full: two of them are noise.
    """
    return {f"{guest.name}: {name}": used - before[name][0] for name, (used, slab) in after.items()
            if used - before[name][0] > max(count * 3 // 4, 2 * slab)}


def traces(pair):
    """What mappings leave in sysfs while they are there."""
    return pair.client.glob("/sys/block/rnbd*", f"{rnbd.CTL}/devices/*",
                            "/sys/class/rtrs-client/*", "/sys/devices/virtual/bdi/*",
                            "/sys/class/block/*") + \
        pair.server.glob("/sys/class/rnbd-server/ctl/devices/*/sessions/*")


def test_failed_maps_leave_nothing(pair, modules, kernel):
    """Rows D04, B34: of maps that the server refuses no object stays, and few lines in its log."""
    rnbd.load(pair, **FAST)
    count = forms.short_or_full(400, 2000)
    device = rnbd.null_blk(pair.server, "failed", 4)
    anchor, other = Session(pair), Session(pair)
    disk = anchor.map(device, [0])
    second = other.map("/dev/disk/vmlab/data", [0], access_mode="ro")
    kinds = {"missing": (anchor, "/dev/missing", "ENOENT"), "alias": (anchor, device[1:], "EEXIST"),
             "writers": (other, device, "EPERM")}
    lines = {kind: rnbd.map_line(pair, session.name, name)
             for kind, (session, name, _) in kinds.items()}
    for line in lines.values():
        map_again_and_again(pair.client, line, 20)
    before, seen, position = pair.on_each(objects), traces(pair), pair.server.log.position()
    for kind, line in lines.items():
        assert map_again_and_again(pair.client, line, count) == {kinds[kind][2]: count}
    after = pair.on_each(objects)
    more = {name: used - before[1][name][0] for name, (used, _) in after[1].items()}
    host.progress(f"MEASURED {kernel}: the client after {len(lines)} times {count} failed maps: " +
                  ", ".join(f"{name} {more[name]:+}" for name in sorted(more, key=more.get)[-3:]))
    for each in zip(pair.guests, before, after):
        assert not grown(*each, count)
    assert traces(pair) == seen
    pair.server.sync_log()
    assert len(pair.server.log.since(position)) < count // 2
    for each in (disk, second):
        rnbd.unmap(pair, each)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "failed")


def test_failed_maps_leave_no_session(pair, modules):
    """Row D04: a session that is made for a map that fails is gone again, 200 times (short: 15)."""
    rnbd.load(pair, rtrs_server__sess_queue_depth=64, **FAST)
    rounds = forms.short_or_full(15, 200)
    line = rnbd.map_line(pair, "vain", "/dev/missing")
    map_again_and_again(pair.client, line, 4)
    before, seen = rnbd.free_memory(pair), traces(pair)
    assert map_again_and_again(pair.client, line, rounds) == {"ENOENT": rounds}
    rnbd.assert_flat(before, rnbd.free_memory(pair), rounds)
    assert traces(pair) == seen
    rnbd.unload(pair)


def lose_and_regain(pair, session, disk, while_lost):
    """Break the session's only path; call a function; connect again; the disk stays closed."""
    session.do(0, "disconnect")
    pair.client.wait_for(f"grep -qx closed /sys/block/{disk[5:]}/rnbd/state", 10)
    pair.server.wait_for(f"! test -d /sys/class/rtrs-server/{session.name}", 30)
    while_lost()
    position = pair.client.log.position()
    session.do(0, "reconnect")
    pair.client.wait_for(lambda: [line for line in pair.client.log.since(position)
                                  if "cannot be opened again" in line], 30, "the re-open failed")
    assert session.up(0) and pair.client.read(f"/sys/block/{disk[5:]}/rnbd/state") == "closed"


def test_opened_again_later(pair, modules, kernel):
    """Row D18: what the server could not open after a reconnect opens by itself as soon as it can."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    server = pair.server
    device = rnbd.null_blk(server, "later", 16)
    server.run(f"ln -s {device} /tmp/later")
    session = Session(pair)
    disk = session.map("/tmp/later", [0])
    multipath.check_disk(pair.client, disk, 1)
    lose_and_regain(pair, session, disk, lambda: server.run("rm /tmp/later"))
    assert pair.client.run(f"dd if={disk} of=/dev/null bs=4k count=1 iflag=direct",
                           check=False).rc, "a closed disk cannot be read"
    server.run(f"ln -s {device} /tmp/later")
    # The longest pause between two attempts is 30 s.
    multipath.wait_open(pair, disk, 40)
    multipath.check_disk(pair.client, disk, 1)
    # The same with a disk of the server that is removed and comes back
    lose_and_regain(pair, session, disk, lambda: rnbd.remove_null_blk(server, "later"))
    again = rnbd.null_blk(server, "later", 16)
    server.run(f"ln -sfn {again} /tmp/later")
    multipath.wait_open(pair, disk, 40)
    multipath.check_disk(pair.client, disk, 1)
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.remove_null_blk(server, "later")


def test_unmapped_while_it_is_tried(pair, modules):
    """Row D18: a device that is tried again and again can be unmapped and mapped anew."""
    rnbd.load(pair, **FAST)
    server = pair.server
    device = rnbd.null_blk(server, "tried", 16)
    server.run(f"ln -s {device} /tmp/tried")
    session = Session(pair)
    disk, beside = session.map("/tmp/tried", [0]), session.map("/dev/disk/vmlab/data", [0])
    lose_and_regain(pair, session, disk, lambda: server.run("rm /tmp/tried"))
    # The others of the session are open meanwhile.
    multipath.wait_open(pair, beside, 5)
    multipath.check_disk(pair.client, beside, 1)
    rnbd.unmap(pair, disk)
    server.run(f"ln -s {device} /tmp/tried")
    disk = session.map("/tmp/tried", [0])
    for each in (disk, beside):
        rnbd.unmap(pair, each)
    rnbd.unload(pair)
    rnbd.remove_null_blk(server, "tried")


# ---- a name that leads to another disk

NODES = "/sys/class/rnbd-server/ctl/devices"


def disk_size(pair, disk):
    """MiB of a disk of the client."""
    return int(pair.client.read(f"/sys/block/{disk[5:]}/size")) >> 11


def test_opened_again_as_another(pair, modules):
    """Row D22: other blocks, a new cache, read-only: it stays closed; another size is taken over."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    server, session = pair.server, Session(pair)
    devices = {name: rnbd.null_blk(server, name, size, **attributes) for name, size, attributes in (
        ("plain", 16, {}), ("blocks", 16, {"blocksize": 4096}), ("cache", 16, {"cache_size": 2}),
        ("larger", 32, {}))}

    def lead_to(name):
        server.run(f"ln -sfn {devices[name]} /tmp/same")

    lead_to("plain")
    disk = session.map("/tmp/same", [0])
    for name, reason in (("blocks", "its logical block size was 512 and is 4096 now"),
                         ("cache", "volatile write cache")):
        position = pair.client.log.position()
        lose_and_regain(pair, session, disk, lambda name=name: lead_to(name))
        assert [line for line in pair.client.log.since(position)
                if "stays closed" in line and reason in line]
        # What the client does not want the server does not keep.
        server.wait_for(f"! test -e {NODES}/{devices[name][5:]}", 10)
        lead_to("plain")
        multipath.wait_open(pair, disk, 40)
        multipath.check_disk(pair.client, disk, 1)
    lose_and_regain(pair, session, disk, lambda: server.run(f"blockdev --setro {devices['plain']}"))
    server.run(f"blockdev --setrw {devices['plain']}")
    multipath.wait_open(pair, disk, 40)
    assert disk_size(pair, disk) == 16
    session.do(0, "disconnect")
    server.wait_for(f"! test -d /sys/class/rtrs-server/{session.name}", 30)
    lead_to("larger")
    session.do(0, "reconnect")
    multipath.wait_open(pair, disk, 40)
    pair.client.wait_for(lambda: disk_size(pair, disk) == 32, 10, "the disk has grown")
    multipath.check_disk(pair.client, disk, 1)
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    for name in devices:
        rnbd.remove_null_blk(server, name)


def test_new_disk_under_an_old_name(pair, modules):
    """Row B21: a disk that was removed and one that gets its name are two, also for who may write."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    server, before, after = pair.server, Session(pair), Session(pair)
    device = rnbd.null_blk(server, "same", 16)
    name = device[5:]
    old = before.map(device, [0])
    # Nobody tells the server that what it has open is removed.
    for value in "01":
        server.write("/sys/kernel/config/nullb/same/power", value)
    assert server.exists(device), "the new disk has another name: this test tests nothing"
    new = after.map(device, [0])
    found = {path.split("/")[6]: path.split("/")[8] for path in server.glob(f"{NODES}/*/sessions/*")}
    assert len(found) == 2 and found.pop(name) == after.name
    (stale, owner), = found.items()
    assert re.fullmatch(rf"{name}#\d+", stale) and owner == before.name
    multipath.check_disk(pair.client, new, 1)
    assert pair.client.run(f"dd if={old} of=/dev/null bs=4k count=1 iflag=direct",
                           check=False).rc, "what was removed cannot be read"
    server.wait_for(f"! test -e '{NODES}/{stale}'", 10)
    multipath.check_disk(pair.client, new, 1)
    rnbd.unmap(pair, old)
    rnbd.unmap(pair, new)
    rnbd.unmap(pair, before.map(device, [0]))
    rnbd.unload(pair)
    rnbd.remove_null_blk(server, "same")
