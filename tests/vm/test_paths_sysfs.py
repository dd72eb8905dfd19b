# SPDX-License-Identifier: GPL-2.0
"""What sessions and paths show in sysfs and in tracepoints, on both sides."""

import errno
import re

import pytest

import multipath
import rnbd
from multipath import FAST, Session, verified_io
from vmlab import forms

pytestmark = [pytest.mark.links(2), pytest.mark.newest]

TRACE = "/sys/kernel/tracing"

# file: (mode, what reading it gives, words that are accepted or None)
SESSION = {
    "max_reconnect_attempts": ("644", r"-1\n", ["-1\n", "0", "5", "9999", "-1"]),
    "mpath_policy": ("644", r"min-inflight \(MI: 1\)\n", ["rr", "mi"]),
    "add_path": ("644", r"(?s).+\n", None),
}
HINT = r"[^\n]+\n"
CLIENT_PATH = {
    "hca_name": ("444", r"rxe0\n", None),
    "hca_port": ("444", r"1\n", None),
    "src_addr": ("444", r"ip:192\.168\.71\.2\n", None),
    "dst_addr": ("444", r"ip:192\.168\.71\.1\n", None),
    "state": ("444", r"connected\n", None),
    "cur_latency": ("444", r"\d+ ns\n", None),
    "disconnect": ("644", HINT, None),
    "remove_path": ("644", HINT, None),
    "stats/reconnects": ("644", r"0 0\n", ["1"]),
    "stats/rdma": ("644", r"\d+ \d+ \d+ \d+ 0 0\n", ["1\n"]),
    "stats/cpu_migration_from": ("644", r"(\d+ )+\n", ["1"]),
    "stats/cpu_migration_to": ("644", r"(\d+ )+\n", ["1"]),
    "stats/reset_all": ("644", HINT, ["1"]),
    # The last, for it counts.
    "reconnect": ("644", HINT, ["1", "1\n"]),
}
SERVER_PATH = {
    "hca_name": ("444", r"rxe0\n", None),
    "hca_port": ("444", r"1\n", None),
    "src_addr": ("444", r"ip:192\.168\.71\.2\n", None),
    "dst_addr": ("444", r"ip:192\.168\.71\.1\n", None),
    "disconnect": ("644", HINT, None),
    "stats/rdma": ("644", r"\d+ \d+ \d+ \d+\n", ["1"]),
}


def refusal(guest, path, text):
    """The errno's name of a write, or None."""
    try:
        guest.write(path, text)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def check_nodes(guest, directory, nodes, more=()):
    """These files are there and no others; modes, contents, what can be written."""
    found = set(guest.out(f"cd '{directory}' && find . -type f -not -path './power/*' "
                          "-not -name uevent -not -path './paths/*' | sed 's,^./,,'").split())
    assert found == set(nodes) | set(more)
    wrong = []
    for name, (mode, contents, accepted) in nodes.items():
        path = f"{directory}/{name}"
        if guest.out(f"stat -c %a '{path}'") != mode:
            wrong.append(f"{name}: mode")
        text = guest.get(path).decode()
        if not re.fullmatch(contents, text):
            wrong.append(f"{name}: {text!r}")
        if mode == "444":
            if refusal(guest, path, "1") != "EACCES":
                wrong.append(f"{name}: can be written")
            continue
        refused = ("", "x", "2x", "1 1", "11111") if name in SESSION else \
            ("", "0", "2", " 1", "1 ", "11", "1\n\n", "x")
        for word in refused:
            wanted = None if word == "" else "EINVAL"
            if refusal(guest, path, word) != wanted:
                wrong.append(f"{name}: {word!r} gives {refusal(guest, path, word)}")
        for word in accepted or ():
            if refusal(guest, path, word):
                wrong.append(f"{name}: refuses {word!r}")
    assert not wrong, wrong


