# SPDX-License-Identifier: GPL-2.0
"""The administrator's guide, word for word: its blocks of commands are run as they stand there.

Each test names all blocks of its section in their order: who runs them, or why nobody does. A block
more or less in the guide fails the test.
"""

import contextlib
import errno
import os
import re

import pytest

import multipath
import rnbd
from vmlab import host

pytestmark = pytest.mark.newest

GUIDE = (host.ROOT / "docs/administrators-guide.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\d+)\. .*?\n(.*?)(?=^## )", GUIDE, re.M | re.S))


def blocks(number):
    """What a section has in indented and fenced blocks."""
    found, block, fence = [], [], None
    for line in [*SECTIONS[str(number)].splitlines(), "end"]:
        mark = re.match(r" *```", line)
        if mark:
            fence = None if fence is not None else len(mark[0]) - 3
        elif fence is not None or re.match(" {4}", line):
            block.append(line[fence or 0:])
            continue
        if block and (mark or line):
            found.append("\n".join(block).rstrip())
            block = []
    return found


class Section:
    """A section of the guide whose blocks are followed one after the other."""

    def __init__(self, number):
        self.number = number
        self.left = blocks(number)

    def take(self, word):
        """The next block, which contains this word."""
        assert self.left, f"section {self.number} has no block more; {word!r} is missing"
        block = self.left.pop(0)
        assert word in block, f"section {self.number}: {word!r} is not in this block:\n{block}"
        return block

    def follow(self, guest, word, *comments, lines=None, stdin=b""):
        """Run the next block, or some lines of it; returns what it prints.

        The comments are what the guide says that one sees; ... in them stands for anything.
        """
        block = self.take(word)
        chosen = [line for line in block.splitlines() if not lines or lines in line]
        output = guest.run("set -e; cd /\n" + "\n".join(chosen), timeout=300, stdin=stdin).out
        for comment in comments:
            assert re.search(rf"# .*{re.escape(comment)}", block), f"not said there: {comment}"
            pattern = ".*".join(map(re.escape, re.split(r" ?\.\.\. ?", comment)))
            assert re.search(pattern, output, re.S), f"not {comment!r} but: {output}"
        return output

    def inline(self, guest, command):
        """Run a command that is in the text of the section."""
        assert f"`{command}`" in SECTIONS[str(self.number)], command
        return guest.run(command, timeout=300).out

    def end(self):
        """Nothing is left."""
        assert not self.left, f"section {self.number}: nobody follows this:\n{self.left[0]}"


@contextlib.contextmanager
def installed(pair):
    """Both machines as the guide expects them: udev with its rules, LVM, soft-RoCE."""
    rules = next(block for block in blocks(2) if "LABEL=" in block)
    pair.client.put("/etc/udev/rules.d/61-rnbd.rules", rules + "\n")
    pair.on_each(lambda guest: guest.run(
        "/usr/lib/systemd/systemd-udevd --daemon 2>/dev/null; udevadm trigger; udevadm settle",
        timeout=300))
    try:
        pair.setup_rxe()
        yield
    finally:
        for guest in pair.guests:
            if guest.alive:
                guest.run("udevadm control --exit; rm -f /etc/udev/rules.d/61-rnbd.rules "
                          "/etc/lvm/lvmlocal.conf /etc/modprobe.d/rnbd.conf; rm -rf /run/udev")


def volumes(guest, **sizes):
    """The volume group vg0 with such volumes, in a sparse file."""
    guest.run("set -e; modprobe loop; f=$(mktemp /var/tmp/loop.XXXXXX); truncate -s 64G $f\n"
              "d=$(losetup -f --show $f); rm $f; pvcreate -q $d; vgcreate -q vg0 $d\n"
              + "".join(f"lvcreate -q -y -Wn -L {size} -n {name} vg0\n"
                        for name, size in sizes.items()) + "udevadm settle", timeout=300)


