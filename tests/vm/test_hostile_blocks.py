# SPDX-License-Identifier: GPL-2.0
"""A client that sends what no client should: every message is answered with the right errno.

The rows are those of the catalogue of known bugs: what a message did to other servers.
"""

import errno
import re

import pytest

import multipath
import raw
import rnbd
from multipath import FAST, Session
from raw import RawClient, changed, close, io, open_device, sess_info
from vmlab import forms, host

SIZE_MIB = 4
SECTORS = SIZE_MIB * 2048
CIDS = (0, 1, 2)

pytestmark = pytest.mark.newest

MODES = pytest.mark.parametrize("invalidate", ["Y", "N"])


def load(pair, invalidate="Y"):
    """Both sides."""
    rnbd.load(pair, rtrs_server__always_invalidate=invalidate, **FAST)


class Backing:
    """Disks of the server with random contents, which must not change."""

    def __init__(self, pair, **disks):
        self.server = pair.server
        self.names = list(disks)
        self.paths = {name: rnbd.null_blk(self.server, name, SIZE_MIB, **attributes)
                      for name, attributes in disks.items()}
        self.fill()

    def __getitem__(self, name):
        return self.paths[name]

    def fill(self):
        """Write what must be there from now on."""
        self.server.run("set -e\n" + "".join(
            f"head -c {SIZE_MIB}M /dev/urandom >/tmp/{name}\n"
            f"dd if=/tmp/{name} of={path} bs=1M oflag=direct status=none\n"
            for name, path in self.paths.items()))

    def changed(self):
        """Names of the disks that differ from what was written to them."""
        return self.server.out("".join(
            f"dd if={path} bs=1M iflag=direct status=none | cmp -s - /tmp/{name} || echo {name}\n"
            for name, path in self.paths.items())).split()

    def remove(self):
        """Undo it."""
        for name in self.names:
            rnbd.remove_null_blk(self.server, name)


# ---- the messages

def sizes(rw):
    """Sizes of IO that do not belong to its data, or that the data does not have."""
    nothing = {"data_len": 0}
    return [
        ("B01", "write without data", changed(io(rw, raw.WRITE, 0, 4096), **nothing), "EINVAL"),
        ("B01", "huge write without data", changed(io(rw, raw.WRITE, 0, 1 << 31), **nothing),
         "EINVAL"),
        ("B01", "read without data", changed(io(rw, raw.READ, 0, 4096), **nothing), "EINVAL"),
        ("B01", "flush with a size", io(rw, raw.FLUSH, 0, 8192), "OK"),
        ("B01", "flush with data", changed(io(rw, raw.FLUSH), data_len=4096), "EINVAL"),
        ("B01", "discard with data", changed(io(rw, raw.DISCARD, 0, 4096), data_len=4096),
         "EINVAL"),
        ("B01", "nothing to write", io(rw, raw.WRITE), "EINVAL"),
        ("B02", "write of more than its data", changed(io(rw, raw.WRITE, 0, 1 << 20),
                                                       data_len=4096), "EINVAL"),
        ("B02", "write of less than its data", changed(io(rw, raw.WRITE, 0, 512),
                                                       data_len=4096), "EINVAL"),
        ("B02", "read of more than its data", changed(io(rw, raw.READ, 0, 1 << 20),
                                                      data_len=4096), "EINVAL"),
        ("B17", "100 bytes", io(rw, raw.WRITE, 0, 100), "EINVAL"),
        ("B17", "511 bytes", io(rw, raw.WRITE, 0, 511), "EINVAL"),
        ("B17", "513 bytes", io(rw, raw.READ, 0, 513), "EINVAL"),
        ("B17", "100 bytes behind the end", io(rw, raw.WRITE, SECTORS, 100), "EINVAL"),
        ("B17", "discard of 777 bytes", io(rw, raw.DISCARD, 0, 777), "EINVAL"),
        ("B17", "behind the end", io(rw, raw.WRITE, SECTORS, 512), "EIO"),
        ("B17", "across the end", io(rw, raw.WRITE, SECTORS - 1, 1024), "EIO"),
        ("B17", "discard across the end", io(rw, raw.DISCARD, SECTORS - 8, 1 << 31), "EIO"),
        ("B17", "the last sector of all", io(rw, raw.WRITE, 2 ** 64 - 1, 512), "EIO"),
        ("B17", "an end that wraps", io(rw, raw.READ, 2 ** 64 - 1, 1024), "EIO"),
        ("B17", "the last sector", io(rw, raw.READ, SECTORS - 1, 512), "OK"),
    ]


