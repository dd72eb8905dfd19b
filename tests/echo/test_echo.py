# SPDX-License-Identifier: GPL-2.0
"""A second user of the transport, which is no block device: all it needs is rtrs/rtrs.h."""

import re
import shutil
import time
from pathlib import Path

import pytest

import multipath
import rnbd
from vmlab import cache, forms, host, modules, proc, rootfs

HERE = Path(__file__).resolve().parent
OURS = ("rtrs-core", "rtrs-client", "rtrs-server")
THEIRS = ("rtrs-echo-client", "rtrs-echo-server")

pytestmark = [pytest.mark.links(2), pytest.mark.newest]


def build(suite):
    """Build the two modules against ours, unless the cache has them; returns their directory."""
    fs = rootfs.rootfs(suite)
    key = cache.digest(fs.key, cache.tree_digest(HERE, ()),
                       cache.tree_digest(host.ROOT, modules.NOT_SOURCE))

    def make(directory):
        started = time.monotonic()
        with modules.copied(host.ROOT) as work:
            shutil.copytree(HERE, work / "echo")
            tree = f"/build/build/{fs.release}/src"
            proc.run_in_chroot(
                fs.root, work,
                f"make -j2 modules KVER={fs.release} ONLY='{' '.join(OURS)}' && "
                f"make -j2 -C /lib/modules/{fs.release}/build M=/build/echo TREE={tree} "
                f"KBUILD_EXTRA_SYMBOLS={tree}/Module.symvers W=1 KCFLAGS=-Werror modules",
                log=directory / "build.log")
            for name in THEIRS:
                proc.run(["strip", "--strip-debug", "-o", str(directory / f"{name}.ko"),
                          str(work / "echo" / f"{name}.ko")])
        host.progress(f"{suite.name}: echo modules built in {time.monotonic() - started:.0f} s")

    return cache.entry(f"echo-{suite.name}", key, make)


@pytest.fixture(name="echo")
def echo_fixture(pair, modules, suite):
    """A function that starts the echo client in a running pair; gives the job."""
    pair.setup_rxe()
    built = build(suite)
    for guest, role in ((pair.server, "server"), (pair.client, "client")):
        guest.put(f"/tmp/rtrs-echo-{role}.ko", built / f"rtrs-echo-{role}.ko")

    def start(*paths, **parameters):
        for guest, role in ((pair.server, "server"), (pair.client, "client")):
            guest.put("/etc/modprobe.d/vmlab.conf", "".join(
                f"options {key.replace('__', ' ', 1)}={value}\n"
                for key, value in multipath.FAST.items()))
            guest.run(f"modprobe rtrs_{role}")
        pair.server.run("insmod /tmp/rtrs-echo-server.ko")
        words = " ".join(f"{key}={value}" for key, value in parameters.items())
        names = ",".join(map(multipath.Session.spec, paths))
        return pair.client.start_job(f"insmod /tmp/rtrs-echo-client.ko path={names} {words}", 900)

    yield start
    for guest, role in ((pair.server, "server"), (pair.client, "client")):
        if guest.alive:
            guest.run(f"rmmod rtrs_echo_{role}", check=False)


def results(pair, position):
    """(requests, bytes) that the client says it has checked."""
    pair.client.sync_log()
    text = "\n".join(pair.client.log.since(position))
    found = re.search(r"(\d+) requests, (\d+) bytes checked, (\d+) chains failed", text)
    assert found, "the client did not come to its end"
    assert found.group(3) == "0"
    return int(found.group(1)), int(found.group(2))


def unload(pair):
    """Unload everything; nothing of the transport may be left."""
    pair.client.run("rmmod rtrs_echo_client && modprobe -r rtrs_client")
    pair.server.run("rmmod rtrs_echo_server && modprobe -r rtrs_server")
    for guest in pair.guests:
        rnbd.assert_gone(guest)


@pytest.mark.parametrize("poll_queues", [0, 2])
def test_echo(pair, echo, kernel, poll_queues):
    """Messages and data of any length come back unchanged, and errors are what the server says."""
    position = pair.client.log.position()
    echo(0, rounds=forms.short_or_full(8, 100), poll_queues=poll_queues).wait(900)
    requests, size = results(pair, position)
    assert requests > 64 and size > 1 << 20
    host.progress(f"MEASURED {kernel}: echo of {requests} requests, {size >> 20} MiB")
    unload(pair)


def test_echo_over_dying_paths(pair, echo):
    """The same while paths are lost and found: the user of the transport sees nothing of it."""
    position = pair.client.log.position()
    session = multipath.Session(pair, "echo")
    job = echo(0, 1, rounds=1000000)
    pair.client.wait_for(f"test -e '{session.node(1, 'state')}'", 30)
    for number in range(forms.short_or_full(4, 40)):
        path = number % 2
        session.wait_up(path, 30)
        session.wait_traffic(path)
        session.do(path, "disconnect")
        session.wait_traffic(1 - path)
        session.do(path, "reconnect")
        assert job.running, job.wait(1, check=False).describe()
    pair.client.write("/sys/module/rtrs_echo_client/parameters/rounds", "0")
    job.wait(120)
    results(pair, position)
    unload(pair)