def no_volumes(guest):
    """Undo volumes()."""
    guest.run("set -e; d=$(pvs --noheadings -o pv_name -S vg_name=vg0); udevadm settle\n"
              "vgremove -q -y vg0; pvremove -q $d; udevadm settle; losetup -d $d", timeout=300)


def unmap_all(pair):
    """Unmap what is mapped, once udev is through with it."""
    for path in pair.client.glob("/sys/block/rnbd*"):
        pair.client.wait_for(f"echo normal >{path}/rnbd/unmap_device", 30)


def end(pair):
    """Unmap, unload, nothing is left."""
    unmap_all(pair)
    rnbd.unload(pair)


def test_map_and_resize(pair, modules):
    """Sections 1 and 4."""
    server, client = pair.server, pair.client
    with installed(pair):
        volumes(server, vm1="10G", vm2="1G")
        mapping, resizing = Section(1), Section(4)
        mapping.follow(server, "modprobe rnbd-server")
        mapping.follow(client, "device_path=vm1")
        said = mapping.follow(client, "mkfs.xfs", ".../block/rnbd0")
        assert "state:open" in said and "session:host1@srv1" in said
        assert "mapped as rnbd0, rw, 20971520 sectors" in SECTIONS["1"]
        client.sync_log()
        assert client.log.wait_for("vm1@host1@srv1: mapped as rnbd0, rw, 20971520 sectors", 0, 30)
        client.run("umount /mnt && mkdir -p /srv/data && mount /dev/rnbd0 /srv/data")
        resizing.follow(server, "lvextend", "41943040")
        resizing.follow(client, "resize", "20G")
        resizing.follow(client, "resize2fs", lines="xfs_growfs")
        assert int(client.out("df --output=size -B 1G /srv/data | tail -1")) >= 19
        resizing.end()
        client.run("umount /srv/data && mount /dev/rnbd0 /mnt")
        mapping.follow(client, "device_path=vm2")
        client.run("udevadm settle")
        assert client.readlink("/dev/rnbd/host1@srv1/vm2").endswith("/rnbd1")
        mapping.follow(client, "umount /mnt")
        mapping.end()
        assert not client.exists("/sys/block/rnbd0") and client.exists("/sys/block/rnbd1")
        end(pair)
        no_volumes(server)


def test_several_paths_and_statistics(pair, modules):
    """Sections 3 and 9; the third network is on the first card."""
    server, client = pair.server, pair.client
    with installed(pair):
        volumes(server, vm1="1G")
        for guest, number in zip(pair.guests, (1, 2)):
            guest.run(f"ip addr add 192.168.72.{number}/24 dev eth0; "
                      f"ip addr add 192.168.73.{number}/24 dev eth0")
        server.run("modprobe rnbd-server dev_search_path=/dev/vg0")
        client.run("modprobe rnbd-client")
        paths, statistics = Section(3), Section(9)
        paths.follow(client, "path=ip:192.168.72.2@ip:192.168.72.1")
        client.wait_for("! grep -q disconnected /sys/class/rtrs-client/*/paths/*/state", 60)
        paths.follow(client, "cd /sys",
                     "paths/ip:192.168.71.2@ip:192.168.71.1/state:connected ...")
        directory = "cd /sys/class/rtrs-client/host1@srv1 && set -e\n"
        for line in paths.take("add_path").splitlines():
            client.run(directory + line)
            states = client.out(directory + "grep . paths/*/state")
            if "/disconnect" in line:
                assert states.count(":disconnected") == 1 and states.count(":connected") == 2
            elif "/remove_path" in line:
                assert states.count(":connected") == 2 and ":disconnected" not in states
            else:
                assert states.count(":connected") == 3
        client.run(directory + paths.take("mpath_policy"))
        with multipath.verified_io(client, "/dev/rnbd0", size_mib=4):
            said = client.out(directory + "\n".join(
                line for line in paths.take("dmesg -w").splitlines() if "dmesg" not in line))
            assert said.count("/stats/rdma:") == said.count("/stats/reconnects:0 0") == 2
            watched = client.run("TERM=vt100 COLUMNS=200 LINES=50 timeout 5 " + statistics.take("watch").strip(),
                                 check=False)
            assert "/state:connected" in watched.out and "No such" not in watched.out
        statistics.end()
        for line in paths.take("modprobe.d").splitlines():
            (client if line.endswith("# client") else server).run(line)
        paths.end()
        end(pair)
        rnbd.load(pair)
        assert {guest.read(f"/sys/module/rtrs_{guest.name}/parameters/heartbeat_interval_ms")
                for guest in pair.guests} == {"1000"}
        for guest in pair.guests:
            guest.run("ip addr flush dev eth0 to 192.168.72.0/24; "
                      "ip addr flush dev eth0 to 192.168.73.0/24")
        end(pair)
        no_volumes(server)