def directions_and_operations(rw):
    """The wrong direction for an operation, operations and flags nobody knows."""
    every_flag = 0xffffff00
    return [
        ("B18", "READ that writes", changed(io(rw, raw.WRITE, 0, 4096), direction="read"),
         "EINVAL"),
        ("B18", "WRITE that reads", changed(io(rw, raw.READ, 0, 4096), direction="write"),
         "EINVAL"),
        ("B18", "READ that discards", changed(io(rw, raw.DISCARD, 0, 4096), direction="read"),
         "EINVAL"),
        ("B18", "WRITE that flushes", changed(io(rw, raw.FLUSH), direction="write"), "EINVAL"),
        ("B15", "operation 6", io(rw, 6, 0, 4096), "EOPNOTSUPP"),
        ("B15", "operation 77", changed(io(rw, 77, 0, 4096), data_len=4096), "EOPNOTSUPP"),
        ("B15", "operation 77 as READ", changed(io(rw, 77, 0, 4096), direction="read",
                                                data_len=4096), "EOPNOTSUPP"),
        ("B15", "operation 255", io(rw, 255, 0, 4096), "EOPNOTSUPP"),
        ("B15", "read with FUA and PREFLUSH", io(rw, raw.READ | raw.FUA | raw.PREFLUSH, 0, 4096),
         "OK"),
        ("B15", "read with every flag", io(rw, raw.READ | every_flag, 0, 4096), "OK"),
        ("B15", "flush with every flag", io(rw, raw.FLUSH | every_flag), "OK"),
        ("B15", "secure erase the disk does not have", io(rw, raw.SECURE_ERASE, 0, 4096),
         "EOPNOTSUPP"),
        ("B15", "write zeroes the disk does not have", io(rw, raw.WRITE_ZEROES, 0, 4096),
         "EOPNOTSUPP"),
    ]


def read_only(ro):
    """What a device that was opened for reading must not do."""
    return [("B03", f"{what} on ro", io(ro, op, 0, 4096), "EROFS")
            for what, op in (("write", raw.WRITE), ("FUA write", raw.WRITE | raw.FUA),
                             ("discard", raw.DISCARD), ("secure erase", raw.SECURE_ERASE),
                             ("write zeroes", raw.WRITE_ZEROES))] + [
        ("B03", "read on ro", io(ro, raw.READ, 0, 4096), "OK"),
        ("B03", "flush on ro", io(ro, raw.FLUSH), "OK"),
    ]


def cut(request, length):
    """The same message, shorter or longer."""
    return changed(request, message=request.message.ljust(length, b"\0")[:length])


def lengths(rw, name, chunk_size):
    """Messages that are shorter than their type, and announced lengths that are not true."""
    whole = {"IO": (io(rw, raw.READ, 0, 4096), 24), "OPEN": (open_device(name), 264),
             "CLOSE": (close(99), 8), "SESS_INFO": (sess_info(), 36)}
    rows = [("B10", f"{kind} of {length} bytes", cut(request, length), "EINVAL")
            for kind, (request, shortest) in whole.items()
            for length in (0, 1, 3, 4, shortest - 1)]
    rows += [("B10", f"{kind} that claims {length} bytes", changed(request, usr_len=length),
              "EINVAL")
             for kind, (request, _) in whole.items()
             for length in (request.data_len + len(request.message) + 1, 0xffff)]
    rows += [("B10", f"IO of {length} bytes", cut(whole["IO"][0], length), "OK")
             for length in (24, 25, 26, 28, 40)]
    return rows + [
        ("B10", "OPEN of 265 bytes", cut(whole["OPEN"][0], 265), "EINVAL"),
        ("B10", "a message in the last bytes of a chunk",
         changed(cut(whole["IO"][0], 3), data_len=chunk_size - 27), "EINVAL"),
        *(("H18", f"message type {kind}", changed(sess_info(), message=bytes((kind, 0)) + bytes(34)),
           "EINVAL") for kind in (1, 3, 6, 255)),
    ]


