# SPDX-License-Identifier: GPL-2.0
"""Every wrong map_device line: its errno, a line in the log that says why, nothing left."""

import errno
import shutil
import subprocess

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


@pytest.fixture(name="held")
def held_fixture(pair, modules):
    """Session `held` has a device open rw; gives its path on the server."""
    rnbd.load(pair)
    device = rnbd.null_blk(pair.server, "held", 64)
    rnbd.map_disk(pair, device, session="held")
    return device


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
    return guest.out(f"ls {rnbd.CTL}/devices /sys/class/rtrs-client; ls -d /sys/block/rnbd*")


@pytest.mark.parametrize("cases", [SYNTAX, CONNECT, SERVER], ids=["syntax", "connect", "server"])
def test_wrong_map_lines(pair, held, cases):
    """Each is refused with its errno and reason, and changes nothing."""
    before = devices(pair.client)
    bad = [refused(pair, line.format(dev=held), expected, says.format(dev=held))
           for line, expected, says in cases]
    bad = [text for text in bad if text]
    assert not bad, "\n".join(bad)
    assert devices(pair.client) == before
    rnbd.unload(pair)


def test_right_map_lines(pair, modules):
    """Blanks around and between, doubled keys, numbers in any base, any order, name lengths."""
    rnbd.load(pair)
    device = rnbd.null_blk(pair.server, "right", 64)
    for line, session in (
            (f"\n  sessname=a  {PATH}   device_path={device}  \n\n", "a"),
            (f"sessname=zz sessname=b {PATH} device_path=/dev/q device_path={device} "
             "access_mode=migration access_mode=ro", "b"),
            (f"device_path={device} access_mode=rw dest_port=0x4d2 {PATH} sessname=c", "c"),
            (f"sessname=d {PATH} device_path={device} dest_port=02322 nr_poll_queues=1", "d"),
            (f"sessname={'e' * 254} {PATH} device_path={device}", "e" * 254),
            (f"sessname=f path=ip:{SRC},ip:{DST} device_path=/{device}", "f"),
            (f"sessname=g path=ip:fd71:0::1 device_path={device[1:]}", "g")):
        pair.client.write(f"{rnbd.CTL}/map_device", line)
        name = pair.client.out(f"grep -lx {session} /sys/block/rnbd*/rnbd/session | cut -d/ -f4")
        rnbd.unmap(pair, f"/dev/{name}")
    rnbd.remove_null_blk(pair.server, "right")
    rnbd.unload(pair)


def test_nobody_answers(pair, modules):
    """A silent neighbour: EHOSTUNREACH or ETIMEDOUT within 35 s, and it can be interrupted."""
    rnbd.load(pair, server=False)
    assert refused(pair, f"sessname=x path=ip:192.168.71.99 {NONE}", "EHOSTUNREACH|ETIMEDOUT",
                   "192.168.71.99") is None
    job = pair.client.start_job(f"echo sessname=x path=ip:192.168.71.98 {NONE} "
                                f">{rnbd.CTL}/map_device")
    pair.client.wait_for("test -d /sys/class/rtrs-client/x")
    job.kill()
    pair.client.wait_for("! test -d /sys/class/rtrs-client/x", 10)
    rnbd.unload(pair)


@pytest.fixture(name="foreign", scope="session")
def foreign_fixture():
    """A program that answers connection requests in the name of another protocol."""
    target = host.BUILD / "foreign"
    target.parent.mkdir(parents=True, exist_ok=True)
    assert shutil.which("cc"), "a C compiler is among the host packages"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", target,
                    host.VM_DIR / "guest" / "foreign.c", "-lrdmacm", "-libverbs"], check=True)
    return target


@pytest.mark.parametrize("answer", ["magic", "major", "short"])
def test_foreign_protocol(pair, modules, foreign, answer):
    """Something else than RTRS 2 accepts the connection: EPROTO, and the log says so."""
    rnbd.load(pair, server=False)
    pair.server.run("modprobe -a rdma_ucm ib_uverbs")
    pair.server.put("/tmp/foreign", foreign, 0o755)
    peer = pair.server.start_job(f"/tmp/foreign 1234 {answer} 2>&1")
    pair.server.wait_for(lambda: b"listening" in peer.output() or not peer.running)
    assert peer.running, peer.output()
    assert refused(pair, f"sessname=x {PATH} {NONE}", "EPROTO",
                   "does not speak this protocol") is None
    peer.kill()
    rnbd.unload(pair)


def test_session_name_in_use(pair, modules):
    """The same name from elsewhere: EADDRINUSE."""
    rnbd.load(pair)
    rnbd.load(pair, client=False)
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