def test_move(pair, modules):
    """Section 5; the new host is the server's own machine, and nobody migrates anything."""
    server, client = pair.server, pair.client
    with installed(pair):
        volumes(server, vm1="1G")
        server.run("modprobe rnbd-server dev_search_path=/dev/vg0; modprobe rnbd-client")
        client.run("modprobe rnbd-client")
        client.write(f"{rnbd.CTL}/map_device", rnbd.map_line(pair, "host1@srv1", "vm1"))
        moving = Section(5)
        moving.follow(server, "access_mode=migration")
        said = moving.follow(server, "grep .")
        assert sorted(re.findall(r"access_mode:(\w+)", said)) == ["migration", "rw"]
        moving.follow(server, "ln -sfn")
        moving.take("virsh migrate")
        client.run("udevadm settle")
        moving.follow(client, "unmap_device")
        moving.end()
        server.run("udevadm settle; echo normal >/sys/block/rnbd0/rnbd/unmap_device; "
                   "rm -r /dev/vmdisks")
        end(pair)
        no_volumes(server)


@pytest.mark.full
def test_mirror(pair, modules):
    """Section 6; the second server is the client's own machine."""
    client = pair.client
    with installed(pair):
        client.run("ip addr add 192.168.71.5/24 dev eth0")
        for guest in pair.guests:
            volumes(guest, vm1="64M")
            guest.run("modprobe rnbd-server dev_search_path=/dev/vg0")
        client.run("modprobe rnbd-client")
        mirror = Section(6)
        mirror.follow(client, "path=ip:192.168.71.5")
        mirror.follow(client, "io_timeout")
        mirror.follow(client, "mdadm --create", stdin=b"y\n")
        client.run("mdadm --wait /dev/md0; mkfs.ext4 -q /dev/md0 && mkdir -p /mnt/md && "
                   "mount /dev/md0 /mnt/md", timeout=300)
        client.run("modprobe -r rnbd-server && echo word >/mnt/md/file && sync")
        mirror.follow(client, "mdstat", "rnbd1[1](W)(F) ... [2/1] [U_]")
        client.run("modprobe rnbd-server dev_search_path=/dev/vg0")
        client.wait_for("grep -q open /sys/block/rnbd1/rnbd/state", 60)
        mirror.follow(client, "--re-add")
        mirror.take("UUID=...")  # needs systemd
        mirror.end()
        client.run("mdadm --wait /dev/md0; grep '[[]UU[]]' /proc/mdstat")
        client.run("umount /mnt/md; udevadm settle")
        mirror.inline(client, "mdadm --stop /dev/md0")
        unmap_all(pair)
        rnbd.unload(pair)
        client.run("ip addr del 192.168.71.5/24 dev eth0")
        pair.on_each(no_volumes)