def openings(name, ro_name):
    """OPEN and SESS_INFO as they must not be, and CLOSE of what is not open."""
    def as_write(request):
        return changed(request, direction="write")

    rows = [("B11", "a name without an end", open_device(b"A" * 255), "EINVAL"),
            ("B11", "... and nothing but A behind it",
             changed(open_device("x"), message=b"\x02\0\0\0\x01" + b"A" * 259), "EINVAL"),
            ("B04", "rw of what is open ro", open_device(ro_name, raw.RW), "EPERM"),
            ("B04", "migration of what is open ro", open_device(ro_name, raw.MIGRATION), "EPERM"),
            ("B04", "ro of what is open rw", open_device(name, raw.RO), "EPERM"),
            ("B14", "OPEN as WRITE", as_write(open_device("dev/null")), "EINVAL"),
            ("B14", "SESS_INFO as WRITE", as_write(sess_info()), "EINVAL"),
            ("B14", "CLOSE as READ", changed(close(99), direction="read"), "EINVAL"),
            ("B14", "CLOSE with data", changed(close(99), data_len=512), "EINVAL")]
    rows += [("B14", f"OPEN with {room} bytes of room", changed(open_device(name), data_len=room),
              "EINVAL") for room in (0, 1, 55)]
    rows += [("B14", f"SESS_INFO with {room} bytes of room", changed(sess_info(), data_len=room),
              "EINVAL") for room in (0, 1, 35)]
    rows += [("B14", f"OPEN with room for 56 bytes that says {desc}",
              changed(open_device(name), desc_len=desc), "EINVAL") for desc in (0, 55, 57, 1 << 31)]
    rows += [("H26", f"OPEN with mode {mode}", open_device(name, mode), "EINVAL")
             for mode in (3, 9, 255)]
    rows += [("H25", f"OPEN of {bad!r}", open_device(bad, raw.RO), error)
             for bad, error in (("", "EINVAL"), ("..", "EINVAL"), ("dev/../dev/null", "EINVAL"),
                                ("a..b", "EINVAL"), ("dev/\x01", "EINVAL"), ("dev/\x7f", "EINVAL"),
                                ("dev/no-such-disk", "ENOENT"), ("dev", "ENOTBLK"),
                                ("dev/null", "ENOTBLK"), ("tmp/fifo", "ENOTBLK"))]
    rows += [("H30", "SESS_INFO with version 0", sess_info(0), "EINVAL"),
             ("H32", "CLOSE of an id that was never given", close(99), "OK"),
             ("H32", "CLOSE of the last id", close(2 ** 32 - 1), "OK")]
    return rows


def unknown_ids(closed):
    """IO to ids that lead nowhere."""
    return [("H31", f"{what} id {ident}", io(ident, op, 0, 4096), "ENOTCONN")
            for ident in (closed, closed + 1000, 2 ** 31, 2 ** 32 - 1)
            for what, op in (("write to", raw.WRITE), ("read from", raw.READ),
                             ("flush of", raw.FLUSH))]


def wrong_answers(client, rows):
    """The rows whose answer is not the expected one, over every connection in turn."""
    got = client.errors(*(request for _, _, request, _ in rows), cids=CIDS)
    return [f"{row}: {what}: {error} instead of {expected}"
            for (row, what, _, expected), error in zip(rows, got) if error != expected]


def normal_client(pair, device):
    """Somebody else maps a device and verifies what is written to it."""
    session = Session(pair)
    disk = session.map(device, [0])
    multipath.check_disk(pair.client, disk, 1)
    rnbd.unmap(pair, disk)


