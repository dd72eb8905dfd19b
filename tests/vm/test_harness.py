# SPDX-License-Identifier: GPL-2.0
"""The harness itself, on booted machines."""

import errno

import pytest

from vmlab import channel

# The harness does not depend on the guests' kernel.
pytestmark = pytest.mark.kernels("6.12")


def test_machines_reach_each_other(pair, kernel):
    """The kernel is one of the series, and both addresses of the cable work."""
    assert pair.client.release.startswith(kernel)
    assert pair.client.out("uname -r") == pair.client.release
    pair.client.run("ping -c 1 -W 5 192.168.71.1 && ping -c 1 -W 5 fd71:0::1")
    assert "mtu 9000" in pair.client.out("ip link show eth0")


def test_commands_and_files(pair):
    """Exit codes, both outputs, input, time-outs, errnos, and data of a few megabytes."""
    guest = pair.client
    result = guest.run("echo one; echo two >&2; exit 3", check=False)
    assert (result.rc, result.out, result.err) == (3, "one\n", "two\n")
    with pytest.raises(channel.CommandFailed, match="ended with 1"):
        guest.run("false")
    assert guest.run("sleep 100", timeout=1, check=False).timed_out
    assert guest.run("sleep 100 & echo done").out == "done\n"
    data = bytes(range(256)) * 8192
    guest.put("/tmp/sub/data", data)
    assert guest.get("/tmp/sub/data") == data
    assert guest.run("wc -c", stdin=data).out.strip() == str(len(data))
    with pytest.raises(OSError) as caught:
        guest.write("/proc/sys/kernel/printk", "words")
    assert caught.value.errno == errno.EINVAL
    job = guest.start_job("echo begun; sleep 100")
    guest.wait_for(job.output)
    assert job.running and job.output() == b"begun\n"
    job.kill()
    assert job.wait(timeout=10, check=False).rc == -9


def test_disks(pair):
    """The server's disks have the names and block sizes that tests rely on."""
    for name, size in (("data", 512), ("data4k", 4096)):
        assert pair.server.out(f"blockdev --getss /dev/disk/vmlab/{name}") == str(size)


def test_kernel_log_is_judged(pair):
    """A warning is found, and an allowed one is not a failure."""
    position = pair.client.log.position()
    pair.client.write("/dev/kmsg", "<4>WARNING: CPU: 0 PID: 1 at a deliberate place\n")
    pair.allow("at a deliberate place")
    pair.client.sync_log()
    assert len(pair.client.problems(position)) == 1
    assert not pair.client.problems(position, allowed=["deliberate"])


def test_cable_and_power(pair):
    """A pulled cable stops the traffic; a machine keeps its files over a power cut."""
    pair.client.cable(0, False)
    assert pair.client.run("ping -c 1 -W 1 192.168.71.1", check=False).rc
    pair.client.cable(0, True)
    pair.client.wait_for("ping -c 1 -W 1 192.168.71.1", 30)
    pair.server.run("echo kept >/root/file && sync")
    pair.server.kill()
    assert not pair.server.alive
    with pytest.raises(channel.GuestDied):
        pair.server.run("true")
    pair.server.restart()
    assert pair.server.read("/root/file") == "kept"
    pair.client.wait_for("ping -c 1 -W 1 192.168.71.1", 30)


def test_soft_roce(pair):
    """A soft-RoCE device comes up in both, and setting it up twice does no harm."""
    for _ in range(2):
        pair.setup_rxe()
    for guest in pair.guests:
        assert "link rxe0/1 state ACTIVE" in guest.out("rdma link")


def test_one_machine(single, kernel):
    """A machine alone boots, has its card, and finds nobody at the other end."""
    assert len(single.guests) == 1
    assert single.machine.out("uname -r").startswith(kernel)
    assert "192.168.71.1/24" in single.machine.out("ip address show dev eth0")
    assert single.machine.run("ping -c 1 -W 1 192.168.71.2", check=False).rc


def test_shell(single):
    """An interactive shell has a terminal of the right size, takes input at once, and ends."""
    output = bytearray()
    shell = single.machine.shell("vt100", (33, 77), output.extend)
    shell.type(b"stty size; hostname\n")
    single.machine.wait_for(lambda: b"33 77" in output and b"\nmachine" in output, 30)
    shell.type(b"sleep 1000\n")
    single.machine.wait_for("pgrep -x sleep", 30)
    shell.type(b"\x03")
    single.machine.wait_for("! pgrep -x sleep", 30)
    shell.resize((20, 40))
    shell.type(b"stty size; exit 5\n")
    assert shell.job.finish(30)["rc"] == 5
    assert b"20 40" in output
    shell.type(b"too late\n")
    assert single.machine.out("echo alive") == "alive"
