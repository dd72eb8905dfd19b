# SPDX-License-Identifier: GPL-2.0
"""A suite's root file system, and what a guest boots from: kernel, initrd, disk image."""

import gzip
import lzma
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from . import cache, debug_kernel, host, proc, suites

# Kept out of the root file system: nothing here reads them.
EXCLUDED = [
    "/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
    *(f"{lib}/modules/*/kernel/{part}/*" for lib in ("/lib", "/usr/lib") for part in
      ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/staging",
       "drivers/iio", "drivers/usb", "drivers/hid", "drivers/isdn", "drivers/comedi")),
]

# /bin, /lib and so on are links into /usr; old suites leave that to whoever installs them.
MERGE_USR = """
for directory in bin sbin lib lib32 lib64 libx32; do
    mkdir -p "$1/usr/$directory" && ln -s "usr/$directory" "$1/$directory"
done
"""
UNMERGED = {"bullseye"}

# In the chroot for builds, but not in the guests' image.
BUILD_ONLY = [
    "usr/src", "usr/include", "usr/lib/gcc", "usr/libexec/gcc", "usr/share/gcc",
    "usr/bin/*gcc*", "usr/bin/*-linux-gnu-*", "usr/bin/sparse", "usr/bin/*lto-dump*",
    "usr/lib/x86_64-linux-gnu/*.a", "var/lib/apt/lists", "var/cache", "var/lib/dpkg/info",
    "boot",
]

# Directories of kernel/drivers that guests can have a use for.
GUEST_DRIVERS = {
    "acpi", "base", "block", "char", "crypto", "dax", "firmware", "infiniband", "md", "net",
    "nvdimm", "nvme", "pps", "ptp", "scsi", "target", "vhost", "virtio",
}
GUEST_NOT = ["sound", "drivers/infiniband/hw", "drivers/net/ethernet", "drivers/net/wireless",
             "drivers/net/usb", "drivers/net/can", "net/bluetooth", "net/mac80211"]

# What every guest loads, whatever it is for; loading them from the initrd is fastest.
INITRD_MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "crc32c_intel", "ext4",
                  "virtio_console", "virtio_net", "virtio_rng", "configfs"]

# Our programs in the initrd
GUEST_FILES = [host.VM_DIR / "guest" / name for name in ("initrd-init", "init", "agent.py")]

FREE_SPACE = 3 << 30


@dataclass(frozen=True)
class RootFs:
    """The chroot of a suite: `root` is its directory."""

    suite: suites.Suite
    release: str
    key: str
    root: Path
    manifest: Path


@dataclass(frozen=True)
class BootFiles:
    """What QEMU boots a guest from; `modules` is the guest's /lib/modules/<release>."""

    suite: suites.Suite
    release: str
    kernel: Path
    initrd: Path
    disk: Path
    modules: Path


def rootfs(suite):
    """The root file system of a suite, made if the cache has none that is current."""
    resolved = suite.resolve()
    key = cache.digest(*resolved.packages, *resolved.versions, *EXCLUDED,
                       *([debug_kernel.CONFIG.read_text()] if suite.built else []))
    make = _extend_rootfs if suite.base else _make_rootfs
    path = cache.entry(f"rootfs-{suite.name}", key, lambda tmp: make(resolved, tmp))
    return RootFs(suite, resolved.release, key, path / "root", path / "manifest")


def _make_rootfs(resolved, directory):
    suite = resolved.suite
    started = time.monotonic()
    host.progress(f"{suite.name}: making the root file system with kernel {resolved.release}")
    command = [
        *proc.SANDBOX, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=apt",
        "--format=directory", "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED),
        *([f"--setup-hook={MERGE_USR}"] if suite.name in UNMERGED else []),
        '--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"',
        "--include=" + ",".join(resolved.packages), suite.name, str(directory / "root"),
        *suite.sources()]
    # INITRD=No: no initramfs is made for a kernel that never uses it.
    env = dict(os.environ, INITRD="No", LC_ALL="C.UTF-8")
    proc.run(command, log=directory / "mmdebstrap.log", env=env)
    (directory / "root/build").mkdir()
    _finish_rootfs(resolved, directory, started)


def _extend_rootfs(resolved, directory):
    """Add a kernel and what it needs to a copy of another suite's root file system."""
    suite = resolved.suite
    base = rootfs(suite.base)
    started = time.monotonic()
    host.progress(f"{suite.name}: adding kernel {resolved.release} to {suite.base.name}")
    # Hard links cost nothing, and dpkg replaces files, it does not write into them.
    proc.run(["cp", "-al", str(base.root), str(directory / "root")])
    apt = suites.PrivateApt(suite)
    missing = apt.closure(resolved.packages, base.root / "var/lib/dpkg/status")
    with tempfile.TemporaryDirectory(dir=host.CACHE, prefix=".packages-") as packages:
        apt.download(packages, *(each.replace(" ", "=") for each in missing))
        proc.run_in_chroot(directory / "root", packages, "export INITRD=No "
                           "DEBIAN_FRONTEND=noninteractive; apt-get -qy install ./*.deb",
                           log=directory / "apt.log")
    if suite.built:
        source = resolved.versions[0].replace(" ", "=")
        debug_kernel.build(apt, source, directory / "root", resolved.release)
    _finish_rootfs(resolved, directory, started)


