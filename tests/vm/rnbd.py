# SPDX-License-Identifier: GPL-2.0
"""What the tests of the block device do again and again, in the guests."""

import itertools
import re

CTL = "/sys/class/rnbd-client/ctl"
MODULES = ("rtrs_core", "rtrs_client", "rtrs_server", "rnbd_client", "rnbd_server")

_sessions = itertools.count(1)


def new_session():
    """A session name that no other test has used."""
    return f"s{next(_sessions)}"


# ---- modules

def load(pair, server=True, client=True, **parameters):
    """Bring soft-RoCE up and load our modules.

    Parameters are named module__parameter, for example
    rtrs_server__always_invalidate="N".
    """
    wanted = {pair.server: ("rnbd_server", server), pair.client: ("rnbd_client", client)}
    pair.setup_rxe()
    pair.on_each(lambda guest: wanted[guest][1] and _modprobe(guest, wanted[guest][0], parameters))


def _modprobe(guest, module, parameters):
    """modprobe with parameters for the module and those it needs."""
    lines = [f"options {name.replace('__', ' ', 1)}={value}\n"
             for name, value in parameters.items()]
    guest.put("/etc/modprobe.d/vmlab.conf", "".join(lines))
    guest.run(f"modprobe {module}")


def remove_module(guest, module):
    """Unload rnbd_client or rnbd_server with everything below it that nobody else needs."""
    loaded = guest.loaded_modules()
    assert loaded[module] == 0, f"{guest.name}: {module} is in use"
    shared = {"rnbd_client", "rnbd_server"} <= set(loaded)
    guest.run(f"modprobe -r {module}" + ("" if shared else " rtrs_core"))


def unload(pair):
    """Unload our modules and check that nothing of them is left."""
    def unload_one(guest):
        for module in ("rnbd_client", "rnbd_server"):
            if module in guest.loaded_modules():
                remove_module(guest, module)
        assert_gone(guest)

    pair.on_each(unload_one)


def assert_gone(guest):
    """No module, sysfs node, block device, memory cache or kernel thread of ours exists."""
    assert not set(MODULES) & set(guest.loaded_modules())
    found = guest.glob("/sys/class/r[tn]*s-*", "/sys/class/rnbd-*", "/sys/block/rnbd*",
                       "/sys/devices/virtual/rtrs-*", "/sys/devices/virtual/rnbd-*")
    lines = [line for path in ("/proc/slabinfo", "/proc/devices")
             for line in guest.get(path).decode().splitlines()]
    # A worker of the system keeps the name of what it did last.
    lines += [name for name in guest.tasks() if not re.match("kworker/[u0-9]", name)]
    found += [line for line in lines if re.search("rtrs|rnbd", line)]
    assert not found, f"{guest.name}: left behind: {found}"


# ---- disks of the server

def null_blk(guest, name, size_mib=512, **attributes):
    """Make a memory-backed null_blk device through configfs; returns its path."""
    attributes = {"memory_backed": 1, "size": size_mib, **attributes}
    writes = "".join(f"echo {value} >{key}\n" for key, value in attributes.items())
    # Newer kernels name the disk after the directory, older ones number it.
    return guest.out("set -e\n"
                     "[ -d /sys/module/null_blk ] || modprobe null_blk nr_devices=0\n"
                     f"mkdir /sys/kernel/config/nullb/{name}\n"
                     f"cd /sys/kernel/config/nullb/{name}\n{writes}echo 1 >power\n"
                     f"p=/dev/{name}; [ -b $p ] || p=/dev/nullb$(<index)\n"
                     "[ -b $p ] && echo $p")


def remove_null_blk(guest, name):
    """Undo null_blk()."""
    guest.run(f"rmdir /sys/kernel/config/nullb/{name}")


def loop(guest, size_mib=512):
    """Make a loop device over a sparse file; returns its path."""
    return guest.out("set -e; modprobe loop; f=$(mktemp /var/tmp/loop.XXXXXX); "
                     f"truncate -s {size_mib}M $f; losetup -f --show $f; rm $f")


def remove_loop(guest, path):
    """Undo loop()."""
    guest.run(f"losetup -d {path}")


