# SPDX-License-Identifier: GPL-2.0
"""Every wrong map_device line: its errno, a line in the log that says why, nothing left."""

import errno
import os
import re
import shutil
import subprocess
import time

import pytest

import rnbd
from vmlab import host

SRC, DST = "192.168.71.2", "192.168.71.1"
PATH = f"path=ip:{SRC}@ip:{DST}"
NONE = "device_path=/dev/q"
LONG = "n" * 256

# (line, errno, what the log must say); {dev} is a device that exists
SYNTAX = [
    ("\n", "EINVAL", "sessname"),
    ("   ", "EINVAL", "sessname"),
    ("sessname=x", "EINVAL", "device_path"),
    (f"sessname=x {PATH}", "EINVAL", "device_path"),
    (f"{PATH} {NONE}", "EINVAL", "sessname"),
    (f"sessname=x {NONE}", "ENXIO", "path"),
    (f"sessname=x {PATH} {NONE} colour=red", "EINVAL", "colour"),
    (f"sessname=x {PATH} {NONE} word", "EINVAL", "word"),
    (f"SESSNAME=x {PATH} {NONE}", "EINVAL", "SESSNAME"),
    (f"sessname {PATH} {NONE}", "EINVAL", "sessname"),
    (f"sessname= {PATH} {NONE}", "EINVAL", "sessname"),
    (f"sessname=x path= {NONE}", "EINVAL", "path"),
    (f"sessname=x {PATH} device_path=", "EINVAL", "device_path"),
    (f"sessname=x {PATH} {NONE} access_mode=", "EINVAL", "access_mode"),
    (f"sessname=x {PATH} {NONE} access_mode=xx", "EINVAL", "access_mode"),
    (f"sessname=x {PATH} {NONE} access_mode=RW", "EINVAL", "access_mode"),
    (f"sessname=x {PATH} {NONE} access_mode=rww", "EINVAL", "access_mode"),
    (f"sessname=x {PATH} {NONE} dest_port=", "EINVAL", "dest_port"),
    (f"sessname=x {PATH} {NONE} dest_port=abc", "EINVAL", "dest_port"),
    (f"sessname=x {PATH} {NONE} dest_port=70000", "EINVAL", "dest_port"),
    (f"sessname=x {PATH} {NONE} dest_port=-1", "EINVAL", "dest_port"),
    (f"sessname=x {PATH} {NONE} nr_poll_queues=abc", "EINVAL", "nr_poll_queues"),
    (f"sessname=x {PATH} {NONE} nr_poll_queues=-2", "EINVAL", "nr_poll_queues"),
    (f"sessname=x {PATH} {NONE} nr_poll_queues=3", "EINVAL", "nr_poll_queues"),
    (f"sessname=x {PATH} {NONE} fast_io_fail_tmo=-1", "EINVAL", "fast_io_fail_tmo"),
    (f"sessname=x {PATH} {NONE} fast_io_fail_tmo=86401", "EINVAL", "fast_io_fail_tmo"),
    (f"sessname=x\t{PATH} {NONE}", "EINVAL", ""),
    (f"sessname=x\n{PATH} {NONE}", "EINVAL", ""),
    (f"sessname=x path={DST} {NONE}", "EPROTONOSUPPORT", "path"),
    (f"sessname=x path=IP:{DST} {NONE}", "EPROTONOSUPPORT", "path"),
    (f"sessname=x path=ip:{SRC}@foo {NONE}", "EPROTONOSUPPORT", "path"),
    (f"sessname=x path=ip:{SRC},{DST} {NONE}", "EPROTONOSUPPORT", "path"),
    (f"sessname=x path=ip:{SRC}@ {NONE}", "EPROTONOSUPPORT", "path"),
    (f"sessname=x path=ip:999.1.1.1 {NONE}", "EINVAL", "path"),
    (f"sessname=x path=ip:192.168.71 {NONE}", "EINVAL", "path"),
    (f"sessname=x path=ip: {NONE}", "EINVAL", "path"),
    (f"sessname=x path=gid:zz {NONE}", "EINVAL", "path"),
    (f"sessname=x path=foo@ip:{DST} {NONE}", "EINVAL", "path"),
    (f"sessname=x path=@ip:{DST} {NONE}", "EINVAL", "path"),
    (f"sessname=x {' '.join([PATH] * 7)} {NONE}", "ENOMEM", "path"),
    (f"sessname=x.y {PATH} {NONE}", "EINVAL", "sessname"),
    (f"sessname=x/y {PATH} {NONE}", "EINVAL", "sessname"),
    (f"sessname={LONG} {PATH} {NONE}", "EINVAL", "sessname"),
    (f"sessname=x {PATH} device_path=/{LONG}", "EINVAL", "device_path"),
    (f"sessname=x {PATH} device_path=/dev/../dev/q", "EINVAL", "device_path"),
]