def _finish_rootfs(resolved, directory, started):
    suite = resolved.suite
    shown = proc.run(["chroot", directory / "root", "dpkg-query", "-W"])[1]
    (directory / "manifest").write_text(
        "\n".join([*suite.sources(), "kernel " + resolved.release, shown]))
    host.progress(f"{suite.name}: root file system made in {time.monotonic() - started:.0f} s")


def boot_files(fs):
    """Kernel, initrd and disk image of a suite, made if the cache has none."""
    key = cache.digest(fs.key, *BUILD_ONLY, *sorted(GUEST_DRIVERS), *GUEST_NOT, FREE_SPACE)
    image = cache.entry(f"image-{fs.suite.name}", key, lambda tmp: _make_image(fs, tmp))
    key = cache.digest(fs.key, Path(__file__).read_bytes(),
                       *(path.read_bytes() for path in GUEST_FILES))
    initrd = cache.entry(f"initrd-{fs.suite.name}", key,
                         lambda tmp: make_initrd(fs.root / "lib/modules" / fs.release, tmp))
    return BootFiles(fs.suite, fs.release, image / "vmlinuz", initrd / "initrd.img", image / "root.img",
                     image / "modules")


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _thin_out(staging, release):
    """Remove what guests do not need, and make the module lists anew."""
    kernel = staging / "lib/modules" / release / "kernel"
    unwanted = [path for pattern in BUILD_ONLY for path in staging.glob(pattern)]
    unwanted += [path for path in kernel.parents[1].iterdir() if path.name != release]
    unwanted += [kernel / name for name in GUEST_NOT]
    unwanted += [path for path in (kernel / "drivers").iterdir()
                 if path.name not in GUEST_DRIVERS]
    for path in unwanted:
        _remove(path)
    # depmod writes new files and renames them, so the root file system's own stay as they are.
    proc.run(["depmod", "-b", str(staging), release])


def _make_image(fs, directory):
    host.progress(f"{fs.suite.name}: making the guests' disk image")
    staging = directory / "staging"
    # Hard links cost nothing; the copy can then be thinned out.
    proc.run(["cp", "-al", str(fs.root), str(staging)])
    _thin_out(staging, fs.release)
    proc.run(["cp", "-al", str(staging / "lib/modules" / fs.release), str(directory / "modules")])
    for name in ("proc", "sys", "dev", "run", "tmp", "mnt", "boot"):
        (staging / name).mkdir(exist_ok=True)
    used = int(proc.run(["du", "-sk", str(staging)])[1].split()[0]) << 10
    image = directory / "root.img"
    with open(image, "wb") as handle:
        handle.truncate(used + used // 8 + FREE_SPACE)
    proc.run(["mke2fs", "-q", "-t", "ext4", "-d", str(staging), "-m", "0",
              "-E", "lazy_itable_init=1,lazy_journal_init=1", str(image)])
    shutil.rmtree(staging)
    shutil.copy(fs.root / "boot" / f"vmlinuz-{fs.release}", directory / "vmlinuz")


def _module_order(modules_dir, wanted):
    """Files of the wanted modules, each after those it depends on; built-in ones left out."""
    depends = {}
    for line in (modules_dir / "modules.dep").read_text().splitlines():
        path, needs = line.split(":")
        depends[Path(path).name.split(".")[0].replace("-", "_")] = (path, needs.split())
    order = []
    for name in wanted:
        if name in depends:
            path, needs = depends[name]
            order += [each for each in [*reversed(needs), path] if each not in order]
    return order


def make_initrd(modules_dir, directory):
    """Make initrd.img in a directory: busybox, modules for the root disk, our own programs.

    modules_dir: the /lib/modules/<release> of the root disk
    """
    tree = directory / "tree"
    for name in ("bin", "modules", "guest", "proc", "sys", "dev", "root"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/sh")
    # Busybox finds the rest of its commands by itself while /proc is mounted.
    for name in ("mount", "cp", "switch_root"):
        (tree / "bin" / name).symlink_to("sh")
    names = []
    for number, path in enumerate(_module_order(modules_dir, INITRD_MODULES)):
        data = (modules_dir / path).read_bytes()
        if path.endswith(".xz"):
            data = lzma.decompress(data)
        names.append(f"{number:02d}-" + Path(path).name.split(".")[0] + ".ko")
        (tree / "modules" / names[-1]).write_bytes(data)
    for path in GUEST_FILES:
        target = tree / ("init" if path.name == "initrd-init" else f"guest/{path.name}")
        shutil.copy(path, target)
        target.chmod(0o755)
    archive = directory / "cpio"
    proc.run(["sh", "-c", 'cd "$1" && find . | cpio -o -H newc --quiet > "$2"', "sh",
              str(tree), str(archive)])
    (directory / "initrd.img").write_bytes(gzip.compress(archive.read_bytes(), 1))
    archive.unlink()
    shutil.rmtree(tree)
