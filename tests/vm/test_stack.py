# SPDX-License-Identifier: GPL-2.0
"""What people put on a disk: partitions, volumes, encryption, swap; and their shell scripts."""

import pytest

import rnbd
from vmlab import forms

# LVM uses block drivers that it knows, and those named here.  No udev runs in a guest.
LVM = """export DM_DISABLE_UDEV=1
lvm() {
	command lvm "$@" --config 'devices { types=["rnbd",16] obtain_device_list_from_udev=0
		external_device_info_source="none" } activation { udev_sync=0 udev_rules=0 monitoring=0 }'
}
set -e
"""


@pytest.fixture(name="loaded")
def loaded_fixture(pair, modules):
    """Both sides loaded; the test unloads them and so checks for leftovers."""
    rnbd.load(pair)
    return pair


def end(pair, *names):
    """Unload and remove the server's disks; nothing may be left."""
    rnbd.unload(pair)
    for name in names:
        rnbd.remove_null_blk(pair.server, name)


def checksum(guest, disk, offset, size):
    """The checksum of a part of a disk, past all caches."""
    return guest.out(f"dd if={disk} bs=1M iflag=direct,skip_bytes,count_bytes skip={offset} "
                     f"count={size} status=none | sha256sum")


def fill(guest, disk, offset, mib):
    """Write random data past all caches; returns their checksum."""
    guest.run(f"head -c {mib}M /dev/urandom >/tmp/random && dd if=/tmp/random of={disk} bs=1M "
              f"oflag=direct,seek_bytes seek={offset} conv=notrunc status=none")
    return guest.out("sha256sum </tmp/random")


# ---- partitions

# (first sector, sectors, type) as sfdisk takes them; the third begins in the middle of a page.
PARTITIONS = [(2048, 20480, "L"), (22528, 8, "U"), (70007, 50001, "S")]


def partitions(guest, disk):
    """(first sector, sectors) of the partitions that the kernel knows of a disk."""
    name = disk[5:]
    found = sorted(guest.glob(f"/sys/block/{name}/{name}p*"))
    assert all(guest.exists(f"/dev/{path.rsplit('/', 1)[1]}") for path in found)
    return [tuple(int(guest.read(f"{path}/{file}")) for file in ("start", "size"))
            for path in found]


def test_partitions(loaded):
    """A GPT with three partitions is there after every map; the third is where it should be."""
    pair, client = loaded, loaded.client
    device = rnbd.null_blk(pair.server, "parts", 64)
    disk = rnbd.map_disk(pair, device)
    assert partitions(client, disk) == []
    lines = [f"start={start}, size={size}, type={kind}" for start, size, kind in PARTITIONS]
    client.run(f"sfdisk -q {disk}", stdin="\n".join(["label: gpt", *lines, ""]).encode())
    expected = [partition[:2] for partition in PARTITIONS]
    assert partitions(client, disk) == expected
    written = fill(client, f"{disk}p3", 1 << 20, 2)
    rnbd.unmap(pair, disk)
    assert not client.glob("/dev/rnbd*")
    disk = rnbd.map_disk(pair, device)
    assert partitions(client, disk) == expected
    assert checksum(client, f"{disk}p3", 1 << 20, 2 << 20) == written
    assert checksum(pair.server, device, 70007 * 512 + (1 << 20), 2 << 20) == written
    rnbd.fio(client, f"{disk}p3", {"bs": 4096, "rw": "randwrite", "iodepth": 16, "size": "1m"})
    assert "GPT PMBR" not in client.out(f"sfdisk -V {disk} 2>&1"), "fio wrote somewhere else"
    rnbd.unmap(pair, disk)
    end(pair, "parts")


# ---- volumes