CONNECT = [
    (f"sessname=x path=ip:127.0.0.1 {NONE}", "ENODEV", "127.0.0.1"),
    (f"sessname=x path=gid:fe80::1 {NONE}", "ENODEV", "gid:"),
    (f"sessname=x path=ip:10.9.9.9 {NONE}", "ENETUNREACH", "10.9.9.9"),
    (f"sessname=x path=ip:192.168.71.77@ip:{DST} {NONE}", "EADDRNOTAVAIL", "192.168.71.77"),
    (f"sessname=x {PATH} {NONE} dest_port=1235", "ECONNREFUSED", "1235"),
    (f"sessname=x dest_port=0x4d3 {PATH} {NONE}", "ECONNREFUSED", "1235"),
    (f"sessname=x {PATH} {PATH} {NONE}", "EEXIST", "path"),
]

SERVER = [
    (f"sessname=x {PATH} {NONE}", "ENOENT", "/dev/q"),
    (f"sessname=x {PATH} device_path=/dev/null", "ENOTBLK", "/dev/null"),
    (f"sessname=x {PATH} device_path=/dev", "ENOTBLK", "/dev"),
    (f"sessname=x {PATH} device_path={{dev}}", "EPERM", "{dev}"),
    ("sessname=held device_path={dev}", "EEXIST", "{dev}"),
    (f"sessname=held {PATH} device_path={{dev}}", "EEXIST", "{dev}"),
    (f"sessname=held path=bad {NONE}", "EPROTONOSUPPORT", "path"),
    (f"sessname=held {NONE}", "ENOENT", "/dev/q"),
    (f"sessname=held {NONE} nr_poll_queues=1", "EINVAL", "nr_poll_queues"),
]


def refused(pair, line, expected, says):
    """Write a line; returns what was wrong with how it was refused, or None."""
    client = pair.client
    position = client.log.position()
    try:
        client.write(f"{rnbd.CTL}/map_device", line)
        return f"{line!r}: accepted"
    except OSError as error:
        got = errno.errorcode[error.errno]
    client.sync_log()
    ours = [text for text in client.log.since(position)
            if "rnbd_client" in text or "rtrs_client" in text]
    if got not in expected.split("|"):
        return f"{line!r}: {got} instead of {expected}; log: {ours}"
    if not any(says in text for text in ours):
        return f"{line!r}: {got}, but no line in the log names {says!r}: {ours}"
    return None


def devices(guest):
    """What is mapped, and which sessions exist."""
    return guest.glob(f"{rnbd.CTL}/devices/*", "/sys/class/rtrs-client/*", "/sys/block/rnbd*")


def wrong_lines(pair, device):
    """Each wrong line is refused with its errno and reason, and changes nothing."""
    rnbd.map_disk(pair, device, session="held")
    before = devices(pair.client)
    bad = [refused(pair, line.format(dev=device), expected, says.format(dev=device))
           for line, expected, says in SYNTAX + CONNECT + SERVER]
    bad = [text for text in bad if text]
    assert not bad, "\n".join(bad)
    assert devices(pair.client) == before


def right_lines(pair, device):
    """Blanks around and between, doubled keys, numbers in any base, any order, name lengths.

    Row D32: "ctl" is a session's name like any other.
    """
    for line, session in (
            (f"\n  sessname=a  {PATH}   device_path={device}  \n\n", "a"),
            (f"sessname=zz sessname=b {PATH} device_path=/dev/q device_path={device} "
             "access_mode=migration access_mode=ro", "b"),
            (f"device_path={device} access_mode=rw dest_port=0x4d2 {PATH} sessname=c", "c"),
            (f"sessname=d {PATH} device_path={device} dest_port=02322 nr_poll_queues=1", "d"),
            (f"sessname={'e' * 254} {PATH} device_path={device}", "e" * 254),
            (f"sessname=ctl {PATH} device_path={device}", "ctl"),
            (f"sessname=f path=ip:{SRC},ip:{DST} device_path=/{device}", "f"),
            (f"sessname=g path=ip:fd71:0::1 device_path={device[1:]}", "g")):
        pair.client.write(f"{rnbd.CTL}/map_device", line)
        name, = [path.split("/")[3] for path in pair.client.glob("/sys/block/rnbd*/rnbd/session")
                 if pair.client.read(path) == session]
        rnbd.unmap(pair, f"/dev/{name}")


def test_no_rdma_device(pair, modules):
    """What a beginner sees who forgot `rdma link add`: ENODEV, and the log says what is missing."""
    rnbd.load(pair)
    pair.client.run("rdma link delete rxe0")
    says = "no RDMA device at the address"
    bad = [refused(pair, f"sessname=x path={path} {NONE}", "ENODEV", says)
           for path in (f"ip:{DST}", f"ip:{SRC},ip:{DST}")]
    assert not any(bad), bad
    pair.client.setup_rxe(0)
    disk = rnbd.map_disk(pair, "/dev/disk/vmlab/data")
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)