@MODES
def test_messages(pair, modules, invalidate):
    """Rows B01 to B04, B10, B11, B14, B15, B17, B18: the errno of each, and no byte is written."""
    load(pair, invalidate)
    disks = Backing(pair, first={"discard": 1}, second={"discard": 1}, third={})
    pair.server.run("mkfifo /tmp/fifo")
    name, ro_name = disks["first"], disks["second"]
    client = RawClient(pair)
    assert client.errors(sess_info()) == ["OK"]
    rw, ro = client.open(name), client.open(ro_name, raw.RO)
    gone = client.open(disks["third"])
    assert client.errors(close(gone), close(gone)) == ["OK", "OK"]
    # What lies in the buffers is what a message without an end would run into.
    filler = changed(io(gone, raw.WRITE, 0, 126976), fill=ord("A"))
    assert set(client.errors(*[filler] * 4)) == {"ENOTCONN"}
    rows = sizes(rw) + directions_and_operations(rw) + read_only(ro) + lengths(rw, name, client.chunk_size) + \
        openings(name, ro_name) + unknown_ids(gone)
    wrong = wrong_answers(client, rows)
    assert not wrong, "\n".join(wrong)
    assert not disks.changed()
    # The same session still works, and the comparison would see a write.
    assert client.errors(io(rw, raw.WRITE, 8, 4096)) == ["OK"]
    assert disks.changed() == ["first"]
    client.end()
    pair.server.wait_for("! ls /sys/class/rtrs-server 2>/dev/null | grep .", 30)
    normal_client(pair, name)
    rnbd.unload(pair)
    disks.remove()


def test_opened_twice(pair, modules):
    """Row B04: the same name again is the same opening with the same mode, or refused."""
    load(pair)
    disks = Backing(pair, twice={}, other={})
    name = disks["twice"]
    client, second = RawClient(pair), RawClient(pair)
    for mode in (raw.RO, raw.RW, raw.MIGRATION):
        ident = client.open(name, mode)
        assert client.open(name, mode) == ident
        for other in {raw.RO, raw.RW, raw.MIGRATION} - {mode}:
            assert client.errors(open_device(name, other)) == ["EPERM"]
        assert pair.server.read(f"/sys/class/rnbd-server/ctl/devices/{name[5:]}/sessions/"
                                f"{client.name}/access_mode") == raw.MODES[mode]
        # One opening, one writer, one CLOSE.
        granted = {raw.RO: "OK", raw.RW: "EPERM", raw.MIGRATION: "EPERM"}[mode]
        assert second.errors(open_device(name, raw.RW)) == [granted]
        if granted == "OK":
            assert second.errors(close(second.open(name, raw.RW))) == ["OK"]
        assert client.errors(close(ident), io(ident, raw.READ, 0, 512)) == ["OK", "ENOTCONN"]
    assert client.open(name, raw.RW) != client.open(disks["other"], raw.RW)
    assert not disks.changed()
    for each in (client, second):
        each.end()
    rnbd.unload(pair)
    disks.remove()


TRACE = "/sys/kernel/tracing"


def issued_priorities(server, send):
    """(class, hint, level) of what a disk of the server gets to do while a function runs."""
    server.run(f"mountpoint -q {TRACE} || mount -t tracefs none {TRACE}\ncd {TRACE}\n"
               "echo 0 >tracing_on; echo >trace; echo 1 >events/block/block_rq_issue/enable; "
               "echo 1 >tracing_on")
    send()
    server.run(f"cd {TRACE} && echo 0 >tracing_on && echo 0 >events/block/block_rq_issue/enable")
    text = server.get(f"{TRACE}/trace").decode()
    return {tuple(match) for match in re.findall(r" (\w+),(\d+),(\d+) \[kworker", text)}


