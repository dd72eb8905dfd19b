# SPDX-License-Identifier: GPL-2.0
"""The machines of a test: a server and a client joined by cables, or one alone."""

import atexit
import concurrent.futures
import fcntl
import os
import shutil
import time

from . import channel, guest, host, rootfs

GIB = 1 << 30
DISKS = (guest.Disk("data", 4 * GIB), guest.Disk("data4k", 4 * GIB, 4096))


class MachineSlot:
    """The right to run virtual machines: one pair at a time on a machine.

    More would make every emulated processor slower than the time-outs of
    kernels and tests allow for.
    """

    def __init__(self):
        host.CACHE.mkdir(parents=True, exist_ok=True)
        self._file = open(host.CACHE / ".machines", "a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            host.progress("waiting for the machines of process " + self._file.read())
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self):
        """Let the next one have it."""
        self._file.close()


class Machines:
    """The guests that run at one time; `guests` has them all."""

    def __init__(self, suite, links, append, *others, files=None):
        self.suite = suite
        self.links = links
        self.append = append
        self.files = files or {each: rootfs.boot_files(rootfs.rootfs(each))
                               for each in (suite, *others)}
        self._slot = MachineSlot()
        self.dir = guest.fresh_directory(suite.name)
        atexit.register(self.stop)
        self.guests = ()
        self._allowed = []
        self._begin = []
        self._logs = None

    def _nics(self, me, other):
        return tuple(guest.Nic(self.dir / f"link{n}-{me}", self.dir / f"link{n}-{other}",
                               f"52:54:00:71:{n:02x}:{me:02x}", address(me, n), address6(me, n))
                     for n in range(self.links))

    def boot(self):
        """Boot all of them at the same time."""
        started = time.monotonic()
        try:
            for each in self.guests:
                each.start()
            for each in self.guests:
                each.wait_up()
        except BaseException:
            self.stop()
            raise
        names = " and ".join(f"{each.name} ({each.release})" for each in self.guests)
        host.progress(f"{names} up, booted in {time.monotonic() - started:.1f} s")
        return self

    def begin_test(self, logs):
        """Save what is logged from now on below `logs`, and judge it in end_test()."""
        self._allowed = []
        self._begin = [(each.log.position(), each.console.stat().st_size) for each in self.guests]
        self._logs = logs
        for each in self.guests:
            each.log.direct_to(logs / f"{each.name}.kernel-log")

    def allow(self, *expressions):
        """Kernel log lines that match one of these are expected in the current test."""
        self._allowed += expressions

    def end_test(self):
        """What the kernels have logged since begin_test() and should not have."""
        trouble = []
        for each, (position, size) in zip(self.guests, self._begin):
            if each.alive:
                each.sync_log()
            each.log.direct_to(None)
            (self._logs / f"{each.name}.console").write_bytes(each.console_since(size))
            trouble += [f"{each.name}: {line}"
                        for line in each.problems(position, size, self._allowed)]
        return trouble

    def on_each(self, function):
        """Call a function for all guests at the same time; returns the results."""
        with concurrent.futures.ThreadPoolExecutor(len(self.guests)) as pool:
            return list(pool.map(function, self.guests))

    def setup_rxe(self):
        """A soft-RoCE device on every link of all."""
        self.on_each(lambda each: [each.setup_rxe(number) for number in range(self.links)])

    @property
    def alive(self):
        """True if all of them run."""
        return all(each.alive for each in self.guests)

    def stop(self):
        """Power off, remove sockets and disks, let others run theirs.  May be repeated."""
        for each in self.guests:
            try:
                each.kill()
            except channel.GuestDied:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)
        self._slot.release()
        atexit.unregister(self.stop)

    def __enter__(self):
        return self.boot()

    def __exit__(self, *_):
        self.stop()


class Single(Machines):
    """One guest, `machine`; there is nobody at the other end of its cable.

    files: the rootfs.BootFiles it boots from, if not the suite's
    """

    def __init__(self, suite, disks=(), memory=2048, append="", files=None):
        super().__init__(suite, 1, append, files=files and {suite: files})
        self.machine = guest.Guest("machine", self.files[suite], self.dir, disks, self._nics(1, 2),
                                   memory, append)
        self.guests = (self.machine,)


class Pair(Machines):
    """Two guests, `server` and `client`; with links=2 joined by two cables.

    Link n is eth<n> on both; the server is 192.168.<71+n>.1 and fd71:<n>::1,
    the client 192.168.<71+n>.2 and fd71:<n>::2.  The client may be of another suite.
    """

    def __init__(self, suite, links=1, server_disks=DISKS, client_disks=(), memory=2048,
                 append="", client_suite=None):
        self.client_suite = client_suite or suite
        super().__init__(suite, links, append, self.client_suite)
        self.server = guest.Guest("server", self.files[suite], self.dir, server_disks,
                                  self._nics(1, 2), memory, append)
        self.client = guest.Guest("client", self.files[self.client_suite], self.dir,
                                  client_disks, self._nics(2, 1), memory, append)
        self.guests = (self.server, self.client)

    def server_address(self, link=0):
        """The server's IPv4 address on a link."""
        return address(1, link)

    def client_address(self, link=0):
        """The client's IPv4 address on a link."""
        return address(2, link)


def address(machine, link):
    """IPv4 address of the server (1) or client (2) on a link."""
    return f"192.168.{71 + link}.{machine}"


def address6(machine, link):
    """IPv6 address of the server (1) or client (2) on a link."""
    return f"fd71:{link}::{machine}"
