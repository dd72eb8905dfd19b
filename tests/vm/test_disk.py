# SPDX-License-Identifier: GPL-2.0
"""A remote disk does what a local one does."""

import pytest

import rnbd
from vmlab import forms

@pytest.fixture(name="loaded")
def loaded_fixture(pair, modules):
    """Both sides loaded; the test unloads them and so checks for leftovers."""
    rnbd.load(pair)
    return pair


TREE, SUMS = "/var/tmp/tree", "/var/tmp/tree.sums"


def make_tree(guest, files):
    """TREE: files of 0 to 16 KiB with different contents, 100 in a directory; SUMS of them.

    They stay in the guest for the next test.
    """
    if guest.exists(SUMS):
        return
    guest.run(f"mkdir -p {TREE} && cd {TREE} && python3 - {files} <<'END'\n"
              "import os, random, sys\n"
              "random.seed(1)\n"
              "for i in range(int(sys.argv[1])):\n"
              "    d = f'd{i // 100}'\n"
              "    os.makedirs(d, exist_ok=True)\n"
              "    with open(f'{d}/f{i}', 'wb') as f:\n"
              "        f.write(random.randbytes(random.choice((0, 1, 511, 4096, 16384))))\n"
              "END\n"
              f"find . -type f -print0 | xargs -0 sha256sum >{SUMS}.new && mv {SUMS}.new {SUMS}",
              timeout=300)


# How to find out that all of a filesystem is in order, changing nothing
CHECKS = {"ext4": "e2fsck -fn", "xfs": "xfs_repair -n", "btrfs": "btrfs check"}


@pytest.mark.newest
@pytest.mark.parametrize("filesystem", CHECKS)
def test_filesystem_keeps_a_tree(loaded, filesystem):
    """Row B20: mkfs, copy 5,000 files (short: 1,000), unmount, check, mount: the same checksums."""
    pair, client = loaded, loaded.client
    device = rnbd.null_blk(pair.server, "fs", 512)
    disk = rnbd.map_disk(pair, device)
    files = forms.short_or_full(1000, 5000)
    make_tree(client, files)
    client.run(f"mkfs.{filesystem} -q {disk} && mkdir -p /mnt/disk && mount {disk} /mnt/disk",
               timeout=300)
    client.run(f"cp -a {TREE} /mnt/disk/ && sync && umount /mnt/disk && "
               f"{CHECKS[filesystem]} {disk}", timeout=600)
    client.run(f"mount {disk} /mnt/disk && cd /mnt/disk/tree && sha256sum --quiet -c {SUMS}",
               timeout=300)
    assert client.out("find /mnt/disk/tree -type f | wc -l") == str(files)
    client.run("umount /mnt/disk")
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "fs")


def fio_job(block_size, pattern, depth):
    """Four regions of a disk, written and read back at the same time; see rnbd.fio()."""
    size = max(block_size * forms.short_or_full(4, 16), 128 * 1024)
    return {"bs": block_size, "rw": pattern, "iodepth": depth, "size": size,
            "offset_increment": size, "numjobs": 4}


def fio_runs(smallest):
    """Lists of jobs, a list for each run of fio.

    The long form has every pair of size and depth, of size and pattern, of depth and
    pattern; the short one has a few sizes from the smallest to the largest.
    """
    if forms.full():
        patterns = ("randwrite", "write", "randrw", "rw")
        return [[fio_job(smallest << n, patterns[(n + k) % 4], 1 << k) for k in range(7)]
                for n in range(12) if smallest << n <= 1 << 20]
    jobs = [(512, "randwrite", 64), (4096, "write", 16), (65536, "randrw", 1),
            (131072, "rw", 4), (1 << 20, "randwrite", 16)]
    return [[fio_job(*job) for job in jobs if job[0] >= smallest]]


# always_invalidate, and whether memory is registered per request as on devices of iron.
# In the short form one disk with N, all with Y.
BACKINGS = [("null_blk", "Y", "copies"), ("loop", "Y", "registers"), ("4k-blocks", "Y", "copies"),
            ("null_blk", "N", "registers")] + \
    forms.short_or_full([], [("loop", "N", "copies"), ("4k-blocks", "N", "registers")])


@pytest.mark.parametrize("backing,invalidate,memory", BACKINGS)
def test_fio_verifies(pair, modules, backing, invalidate, memory):
    """Verified I/O from 512 bytes to 1 MiB, random and sequential, depths 1 to 64, four jobs."""
    rnbd.load(pair, rtrs_server__always_invalidate=invalidate,
              rtrs_core__rxe_reg_mr="NY"[memory == "registers"])
    smallest = 512
    if backing == "null_blk":
        device = rnbd.null_blk(pair.server, "fio", 256)
    elif backing == "loop":
        device = rnbd.loop(pair.server, 256)
    else:
        device, smallest = "/dev/disk/vmlab/data4k", 4096
    disk = rnbd.map_disk(pair, device)
    assert pair.client.out(f"blockdev --getss {disk}") == str(smallest)
    for jobs in fio_runs(smallest):
        rnbd.fio(pair.client, disk, *jobs)
    rnbd.unmap(pair, disk)
    if backing == "null_blk":
        rnbd.remove_null_blk(pair.server, "fio")
    elif backing == "loop":
        rnbd.remove_loop(pair.server, device)
    rnbd.unload(pair)


def test_map_and_unmap_again_and_again(loaded):
    """Rows D03, D05: map and unmap 50 times: works every time, memory use stays."""
    pair = loaded
    device = rnbd.null_blk(pair.server, "again", 64)
    rounds = forms.short_or_full(10, 50)
    before = {}
    for number in range(rounds):
        disk = rnbd.map_disk(pair, device)
        pair.client.run(f"dd if={disk} of=/dev/null bs=64k count=4 iflag=direct")
        rnbd.unmap(pair, disk)
        if number == 3:
            before = rnbd.free_memory(pair)
    rnbd.assert_flat(before, rnbd.free_memory(pair), rounds - 4)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "again")


def test_load_and_unload_again_and_again(pair, modules):
    """Row D08: load, map, unmap and unload everything 20 times, at once: memory use stays."""
    device = rnbd.null_blk(pair.server, "reload", 64)
    rounds = forms.short_or_full(5, 20)
    before = {}
    for number in range(rounds):
        rnbd.load(pair)
        rnbd.unmap(pair, rnbd.map_disk(pair, device))
        rnbd.unload(pair)
        if number == 2:
            before = rnbd.free_memory(pair)
    rnbd.assert_flat(before, rnbd.free_memory(pair), rounds - 3)
    rnbd.remove_null_blk(pair.server, "reload")


def test_unload_with_a_mapped_disk(pair, modules):
    """Rows D03, D08: unloading the client unmaps its disks, unloading the server drops its clients."""
    rnbd.load(pair)
    device = rnbd.null_blk(pair.server, "unload", 64)
    rnbd.map_disk(pair, device)
    rnbd.remove_module(pair.client, "rnbd_client")
    rnbd.assert_gone(pair.client)
    pair.client.run("modprobe rnbd_client")
    disk = rnbd.map_disk(pair, device)
    rnbd.remove_module(pair.server, "rnbd_server")
    rnbd.assert_gone(pair.server)
    pair.client.wait_for(f"grep -q closed /sys/block/{disk[5:]}/rnbd/state", 30)
    assert pair.client.run(f"dd if={disk} of=/dev/null bs=4k count=1 iflag=direct",
                           check=False).rc, "a read without a server must fail"
    rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "unload")