def silent(pair, number):
    """Start to map from a neighbour that does not answer; returns once it is being tried."""
    job = pair.client.start_job(f"echo sessname=silent{number} path=ip:192.168.71.{number} {NONE} "
                                f">{rnbd.CTL}/map_device")
    node = f"/sys/class/rtrs-client/silent{number}"
    pair.client.wait_for(lambda: pair.client.exists(node) or not job.running)
    return job, node


def test_map_lines(pair, modules):
    """Wrong lines and right ones, while another one waits for a neighbour that does not answer.

    That one ends with EHOSTUNREACH or ETIMEDOUT within 35 s, and can be interrupted.
    Row D10: addresses where nobody is. Rows D16, D17: order, errnos and reasons.
    """
    rnbd.load(pair)
    device = rnbd.null_blk(pair.server, "lines", 64)
    position = pair.client.log.position()
    started = time.monotonic()
    waiting, _ = silent(pair, 99)
    right_lines(pair, device)
    interrupted, node = silent(pair, 98)
    interrupted.kill()
    pair.client.wait_for(lambda: not pair.client.exists(node), 10)
    result = waiting.wait(35, check=False)
    assert result.rc and time.monotonic() - started < 35, result.describe()
    assert re.search(os.strerror(errno.EHOSTUNREACH) + "|" + os.strerror(errno.ETIMEDOUT), result.err)
    pair.client.sync_log()
    assert [line for line in pair.client.log.since(position)
            if "192.168.71.99" in line and re.search("rtrs_client|rnbd_client", line)]
    wrong_lines(pair, device)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "lines")


@pytest.fixture(name="foreign", scope="session")
def foreign_fixture():
    """A program that answers connection requests in the name of another protocol."""
    target = host.BUILD / "foreign"
    target.parent.mkdir(parents=True, exist_ok=True)
    assert shutil.which("cc"), "a C compiler is among the host packages"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", target,
                    host.VM_DIR / "guest" / "foreign.c", "-lrdmacm", "-libverbs"], check=True)
    return target


def test_foreign_protocol(pair, modules, foreign):
    """Something else than RTRS 2 accepts the connection: EPROTO, and the log says so."""
    rnbd.load(pair, server=False)
    pair.server.run("modprobe -a rdma_ucm ib_uverbs")
    pair.server.put("/tmp/foreign", foreign, 0o755)
    peers = {port: pair.server.start_job(f"/tmp/foreign {port} {answer} 2>&1")
             for port, answer in ((1234, "magic"), (1235, "major"), (1236, "short"))}
    for port, peer in peers.items():
        pair.server.wait_for(lambda peer=peer: b"listening" in peer.output() or not peer.running)
        assert peer.running, peer.output()
        assert refused(pair, f"sessname=x {PATH} {NONE} dest_port={port}", "EPROTO",
                       "does not speak this protocol") is None
        peer.kill()
    rnbd.unload(pair)


def test_similar_names(pair, modules):
    """Row D11: two names that differ in / and ! only: the second is refused and leaves nothing."""
    rnbd.load(pair)
    names = ("slash", "mark")
    slash, mark = (rnbd.null_blk(pair.server, name, 16) for name in names)
    pair.server.run(f"mkdir /tmp/a && ln -s {slash} /tmp/a/b && ln -s {mark} '/tmp/a!b'")
    session = rnbd.new_session()
    disk = rnbd.map_disk(pair, "/tmp/a/b", session)
    before = devices(pair.client)
    assert refused(pair, f"sessname={session} device_path=/tmp/a!b", "EEXIST", "!tmp!a!b") is None
    assert devices(pair.client) == before
    assert not pair.server.exists(f"/sys/class/rnbd-server/ctl/devices/{mark[5:]}")
    # Over another session it has another name, and so has the same device.
    others = [rnbd.map_disk(pair, "/tmp/a!b"),
              rnbd.map_disk(pair, "/tmp/a/b", access_mode="migration")]
    for each in (disk, *others):
        rnbd.unmap(pair, each)
    rnbd.unload(pair)
    for name in names:
        rnbd.remove_null_blk(pair.server, name)


def test_session_name_in_use(pair, modules):
    """The same name from elsewhere: EADDRINUSE."""
    rnbd.load(pair)
    device = rnbd.null_blk(pair.server, "name", 64)
    # The server is its own client under that name, over its own address.
    pair.server.run("modprobe rnbd_client")
    pair.server.write(f"{rnbd.CTL}/map_device",
                      f"sessname=taken path=ip:{DST}@ip:{DST} device_path={device} access_mode=ro")
    assert refused(pair, f"sessname=taken {PATH} device_path={device} access_mode=ro",
                   "EADDRINUSE", "taken") is None
    rnbd.remove_module(pair.server, "rnbd_client")
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "name")