# Older kernels do not trace priorities.  7.3 is built to notice an index out of bounds, too.
@pytest.mark.kernels("6.12", *forms.short_or_full([], ["7.3"]))
def test_priorities(pair, modules):
    """Row B16: a priority class that nobody knows does not reach the disk's scheduler."""
    load(pair)
    disks = Backing(pair, first={})
    queue = f"/sys/block/{disks['first'][5:]}/queue"
    pair.server.write(f"{queue}/scheduler", "mq-deadline")
    assert "[mq-deadline]" in pair.server.read(f"{queue}/scheduler")
    client = RawClient(pair)
    device = client.open(disks["first"])
    asked = [io(device, op, 8 * level, 4096, prio=kind << 13 | hint << 3 | level)
             for kind in range(8) for hint in (0, 1, 1023) for level in (0, 3, 7)
             for op in (raw.READ, raw.WRITE)]

    def send():
        assert set(client.errors(*asked, cids=CIDS)) == {"OK"}

    assert client.errors(sess_info(1)) == ["OK"]
    assert {kind for kind, _, _ in issued_priorities(pair.server, send)} <= {"none", "be"}
    assert client.errors(sess_info(2)) == ["OK"]
    seen = issued_priorities(pair.server, send)
    assert {kind for kind, _, _ in seen} <= {"none", "be", "idle"}, seen
    assert {("be", "0", "0"), ("be", "0", "3"), ("be", "0", "7"), ("idle", "0", "0")} <= seen
    assert {hint for _, hint, _ in seen} == {"0"}
    client.end()
    rnbd.unload(pair)
    disks.remove()


def test_blocks_of_4096_bytes(pair, modules):
    """Row B17: on such a disk anything smaller is refused."""
    load(pair)
    client = RawClient(pair)
    device = client.open("/dev/disk/vmlab/data4k")
    rows = [("B17", f"operation {op} of {size} bytes at {sector}", io(device, op, sector, size),
             "EINVAL")
            for op in (raw.READ, raw.WRITE, raw.DISCARD, raw.WRITE_ZEROES)
            for sector, size in ((0, 512), (0, 4608), (1, 4096), (7, 8192))]
    rows.append(("B17", "a block", io(device, raw.READ, 8, 4096), "OK"))
    wrong = wrong_answers(client, rows)
    assert not wrong, "\n".join(wrong)
    client.end()
    rnbd.unload(pair)


def test_answers_hold_nothing_else(pair, modules):
    """Rows B13, B14: room that an answer does not need is zeroed, whatever was in the buffer."""
    load(pair)
    disks = Backing(pair, first={})
    client = RawClient(pair)
    device = client.open(disks["first"])
    filler = [io(device + 1000, raw.WRITE, 0, 4096)] * 4
    for request, used in ((sess_info(), 5), (open_device(disks["first"]), 46)):
        client.ask(*filler)
        for room in (request.data_len, 64, 4096):
            answer, = client.ask(changed(request, data_len=room))
            assert answer.error == "OK" and len(answer.data) == min(room, 64)
            assert not any(answer.data[used:]), answer.data.hex()
    assert [client.ask(sess_info(version))[0].data[:5] for version in (1, 2, 255)] == \
        [b"\1\0\0\0\1", b"\1\0\0\0\2", b"\1\0\0\0\2"]
    client.end()
    rnbd.unload(pair)
    disks.remove()


def test_messages_that_change(pair, modules):
    """Row B12: what is checked is what is done, even if the client writes over it meanwhile."""
    load(pair, "N")
    disks = Backing(pair, first={}, second={})
    nodes = "/sys/class/rnbd-server/ctl/devices"
    client = RawClient(pair)
    wanted, forbidden = (open_device(name) for name in (disks["first"],
                                                        "dev/.." + disks["second"]))
    seen = set()
    for _ in range(forms.short_or_full(60, 2000)):
        answer, = client.ask(changed(wanted, then=forbidden.message))
        seen.add(answer.error)
        if answer.error == "OK":
            path, = pair.server.glob(f"{nodes}/*/sessions/{client.name}/mapping_path")
            assert pair.server.read(path) == disks["first"]
            assert client.errors(close(answer.device_id)) == ["OK"]
    # A copy that is half of each may be the name of nothing.
    assert seen <= {"OK", "EINVAL", "ENOENT"}, seen
    rw, ro = client.open(disks["first"]), client.open(disks["second"], raw.RO)
    allowed, refused = io(rw, raw.WRITE, 0, 4096), io(ro, raw.WRITE, 0, 4096)
    count = forms.short_or_full(300, 5000)
    seen |= set(client.errors(*[changed(allowed, then=refused.message)] * count, cids=(1, 2)))
    assert seen <= {"OK", "EINVAL", "ENOENT", "EROFS"}, seen
    assert disks.changed() == ["first"]
    host.progress(f"MEASURED answers to messages that change: {sorted(seen)}")
    client.end()
    rnbd.unload(pair)
    disks.remove()


