# SPDX-License-Identifier: GPL-2.0
"""Ours with mainline's, in both roles and both modes of the server."""

import pytest

import rnbd

MODES = pytest.mark.parametrize("invalidate", ["Y", "N"])

pytestmark = pytest.mark.kernels("6.12")


SIZES = ({"bs": "512", "rw": "randwrite", "size": "512k", "iodepth": 8},
         {"bs": "4k", "rw": "randwrite", "size": "4m", "iodepth": 8},
         {"bs": "128k", "rw": "randwrite", "size": "16m", "iodepth": 8},
         {"bs": "1m", "rw": "write", "size": "32m", "iodepth": 4})


def exercise(pair):
    """What every pair must do: verified writes of all sizes, flush, discard, write zeroes."""
    client = pair.client
    device = rnbd.null_blk(pair.server, "interop", 256, discard=1, cache_size=4)
    disk = rnbd.map_disk(pair, device)
    name = disk[5:]
    assert client.read(f"/sys/block/{name}/queue/write_cache") == "write back"
    rnbd.fio(client, disk, *SIZES)
    client.run(f"dd if=/dev/urandom of={disk} bs=64k count=16 oflag=direct conv=fsync")
    client.run(f"dd if=/dev/urandom of={disk} bs=4k count=4 oflag=direct,dsync")
    client.run(f"blkdiscard -o 0 -l 65536 {disk}")
    assert zeroes(client, disk, 65536), "discarded blocks of null_blk read as zeroes"
    rnbd.unmap(pair, disk)

    disk = rnbd.map_disk(pair, "/dev/disk/vmlab/data")
    name = disk[5:]
    assert int(client.read(f"/sys/block/{name}/queue/write_zeroes_max_bytes")) > 0
    client.run(f"dd if=/dev/urandom of={disk} bs=64k count=2 oflag=direct")
    client.run(f"blkdiscard -z -o 0 -l 65536 {disk}")
    assert zeroes(client, disk, 65536), "write zeroes did not write zeroes"
    assert not zeroes(client, disk, 131072), "write zeroes wrote too much"
    rnbd.unmap(pair, disk)
    rnbd.remove_null_blk(pair.server, "interop")


def zeroes(guest, disk, length):
    """True if the disk begins with that many zero bytes."""
    return guest.run(f"dd if={disk} bs=64k count={length // 65536} iflag=direct status=none | "
                     f"cmp -s -n {length} - /dev/zero", check=False).rc == 0


@MODES
def test_our_client_with_mainline_server(pair, modules, mainline, invalidate):
    """Map, write, verify, flush, discard, write zeroes, unmap, unload."""
    pair.setup_rxe()
    mainline.load(pair.server, "server", rtrs_server__always_invalidate=invalidate)
    rnbd.load(pair, server=False)
    exercise(pair)
    rnbd.remove_module(pair.client, "rnbd_client")
    rnbd.assert_gone(pair.client)
    mainline.unload(pair.server, "server")


@MODES
def test_mainline_client_with_our_server(pair, modules, mainline, invalidate):
    """The same with the roles exchanged."""
    rnbd.load(pair, client=False, rtrs_server__always_invalidate=invalidate)
    mainline.load(pair.client, "client")
    exercise(pair)
    mainline.unload(pair.client, "client")
    rnbd.remove_module(pair.server, "rnbd_server")
    rnbd.assert_gone(pair.server)