def test_nodes(pair, modules):
    """Every file of a session and of its paths: name, mode, format, what it takes."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "nodes", 16))
    check_nodes(pair.client, session.dir, SESSION)
    check_nodes(pair.client, session.node(0), CLIENT_PATH)
    there = f"/sys/class/rtrs-server/{session.name}"
    assert pair.server.out(f"ls {there}/paths").split() == [session.spec(0), session.spec(1)]
    check_nodes(pair.server, there, {})
    check_nodes(pair.server, f"{there}/paths/{session.spec(0)}", SERVER_PATH)
    for value, wanted in (("10000", "EINVAL"), ("-2", "EINVAL"), ("1x", "EINVAL"),
                          ("99999999999", "ERANGE")):
        assert refusal(pair.client, f"{session.dir}/max_reconnect_attempts", value) == wanted
    # 0: the first loss is the last.
    pair.client.write(f"{session.dir}/max_reconnect_attempts", "0")
    pair.server.write(f"{there}/paths/{session.spec(0)}/disconnect", "1")
    session.wait_down(0, 10)
    pair.client.wait_for(lambda: any("given up" in line for line in pair.client.log.since()), 30)
    assert not session.up(0)
    session.do(0, "reconnect")
    assert session.up(0)
    rnbd.unmap(pair, disk)
    rnbd.remove_null_blk(pair.server, "nodes")
    rnbd.unload(pair)


def test_server_disconnects(pair, modules):
    """disconnect of the server under load: the client comes back by itself, nothing fails."""
    rnbd.load(pair, **FAST)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "kick", 256))
    session.policy = "round-robin"
    with verified_io(pair.client, disk):
        for number in range(forms.short_or_full(2, 20)):
            session.wait_traffic(0, 1)
            before = int(session.read(number % 2, "stats/reconnects").split()[0])
            pair.server.write(f"/sys/class/rtrs-server/{session.name}/paths/"
                              f"{session.spec(number % 2)}/disconnect", "1")
            pair.client.wait_for(lambda: int(session.read(
                number % 2, "stats/reconnects").split()[0]) > before, 20, "a reconnect")
        session.wait_traffic(0, 1)
    rnbd.unmap(pair, disk)
    rnbd.remove_null_blk(pair.server, "kick")
    rnbd.unload(pair)


def test_server_drops_both(pair, modules):
    """Row D31: the second path goes when the first may be back: every disk leads to its device."""
    rnbd.load(pair, **FAST)
    pair.allow("I/O error, dev rnbd", "Buffer I/O error on dev rnbd")
    session = Session(pair)
    names = ["dropped0", "dropped1", "dropped2"]
    devices = [rnbd.null_blk(pair.server, name, 4) for name in names]
    disks = [session.map(device) for device in devices]

    def reconnects():
        return [int(session.read(path, "stats/reconnects").split()[0]) for path in (0, 1)]

    for pause in forms.short_or_full((0, 0.5, 1), [number / 10 for number in range(30)]):
        before = reconnects()
        first, second = (f"/sys/class/rtrs-server/{session.name}/paths/{session.spec(path)}/disconnect"
                         for path in (0, 1))
        pair.server.run(f"echo 1 >{first}; sleep {pause}; echo 1 >{second}")
        pair.client.wait_for(lambda before=before: all(
            now > then for now, then in zip(reconnects(), before)), 60, "both paths are back")
        for disk in disks:
            multipath.wait_open(pair, disk, 40)
        for disk, device in zip(disks, devices):
            pair.client.run("head -c 4096 /dev/urandom >/tmp/block && dd if=/tmp/block "
                            f"of={disk} bs=4k oflag=direct status=none")
            pair.server.run(f"dd if={device} of=/tmp/block bs=4k count=1 iflag=direct status=none")
            assert pair.server.get("/tmp/block") == pair.client.get("/tmp/block")
    for disk in disks:
        rnbd.unmap(pair, disk)
    for name in names:
        rnbd.remove_null_blk(pair.server, name)
    rnbd.unload(pair)


class Trace:
    """Our tracepoints in a guest."""

    def __init__(self, guest, system):
        self.guest = guest
        self.system = system
        guest.run(f"mountpoint -q {TRACE} || mount -t tracefs none {TRACE}; cd {TRACE} && "
                  f"echo 0 >tracing_on && echo >trace && echo 4096 >buffer_size_kb && "
                  f"echo 1 >events/{system}/enable && echo 1 >tracing_on")

    def stop(self):
        """(event, text) of all events; tracing ends."""
        self.guest.run(f"cd {TRACE} && echo 0 >tracing_on && echo 0 >events/{self.system}/enable")
        text = self.guest.get(f"{TRACE}/trace").decode()
        self.guest.run(f"cd {TRACE} && echo >trace && echo 1408 >buffer_size_kb")
        return re.findall(rf": ({self.system}_\w+): (.*)", text)


def test_tracepoints(pair, modules):
    """An id joins what happens to a request; connects, states, failover, reconnects are seen."""
    rnbd.load(pair, **FAST)
    ours, theirs = Trace(pair.client, "rtrs_client"), Trace(pair.server, "rtrs_server")
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "trace", 64, completion_nsec=100_000_000,
                                     irqmode=2))
    session.policy = "round-robin"
    with verified_io(pair.client, disk, depth=8):
        session.wait_traffic(0, 1)
        pair.server.write(f"/sys/class/rtrs-server/{session.name}/paths/{session.spec(0)}"
                          "/disconnect", "1")
        session.wait_down(0, 10)
        session.wait_up(0, 20)
        session.wait_traffic(0, 1)
    session.wait_idle(0, 1)
    client, server = ours.stop(), theirs.stop()
    assert {f"rtrs_client_{what}" for what in (
        "connect", "connect_done", "reconnect", "state", "post", "complete", "failover")} <= \
        {event for event, _ in client}
    assert {f"rtrs_server_{what}" for what in ("connect", "state", "receive", "start", "reply")} <= \
        {event for event, _ in server}

    def keys(events, name, pattern):
        return [match.groups() for event, text in events if event.endswith("_" + name)
                for match in [re.match(pattern, text)] if match]

    posted = keys(client, "post", r"(\d+\.\d+): path (\w+) cid (\d+) id (\d+):")
    ended = [ident for ident, in keys(client, "complete", r"(\d+\.\d+):")]
    moved = {ident for ident, in keys(client, "failover", r"(\d+\.\d+):")}
    assert moved and len(posted) > 100
    assert len(ended) == len(set(ended)), "a request was completed twice"
    assert set(ended) == {ident for ident, *_ in posted}
    for ident in moved:
        assert len({path for its, path, *_ in posted if its == ident}) == 2
    received = set(keys(server, "receive", r"path (\w+) cid (\d+) id (\d+):"))
    lost = {tuple(where) for ident, *where in posted if ident not in moved} - received
    assert not lost, f"posted, but not received: {lost}"
    rnbd.unmap(pair, disk)
    rnbd.remove_null_blk(pair.server, "trace")
    rnbd.unload(pair)