def test_lvm_and_maintenance(pair, modules):
    """Sections 7 and 8: a filesystem on LVM lives through a restart of the server's modules."""
    server, client = pair.server, pair.client
    with installed(pair):
        volumes(server, vm1="12G")
        lvm, maintenance = Section(7), Section(8)
        persistent = next(block for block in blocks(2) if "options rnbd-server" in block)
        server.run("\n".join(line for line in persistent.splitlines() if "modprobe.d" in line))
        maintenance.inline(server, "modprobe rnbd-server")
        client.run("modprobe rnbd-client")
        client.write(f"{rnbd.CTL}/map_device", rnbd.map_line(pair, "host1@srv1", "vm1"))
        client.put("/etc/lvm/lvmlocal.conf", lvm.take("types") + "\n")
        lvm.follow(client, "pvcreate")
        lvm.take("/dev/vgdata/db /srv/db")  # needs systemd
        client.run("mkfs.ext4 -q /dev/vgdata/db && mkdir -p /mnt/db && "
                   "mount /dev/vgdata/db /mnt/db", timeout=300)
        said = maintenance.follow(server, "ls -d")
        assert said.strip().endswith("/sessions/host1@srv1")
        maintenance.inline(
            client, "for f in /sys/block/rnbd*/rnbd/fast_io_fail_tmo; do echo 600 > $f; done")
        writer = client.start_job(
            "until [ -e /tmp/enough ]; do dd if=/dev/urandom of=/mnt/db/file bs=64k count=4 "
            "oflag=direct conv=fsync status=none || exit; done", 600)
        client.wait_for("test -s /mnt/db/file", 60)
        maintenance.follow(server, "modprobe -r")
        client.wait_for("grep -q closed /sys/block/rnbd0/rnbd/state", 60)
        maintenance.inline(server, "modprobe rnbd-server")
        # It may be connected already, or an attempt under way.
        client.run(maintenance.take("reconnect"), check=False)
        client.wait_for(
            lambda: maintenance.inline(client, "cat /sys/block/rnbd*/rnbd/state") == "open\n", 60)
        client.run("touch /tmp/enough")
        writer.wait(120)
        maintenance.end()
        known = client.read("/etc/lvm/lvmlocal.conf")
        for line in lvm.take("global_filter").splitlines():
            client.put("/etc/lvm/lvmlocal.conf", known.replace(" }", f"\n{line}\n}}\n"))
            assert ("vgdata" in client.out("vgs")) == ("rnbd" not in line)
        lvm.end()
        client.put("/etc/lvm/lvmlocal.conf", known)
        client.run("umount /mnt/db")
        lvm.inline(client, "vgchange -an vgdata")
        end(pair)
        no_volumes(server)


def test_errors():
    """Section 10: the words for each error are those that a shell prints."""
    rows = re.findall(r"^ +\| (E[A-Z, ]+?) \| (.+?) \|", SECTIONS["10"], re.M)
    assert len(rows) > 20
    for names, words in rows:
        known = [os.strerror(getattr(errno, name)) for name in names.split(", ")]
        assert ", ".join(known) == words, names


def test_failed_map(pair, modules):
    """Section 10: what the layers below say."""
    client = pair.client
    with installed(pair):
        pair.on_each(lambda guest: guest.run(f"modprobe rnbd-{guest.name}"))
        failing = Section(10)
        failing.follow(client, "dynamic_debug")
        tracing = failing.take("trace_pipe").splitlines()
        client.run("set -e\n" + "\n".join(line for line in tracing if "trace_pipe" not in line))
        line = rnbd.map_line(pair, "host1@srv1", "vm1", dest_port=1235)
        with pytest.raises(ConnectionRefusedError):
            client.write(f"{rnbd.CTL}/map_device", line)
        said = client.run("cd /sys/kernel/tracing; timeout 2 " + tracing[-1].strip(),
                          check=False).out
        assert "session host1@srv1" in said and "attempt 1: -111" in said
        assert "nobody listens on port 1235" in failing.inline(
            client, "dmesg | grep -E 'rnbd|rtrs'")
        failing.follow(client, "rdma link delete")
        failing.end()
        client.run("echo 0 >/sys/kernel/tracing/events/enable; echo >/sys/kernel/tracing/trace; "
                   "echo 'module rdma_cm -p; module ib_cm -p; module rdma_rxe -p' "
                   ">/sys/kernel/debug/dynamic_debug/control")
        rnbd.unload(pair)