@pytest.mark.newest
def test_volumes(loaded):
    """LVM: ext4 on a volume striped over two disks, also after another map in another order."""
    pair, client = loaded, loaded.client
    devices = [rnbd.null_blk(pair.server, name, 64) for name in ("pv0", "pv1")]
    session = rnbd.new_session()
    disks = [rnbd.map_disk(pair, device, session) for device in devices]
    client.run(LVM + f"modprobe dm_mod; lvm pvcreate -q {' '.join(disks)}\n"
               f"lvm vgcreate -q stack {' '.join(disks)}\n"
               "lvm lvcreate -q -y -i 2 -I 64k -L 96m -n data stack\n"
               "mkfs.ext4 -q /dev/stack/data; mkdir -p /mnt/lv; mount /dev/stack/data /mnt/lv\n"
               "head -c 16M /dev/urandom >/mnt/lv/file; sha256sum </mnt/lv/file >/tmp/sum\n"
               "umount /mnt/lv; lvm vgchange -q -a n stack", timeout=300)
    for disk in disks:
        rnbd.unmap(pair, disk)
    for device in reversed(devices):
        rnbd.map_disk(pair, device, session)
    client.run(LVM + "lvm vgchange -q -a y stack; e2fsck -fn /dev/stack/data\n"
               "mount /dev/stack/data /mnt/lv; sha256sum </mnt/lv/file | cmp - /tmp/sum\n"
               "umount /mnt/lv; lvm vgchange -q -a n stack", timeout=300)
    for disk in disks:
        # Half of the data is on each.
        assert int(client.get(f"/sys/block/{disk[5:]}/stat").split()[2]) > 6 << 11
        rnbd.unmap(pair, disk)
    end(pair, "pv0", "pv1")


# ---- encryption

SECRET = "what nobody but the client may read"


