# SPDX-License-Identifier: GPL-2.0
"""md-raid1 over two servers: one of them goes away under I/O and comes back.

The second server is in the client's machine, which is its own client over its own address.
"""

import pytest

import multipath
import rnbd
from multipath import FAST, verified_io

MD = "/dev/md0"
SYSFS = "/sys/block/md0/md"
SIZE = 32
# So slowly that most of what is written to a leg that is recovered comes from the recovery
SLOW = multipath.VERIFY + "--rate_iops=50 "
# From md's first request to a server that does not answer until it has given it up
DEGRADED = 40


class Mirror:
    """A raid1 of a disk of the server and one of the client's own machine, which serves, too."""

    def __init__(self, pair):
        self.pair = pair
        self.client = pair.client
        rnbd.load(pair, **FAST)
        self.client.run("modprobe rnbd_server && modprobe raid1")
        own = f"ip:{pair.client_address()}"
        self.backing = [rnbd.null_blk(pair.server, "far", SIZE),
                        rnbd.null_blk(self.client, "near", SIZE)]
        self.legs = [rnbd.map_disk(pair, self.backing[0]),
                     rnbd.map_disk(pair, self.backing[1], path=f"{own}@{own}")]
        self._position = self.client.log.position()
        # A small bitmap chunk, so that it matters what has changed.
        self.client.run(f"mdadm --create {MD} --run --level=1 --raid-devices=2 "
                        f"--bitmap=internal --bitmap-chunk=64K {' '.join(self.legs)}")
        # Otherwise md steps back behind fio.
        self.client.write(f"{SYSFS}/sync_speed_min", "100000")
        self.wait_synced("resync")

    def manage(self, *arguments):
        """mdadm with something to do to the far leg."""
        for argument in arguments:
            self._position = self.client.log.position()
            self.client.run(f"mdadm {MD} {argument} {self.legs[0]}")

    def wait_synced(self, what):
        """The resync, recovery or data-check that has begun last ends; all legs are in use."""
        assert self.client.log.wait_for(rf"md: md0: {what} done\.", self._position, 120), what
        self.client.wait_for(lambda: self.degraded == 0, 10, "no leg is missing")

    @property
    def degraded(self):
        """How many legs are missing."""
        return int(self.client.read(f"{SYSFS}/degraded"))

    def written(self):
        """MiB written to the far leg so far."""
        return int(self.client.get(f"/sys/block/{self.legs[0][5:]}/stat").split()[6]) >> 11

    def wait_degraded(self):
        """md gives up the far leg."""
        self.client.wait_for(lambda: self.degraded == 1, DEGRADED, "the array is degraded")
        assert "faulty" in self.client.read(f"{SYSFS}/dev-{self.legs[0][5:]}/state")

    def goes_on(self, fio, count=100):
        """The array does its I/O."""
        before = multipath.completed(self.client, MD)
        self.client.wait_for(lambda: multipath.completed(self.client, MD) > before + count
                             or not fio.running, 60, "I/O goes on")
        fio.assert_running()

    def check(self):
        """md finds no difference between its legs."""
        self._position = self.client.log.position()
        self.client.write(f"{SYSFS}/sync_action", "check")
        self.wait_synced("(data-)?check")
        assert self.client.read(f"{SYSFS}/mismatch_cnt") == "0"

    def stop(self):
        """Stop it; both servers hold the same data, and not just zeroes."""
        offsets = [int(self.client.read(f"{SYSFS}/dev-{leg[5:]}/offset")) for leg in self.legs]
        size = int(self.client.read(f"{SYSFS}/component_size")) << 10
        self.client.run(f"mdadm --stop {MD}")
        commands = [f"dd if={backing} bs=1M iflag=direct,skip_bytes,count_bytes "
                    f"skip={offset * 512} count={size} status=none"
                    for backing, offset in zip(self.backing, offsets)]
        sums = [guest.out(f"{command} | sha256sum")
                for guest, command in zip(self.pair.guests, commands)]
        assert sums[0] == sums[1], "the legs differ"
        assert self.client.out(f"{commands[1]} | tr -d '\\0' | head -c 1 | wc -c") == "1"

    def remove(self):
        """Unmap, unload and remove all of it."""
        for leg in self.legs:
            rnbd.unmap(self.pair, leg)
        rnbd.unload(self.pair)
        for guest, name in zip(self.pair.guests, ("far", "near")):
            rnbd.remove_null_blk(guest, name)


@pytest.mark.full
def test_mirror_without_a_server(pair, modules):
    """The server's module is unloaded and loaded again: no error, and only changes are copied."""
    mirror = Mirror(pair)
    with verified_io(pair.client, MD, size_mib=4, options=SLOW) as fio:
        rnbd.remove_module(pair.server, "rnbd_server")
        mirror.wait_degraded()
        mirror.goes_on(fio)
        rnbd.load(pair, client=False, **FAST)
        multipath.wait_open(pair, mirror.legs[0], 60)
        mirror.manage("--remove")
        before = mirror.written()
        # Only a bitmap makes this possible; it fails without one.
        mirror.manage("--re-add")
        mirror.wait_synced("recover(y)?")
        assert mirror.written() - before < SIZE / 2, "all of it was copied"
        mirror.goes_on(fio)
    mirror.check()
    mirror.stop()
    mirror.remove()


@pytest.mark.newest
def test_mirror_without_a_machine(pair, modules):
    """The server loses power and comes back with an empty disk: no error, and a full recovery."""
    mirror = Mirror(pair)
    with verified_io(pair.client, MD, size_mib=4, options=SLOW) as fio:
        pair.server.kill()
        mirror.wait_degraded()
        mirror.goes_on(fio)
        pair.server.restart()
        mirror.backing[0] = rnbd.null_blk(pair.server, "far", SIZE)
        rnbd.load(pair, client=False, **FAST)
        multipath.wait_open(pair, mirror.legs[0], 150)
        mirror.manage("--remove", "--add")
        mirror.wait_synced("recover(y)?")
        mirror.goes_on(fio)
    mirror.check()
    mirror.stop()
    mirror.remove()
