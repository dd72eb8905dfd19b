# SPDX-License-Identifier: GPL-2.0
"""The life of the Debian packages on each suite: install, upgrade, a new kernel, remove, purge."""

import re

import pytest

import packages
import roots
from life import Life
from vmlab import host

NOTES = "/usr/lib/rnbd-dkms/notes"


@pytest.fixture(name="life", scope="module")
def life_fixture(base, built, scratch):
    """Packages installed where mainline has a module of the same name."""
    root = base.root(scratch.new(), keeps=True)
    root.run(f"cd /usr/lib/modules/{base.release}/kernel/drivers/block && mkdir rnbd && "
             "for file in null_blk/null_blk.ko*; do "
             'cp "$file" "rnbd/rnbd-client.ko${file#*.ko}"; done; depmod ' + base.release)
    return Life(base, root, built)


def test_installation_builds(life):
    if life.refused:
        assert life.status() == set()
        assert len(re.findall("^rnbd: .*", life.output, re.M)) == 3, life.output
        return
    assert life.status() == {(packages.VERSION, each) for each in life.base.kernels}, life.output
    assert life.modinfo("version", life.base.release) == [packages.VERSION] * 5
    assert "Secure Boot" not in life.output and "stay loaded" not in life.output


def test_ours_win_over_the_kernels_own(life):
    if life.refused:
        pytest.skip("not built for this kernel")
    paths = life.modinfo("-n", life.base.release)
    assert len(paths) == 5 and all("/updates/" in path for path in paths), paths


def test_nothing_is_loaded_by_itself(life):
    """No package has anything below modules-load.d, udev or systemd."""
    listed = life.root.run("dpkg -L rnbd-dkms rnbd-tools")[1].split()
    assert "/etc/modprobe.d/rnbd.conf" in listed
    assert not [path for path in listed if re.search("modules-load|udev|systemd", path)]
    assert life.root.run("modprobe --dry-run --showconfig | grep -c '^options r[nt]'",
                         check=False)[1].strip() == "0"


def test_upgrade_replaces_and_tells(life, newer):
    """Modules that are loaded stay, and one is told so; Secure Boot is mentioned if it is on."""
    life.root.write("/sys/module/rtrs_core/version", f"{packages.VERSION}\n")
    life.root.write("/sys/module/rnbd_client/refcnt", "0\n")
    life.root.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61", "\6\0\0\0\1")
    [name] = life.root.give(packages.deb(newer, "rnbd-dkms"))
    output = life.root.run(f"{roots.APT} install ./{name}")[1]
    life.root.write("/var/lib/dkms/mok.pub", "")
    with_key = life.root.run(NOTES)[1]
    life.root.write("/etc/dkms/framework.conf.d/own.conf", 'mok_certificate="/etc/own.der"\n')
    life.root.write("/etc/own.der", "")
    with_own_key = life.root.run(NOTES)[1]
    for path in ("/sys/module", "/sys/firmware", "/var/lib/dkms/mok.pub",
                 "/etc/dkms/framework.conf.d/own.conf", "/etc/own.der"):
        life.root.remove(path)
    assert life.status() == {(packages.NEWER, each) for each in life.base.kernels}, output
    told = [line for line in output.splitlines() if "stay loaded until" in line]
    assert len(told) == 1 and f"rtrs_core ({packages.VERSION})" in told[0]
    assert "rnbd_client (the kernel's own)" in told[0]
    told = [line for line in output.splitlines() if "Secure Boot is on" in line]
    # There is no openssl: nothing was signed.
    assert len(told) == 1 and "openssl" in told[0] and "mokutil" not in told[0]
    assert "mokutil --import /var/lib/dkms/mok.pub" in with_key and "stay loaded" not in with_key
    assert "mokutil --import /etc/own.der" in with_own_key
    sources = life.root.run("ls /usr/src")[1].split()
    assert [name for name in sources if "rnbd" in name] == [f"rnbd-{packages.NEWER}"]


def test_removal_leaves_no_module(life):
    life.root.run(f"{roots.APT} remove rnbd-dkms rnbd-tools")
    left = life.root.run("find /usr/src /usr/lib/modules /var/lib/dkms -name '*rnbd*' -o "
                         "-name '*rtrs*' -o -name original_module")[1].split()
    assert {path for path in left if "/kernel/" not in path} == set(), left


def test_purge_leaves_nothing(life):
    life.root.run(f"{roots.APT} purge rnbd-dkms rnbd-tools")
    assert not roots.changes(life.before, life.root.files())


@pytest.mark.full
def test_a_new_kernel_gets_modules(base, built, scratch):
    """From dkms's own hook, when image and headers of another kernel are installed."""
    release, debs = roots.another_kernel(base)
    life = Life(base, base.root(scratch.new(), keeps=True), built)
    names = life.root.give(*debs)
    output = life.root.run(f"{roots.APT} install " + " ".join(f"./{each}" for each in names))[1]
    if not roots.supported(release):
        assert life.status() == set()
        return
    expected = {(packages.VERSION, kernel) for kernel in (*base.kernels, release)}
    assert life.status() == expected, output
    assert life.modinfo("version", release) == [packages.VERSION] * 5


@pytest.mark.full
def test_initramfs_has_the_client_when_asked(base, built, scratch):
    """With the line that the README names, and not before; a kernel without modules is named."""
    if not roots.supported(base.release):
        pytest.skip("not built for this kernel")
    life = Life(base, base.root(scratch.new(), keeps=True), built)
    make = f"mkinitramfs -o /build/initrd {base.release}"
    count = (r"lsinitramfs /build/initrd | "
             r"grep -c '/\(rnbd-client\.ko\|rtrs-core\.ko\|rdma_rxe\.ko\|rdma$\)'")
    assert life.root.run(f"{make}; {count}", check=False)[1].split()[-1] == "0"
    life.root.write("/etc/initramfs-tools/conf.d/rnbd", "RNBD=yes\n")
    output = life.root.run(f"{make} && {count}")[1]
    assert output.split()[-1] == "4" and "W: rnbd" not in output, output
    output = life.root.run(f"dkms remove rnbd/{packages.VERSION} --all && {make}")[1]
    assert f"W: rnbd: RNBD=yes, but kernel {base.release} has no rnbd-client" in output, output


@pytest.mark.full
def test_dracut_takes_the_client_when_asked(built, scratch):
    """The same for the module that the rpm brings, with Debian 12's dracut.

    Without --hostonly there would be every driver of every disk.
    """
    base = roots.base("bookworm", (*roots.DKMS, "dracut-core"), "dracut")
    life = Life(base, base.root(scratch.new(), keeps=True), built)
    life.root.give(host.ROOT / "tools/dracut/95rnbd/module-setup.sh")
    life.root.run("install -D -t /usr/lib/dracut/modules.d/95rnbd module-setup.sh")
    command = (f"dracut -q --hostonly --force /build/initrd {base.release} && "
               r"lsinitrd /build/initrd | grep -c '/\(rnbd-client\|rtrs-core\|rdma_rxe\)\.ko'")
    assert life.root.run(command, check=False)[1].split()[-1] == "0"
    life.root.write("/etc/dracut.conf.d/rnbd.conf", 'add_dracutmodules+=" rnbd "\n')
    assert life.root.run(command)[1].split()[-1] == "3"