# ---- ids and names, with an ordinary client

def force_close(pair, device, session):
    """Close a device of a session at the server."""
    pair.server.write(f"/sys/class/rnbd-server/ctl/devices/{device[5:]}/sessions/{session}"
                      "/force_close", "1")


def write_block(pair, disk):
    """Write 4 KiB; returns what dd says if it cannot."""
    return pair.client.run(f"dd if=/dev/urandom of={disk} bs=4k count=1 oflag=direct status=none",
                           check=False).err


def test_ids_are_not_used_again(pair, modules):
    """Row B05: what was force-closed leads nowhere; least of all to the disk that is mapped next."""
    load(pair)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    disks = Backing(pair, first={}, second={}, third={})
    session = Session(pair)
    first = session.map(disks["first"], [0])
    third = session.map(disks["third"], [0])
    force_close(pair, disks["first"], session.name)
    second = session.map(disks["second"], [0])
    for _ in range(forms.short_or_full(3, 50)):
        assert "Input/output error" in write_block(pair, first)
        rnbd.unmap(pair, second)
        second = session.map(disks["second"], [0])
    assert not disks.changed()
    assert pair.client.read(f"/sys/block/{first[5:]}/rnbd/state") == "open"
    with pytest.raises(OSError) as caught:
        pair.client.write(f"/sys/block/{first[5:]}/rnbd/remap_device", "1")
    assert caught.value.errno == errno.EALREADY
    # Mapped anew it works, and so do the others.
    rnbd.unmap(pair, first)
    first = session.map(disks["first"], [0])
    for disk, name in ((first, "first"), (second, "second"), (third, "third")):
        assert not write_block(pair, disk)
        assert name in disks.changed()
        rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    disks.remove()


def test_force_closed_ids(pair, modules):
    """Row B05: an id stays reserved until its client closes it; then it may be given again."""
    load(pair)
    disks = Backing(pair, first={}, second={})
    client = RawClient(pair)
    ident = client.open(disks["first"])
    force_close(pair, disks["first"], client.name)
    use = [io(ident, raw.WRITE, 0, 4096), io(ident, raw.READ, 0, 4096), io(ident, raw.FLUSH)]
    for _ in range(8):
        other = client.open(disks["second"])
        assert other != ident
        assert client.errors(*use, close(other), cids=CIDS) == ["ENOTCONN"] * 3 + ["OK"]
    assert not disks.changed()
    again = client.open(disks["first"])
    assert again != ident
    assert client.errors(*use, close(ident), *use, io(again, raw.READ, 0, 4096)) == \
        ["ENOTCONN"] * 3 + ["OK"] + ["ENOTCONN"] * 3 + ["OK"]
    client.end()
    rnbd.unload(pair)
    disks.remove()


@pytest.mark.parametrize("mode", forms.short_or_full(["rw"], raw.MODES))
def test_aliases(pair, modules, mode):
    """Row B08: a second name for a mapped device is refused with EEXIST, and nothing hangs."""
    load(pair)
    disks = Backing(pair, first={}, second={})
    device = disks["first"]
    pair.server.run(f"ln -s {device} /tmp/alias")
    session = Session(pair)
    disk = session.map(device, [0], access_mode=mode)
    for alias in (device[1:], "/tmp/alias", "/" + device, *forms.short_or_full(
            [], ["tmp//alias", device.replace("/", "//")])):
        with pytest.raises(OSError) as caught:
            session.map(alias, [0], access_mode=mode)
        assert caught.value.errno == errno.EEXIST, alias
        # Neither this session nor another one has suffered.
        second = session.map(disks["second"], [0])
        assert not write_block(pair, second)
        rnbd.unmap(pair, second)
    assert session.up(0) and session.read(0, "stats/reconnects").split() == ["0", "0"]
    normal_client(pair, disks["second"])
    if mode != "ro":
        assert not write_block(pair, disk)
    rnbd.unmap(pair, disk)
    # Free again, by any name
    rnbd.unmap(pair, session.map("/tmp/alias", [0], access_mode=mode))
    pair.server.run("rm /tmp/alias")
    rnbd.unload(pair)
    disks.remove()