# ---- mapping

def map_line(pair, session, device, link=0, **keys):
    """The line for map_device."""
    words = {"sessname": session, "path": f"ip:{pair.server_address(link)}",
             "device_path": device, **keys}
    return " ".join(f"{key}={value}" for key, value in words.items() if value is not None)


def map_disk(pair, device, session=None, **keys):
    """Map a device of the server; returns /dev/rnbd<N> once it is there."""
    session = session or new_session()
    guest = pair.client
    guest.write(f"{CTL}/map_device", map_line(pair, session, device, **keys))
    link = f"{CTL}/devices/{device.replace('/', '!')}"
    if guest.exists(f"{link}@{session}"):
        link = f"{link}@{session}"
    else:
        assert not guest.exists("/sys/module/rnbd_client/version"), "only mainline's of 5.10 does that"
    name = guest.readlink(link).rsplit("/", 1)[1]
    assert re.fullmatch(r"rnbd\d+", name)
    assert guest.read(f"/sys/block/{name}/rnbd/state") == "open"
    assert guest.exists(f"/dev/{name}")
    return f"/dev/{name}"


def unmap(pair, disk, how="normal"):
    """Unmap; the disk is gone when it returns."""
    name = disk.rsplit("/", 1)[1]
    pair.client.write(f"/sys/block/{name}/rnbd/unmap_device", how)
    assert not pair.client.exists(f"/sys/block/{name}")


# ---- memory

def free_kib(guest):
    """Memory that nobody uses and no cache could give back, KiB."""
    guest.run("sync; echo 3 >/proc/sys/vm/drop_caches")
    text = guest.get("/proc/meminfo").decode()
    free = sum(int(re.search(rf"^{name}:\s+(\d+)", text, re.M).group(1))
               for name in ("MemFree", "Buffers", "Cached", "SReclaimable"))
    # Freed pages that a processor keeps at hand are not in MemFree: tens of MiB.
    zones = guest.get("/proc/zoneinfo").decode()
    return free + 4 * sum(map(int, re.findall(r"^ +count: +(\d+)$", zones, re.M)))


def free_memory(pair):
    """free_kib() of both, once the server has freed what its last session had."""
    pair.server.wait_for("! ls /sys/class/rtrs-server 2>/dev/null | grep .", 30)

    def settled(guest):
        first = free_kib(guest)
        return abs(free_kib(guest) - first) < 512

    def measured(guest):
        guest.wait_for(lambda: settled(guest), 30, "memory use is steady")
        return free_kib(guest)

    return dict(zip([guest.name for guest in pair.guests], pair.on_each(measured)))


def assert_flat(before, after, rounds):
    """Memory use has not grown, but for the noise of a running system."""
    lost = {name: before[name] - after[name] for name in before}
    assert max(lost.values()) < 4096 + 16 * rounds, f"KiB lost in {rounds} rounds: {lost}"


# ---- input and output

def fio(guest, disk, *jobs, **options):
    """Write and read back with checksums: several jobs one after the other, in one process.

    Each job is a mapping of fio's options; `options` are for all of them.  Jobs for several
    disks have a `filename` each, and `disk` is None: fio would add them up.
    """
    common = {"filename": disk, "direct": 1, "ioengine": "libaio", "randrepeat": 0,
              "verify": "crc32c", "verify_fatal": 1, "verify_state_save": 0, **options}
    lines = ["[global]", "thread",
             *(f"{key}={value}" for key, value in common.items() if value is not None)]
    for number, job in enumerate(jobs):
        lines += [f"[job{number}]", "stonewall",
                  *(f"{key}={value}" for key, value in job.items())]
    result = guest.run("fio --output-format=terse --terse-version=3 -", timeout=600,
                       stdin="\n".join(lines + [""]).encode())
    # fio that does nothing does not fail.  A small mixed job may happen to read only.
    done = [line.split(";") for line in result.out.splitlines() if line.startswith("3;")]
    moved = [(int(fields[5]), int(fields[46])) for fields in done]
    assert len(done) == sum(job.get("numjobs", 1) for job in jobs), result.describe()
    assert all(map(any, moved)) and all(map(any, zip(*moved))), result.describe()