@pytest.mark.newest
def test_encryption(loaded):
    """LUKS: verified I/O, the data come back after another map, and the server cannot read them."""
    pair, client = loaded, loaded.client
    device = rnbd.null_blk(pair.server, "luks", 64)
    disk = rnbd.map_disk(pair, device)
    opening = "export DM_DISABLE_UDEV=1; printf key | cryptsetup -d - "
    find = f"dd if=%s bs=1M iflag=direct status=none | grep -ac '{SECRET}'"
    client.run(f"{opening} -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "
               f"luksFormat {disk} && {opening} open {disk} secret", timeout=300)
    rnbd.fio(client, "/dev/mapper/secret", {"bs": 4096, "rw": "randwrite", "iodepth": 16,
                                            "size": "2m"},
             {"bs": "128k", "rw": "write", "iodepth": 4, "size": "8m", "offset": "2m"})
    client.run(f"yes '{SECRET}' | head -c 1M | dd of=/dev/mapper/secret bs=1M seek=16 "
               "iflag=fullblock oflag=direct status=none && cryptsetup close secret")
    rnbd.unmap(pair, disk)
    disk = rnbd.map_disk(pair, device)
    client.run(f"{opening} open {disk} secret")
    lines = str((1 << 20) // (len(SECRET) + 1))
    assert client.out(find % "/dev/mapper/secret") == lines
    client.run("DM_DISABLE_UDEV=1 cryptsetup close secret")
    assert pair.server.run(find % device, check=False).out.strip() == "0"
    rnbd.unmap(pair, disk)
    end(pair, "luks")


# ---- swap

# Fills twice the memory that it may have, looks at all of it, and once more without the swap.
SWAPPER = """
import ctypes, random, sys
disk, group, limit = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
libc = ctypes.CDLL(None, use_errno=True)
def write(name, text):
    with open(f"{group}/{name}", "w") as f:
        f.write(text)
def read(name):
    with open(f"{group}/{name}") as f:
        return int(f.read())
def block(number):
    return random.Random(number).randbytes(1 << 16)
def check(blocks):
    assert all(data == block(number) for number, data in enumerate(blocks)), "wrong data"
write("memory.max", str(limit))
write("cgroup.procs", "0")
blocks = [block(number) for number in range(2 * limit >> 16)]
assert read("memory.swap.current") > limit // 2, "hardly anything was swapped out"
check(blocks)
write("memory.max", "max")
assert libc.swapoff(disk.encode()) == 0, ctypes.get_errno()
assert read("memory.swap.current") == 0
check(blocks)
"""


@pytest.mark.newest
def test_swap(loaded):
    """A process with more data than memory: all of them come back from the disk."""
    pair, client = loaded, loaded.client
    disk = rnbd.map_disk(pair, rnbd.null_blk(pair.server, "swap", 128))
    client.put("/tmp/swapper.py", SWAPPER)
    client.run(f"set -e; mkswap -q {disk}; swapon {disk}; mkdir -p /mnt/groups\n"
               "mount -t cgroup2 groups /mnt/groups; mkdir /mnt/groups/swap\n"
               "echo +memory >/mnt/groups/cgroup.subtree_control")
    limit = forms.short_or_full(12, 48)
    client.run(f"python3 /tmp/swapper.py {disk} /mnt/groups/swap {limit}", timeout=600)
    reads, _, _, _, writes, *_ = map(int, client.get(f"/sys/block/{disk[5:]}/stat").split())
    assert min(reads, writes) > 100
    client.run("rmdir /mnt/groups/swap && umount /mnt/groups")
    rnbd.unmap(pair, disk)
    end(pair, "swap")


# ---- a script of somebody else

# Maps, finds, reads, unmaps; $1: rounds, $2: the server's path, others: the server's devices.
SCRIPT = r"""
ctl=/sys/devices/virtual/rnbd-client/ctl
find_disks() {
	found=
	for file in /sys/block/rnbd*/rnbd/session; do
		[ -e "$file" ] && read -r name <"$file" && [ "$name" = "$1" ] || continue
		file=${file%/rnbd/session}
		found="$found ${file##*/}"
	done
	found=${found# }
}
rounds=$1 path=$2
shift 2
for round in $(seq "$rounds"); do
	for device in "$@"; do
		session=again$round
		echo "sessname=$session path=$path device_path=$device" >$ctl/map_device || exit
		find_disks $session
		[ -b "/dev/$found" ] || { echo "round $round: $device is '$found'"; exit 1; }
		read -r size <"/sys/block/$found/size"
		word=
		read -r -N 7 word <"/dev/$found"
		echo "$device $size $word"
		echo normal >"/sys/block/$found/rnbd/unmap_device" || exit
		[ ! -e "/sys/block/$found" ] || { echo "round $round: $found stays"; exit 1; }
		find_disks $session
		[ -z "$found" ] || exit
	done
done
"""


@pytest.mark.newest
def test_shell_script_again_and_again(loaded):
    """Map, find by session name, unmap 100 times (short: 20) with nothing but a shell and sysfs.

    Loop devices, one with a file and one without; a session with a similar name has a disk, too.
    Row D30: numbers change, session and mapping_path do not.
    """
    pair, server = loaded, loaded.server
    device = rnbd.loop(server, 8)
    server.run(f"echo 'is here' | dd of={device} conv=fsync status=none")
    empty = server.out("losetup -f")
    assert server.exists(empty) and server.read(f"/sys/block/{empty[5:]}/size") == "0"
    other = rnbd.map_disk(pair, rnbd.null_blk(server, "other", 64), session="again")
    rounds = forms.short_or_full(20, 100)
    pair.client.put("/tmp/again.sh", SCRIPT)
    result = pair.client.run(f"bash /tmp/again.sh {rounds} ip:{pair.server_address()} "
                             f"{device} {empty}", timeout=60 + 10 * rounds)
    assert not result.err
    assert result.out.splitlines() == [f"{device} {8 << 11} is here", f"{empty} 0 "] * rounds
    assert pair.client.glob("/sys/block/rnbd*") == [f"/sys/block/{other[5:]}"]
    rnbd.unmap(pair, other)
    end(pair, "other")
    rnbd.remove_loop(server, device)
