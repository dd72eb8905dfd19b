#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""make demo: one disk, two virtual machines, told step by step.

Everything is real: stock Debian kernels, the modules built from this tree, a
disk exported by one machine and used by the other over soft-RoCE.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "vm"))

import rnbd  # noqa: E402 (after the path to it)
from vmlab import channel, host, modules, pair, proc, rootfs, suites  # noqa: E402

_START = time.monotonic()
_bold = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")


# What setup_rxe() does, for people
RXE = "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0"


def say(text):
    """A step, with the time since the start."""
    seconds = int(time.monotonic() - _START)
    print(f"\n{_bold[0]}[{seconds // 60}:{seconds % 60:02}] {text}{_bold[1]}", flush=True)


def show(guest, command, timeout=300):
    """Run a command in a machine and show it with its output."""
    print(f"  {guest.name}# {command}", flush=True)
    output = guest.run(command, timeout=timeout).out
    for line in output.rstrip().splitlines():
        print(f"  {line}", flush=True)


def prepare():
    """Images and modules for the newest stock kernel that we test."""
    suite = suites.find(os.environ.get("KERNEL", "trixie"))
    say(f"Getting Debian {suite.name} with its stock {suite.series} kernel. "
        "The first time it is downloaded and installed into a directory; later it is in the cache.")
    images = rootfs.boot_files(rootfs.rootfs(suite))
    say(f"Building the five modules for kernel {images.release} with that distribution's compiler.")
    return suite, modules.build(suite)


def export(both):
    """The server's side."""
    say("On the server: a network card becomes an RDMA device (soft-RoCE), the server module is "
        "loaded and offers every disk below /dev.")
    both.server.setup_rxe()
    print(f"  server# {RXE}", flush=True)
    show(both.server, "rdma link")
    device = rnbd.null_blk(both.server, "demo", 512)
    print("  (the disk is a null_blk device that keeps its data in memory)", flush=True)
    show(both.server, "modprobe rnbd-server dev_search_path=/dev")
    show(both.server, f"lsblk -dno NAME,SIZE {device}")
    return device.rsplit("/", 1)[1]


def use(client, disk):
    """A filesystem, files, and I/O that checks what it reads."""
    say("A filesystem on it, and some real files: this machine's own /usr/lib/modules.")
    show(client, f"mkfs.xfs -q {disk} && mkdir -p /mnt/remote && mount {disk} /mnt/remote && "
                 "df -h /mnt/remote")
    show(client, "cp -a /usr/lib/modules/$(uname -r)/kernel/fs /mnt/remote/ && "
                 "find /mnt/remote -type f | wc -l")
    say("Unmount, mount again (nothing may come from the cache), and compare every file.")
    show(client, f"umount /mnt/remote && mount {disk} /mnt/remote && "
                 "diff -r /usr/lib/modules/$(uname -r)/kernel/fs /mnt/remote/fs && "
                 "echo every file is the same")
    show(client, "umount /mnt/remote")
    for size, amount, text in (("4k", "2m", "small"), ("128k", "16m", "large")):
        say(f"fio: {text} random writes of {size}, each read back and compared with its checksum.")
        show(client, f"fio --name=verify --filename={disk} --direct=1 --ioengine=libaio "
                     f"--thread --rw=randwrite --bs={size} --iodepth=16 --size={amount} "
                     "--verify=crc32c --verify_fatal=1 --verify_state_save=0 | "
                     "grep -E '(READ|WRITE): bw|err='")


def story(both):
    """The whole of it."""
    name = export(both)
    client = both.client
    say("On the client: the same kind of RDMA device, and the client module.")
    client.setup_rxe()
    print(f"  client# {RXE}", flush=True)
    show(client, "modprobe rnbd-client")
    say("Map the server's disk. One line written to one file; it returns when the disk is there.")
    line = f"sessname=demo path=ip:{both.server_address()} device_path={name}"
    show(client, f"echo '{line}' > {rnbd.CTL}/map_device")
    show(client, "ls /sys/class/rtrs-client/demo/paths")
    disk = "/dev/" + client.out("basename $(readlink " + f"'{rnbd.CTL}/devices/{name}@demo')")
    show(client, f"lsblk -o NAME,SIZE,TYPE {disk}")
    use(client, disk)
    say("Unmap it, and unload everything on both sides.")
    show(client, f"echo normal > /sys/block/{disk[5:]}/rnbd/unmap_device")
    show(client, "modprobe -r rnbd-client rtrs-core")
    show(both.server, "modprobe -r rnbd-server rtrs-core")
    for guest in both.guests:
        rnbd.assert_gone(guest)
        guest.sync_log()
        trouble = guest.problems()
        assert not trouble, "\n".join([f"the {guest.name}'s kernel complained:", *trouble])
    print("  nothing is left on either machine, and neither kernel has complained", flush=True)


def main():
    """Prepare, boot, tell, power off."""
    say("Two virtual machines, a server and a client, joined by one cable. "
        "Nothing is loaded on this machine.")
    host.setup()
    suite, built = prepare()
    say("Booting both (emulated, so it takes some seconds).")
    both = pair.Pair(suite).boot()
    try:
        both.on_each(lambda guest: guest.install_modules(built))
        story(both)
    finally:
        both.stop()
    say("Done. The same steps work on real machines; see README.md.")


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, host.SetupError, proc.CommandError, channel.CommandFailed,
            channel.GuestDied) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("\nStopped; the machines are off.", file=sys.stderr)
        sys.exit(130)
