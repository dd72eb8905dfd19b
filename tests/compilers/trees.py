# SPDX-License-Identifier: GPL-2.0
"""Kernel trees for other compilers and other processors than Debian's headers are for.

A kernel's configuration says what its compiler can do, so that modules cannot be built by
another one against its headers.  A tree is configured anew from the source package of a
suite's kernel, in its chroot, and prepared for modules.
"""

import re
import tempfile
import time
from dataclasses import dataclass

import roots
from vmlab import cache, host, modules, proc, rootfs, suites

TOOLS = ("xz-utils", "bison", "flex", "libssl-dev", "dwarves", "cpio", "clang", "lld", "llvm",
         "gcc-aarch64-linux-gnu")

# Nothing of this is compiled to prepare for modules.
UNPACK = r"""
set -e
mkdir linux
top=$(basename *.tar.xz .tar.xz)
tar -C linux --strip-components=1 --anchored --exclude="$top/drivers/*.[chS]" \
    --exclude="$top/sound/*.[chS]" --exclude="$top/fs/*.[chS]" --exclude="$top/net/*.[cS]" \
    --exclude="$top/arch/*.dts*" --exclude="$top/Documentation/*.*" \
    --exclude="$top/tools/testing" --exclude="$top/tools/perf" -xf *.tar.xz
rm -r *.tar.xz
cd linux
"""
# As Debian's own kernel, whose symbols and release it gets: such modules can be loaded there.
AS_DEBIANS = """
cp /boot/config-$RELEASE .config
make -s $VARIABLES olddefconfig
"""
WITH_RDMA = "scripts/config -e PCI -m INFINIBAND -e INFINIBAND_ADDR_TRANS -m BLK_DEV_NULL_BLK"
PREPARE = """
make -s -j2 $VARIABLES modules_prepare
# See configured_otherwise().
sort include/config/auto.conf >../auto.conf
sort /usr/src/linux-headers-$RELEASE/include/config/auto.conf >../auto.conf.debian
cp /usr/src/linux-headers-$RELEASE/Module.symvers .
"""
RELEASE = """
echo $RELEASE >include/config/kernel.release
echo "#define UTS_RELEASE \\"$RELEASE\\"" >include/generated/utsrelease.h
"""
# The functions of a kernel that gcc has built are traced by calls at their beginning, those of
# one that clang has built by nops.
LOADS = "CC_FLAGS_FTRACE="
# Symbols of other processors are in no table here.
NEVER_LOADED = "KBUILD_MODPOST_WARN=1"


@dataclass(frozen=True)
class Target:
    """What a tree is for.

    name: what tests call it
    variables: for make
    configure: a shell script that makes .config
    loads: modules can be loaded by Debian's kernel
    """

    name: str
    variables: str
    configure: str
    loads: bool = False


CLANG = Target("clang", "LLVM=1", AS_DEBIANS, True)
_ARM64 = f"""
make -s $VARIABLES defconfig
{WITH_RDMA} -d ARM64_4K_PAGES -e ARM64_64K_PAGES
make -s $VARIABLES olddefconfig
grep -qx CONFIG_ARM64_64K_PAGES=y .config
"""
_I386 = f"""
make -s $VARIABLES i386_defconfig
{WITH_RDMA}
make -s $VARIABLES olddefconfig
grep -qx CONFIG_X86_32=y .config
"""
OTHERS = (
    Target("arm64-64K", "ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-", _ARM64),
    Target("arm64-64K-clang", "ARCH=arm64 LLVM=1", _ARM64),
    Target("i386", "ARCH=i386", _I386),
)


def _base(suite):
    return roots.base(suite.name, TOOLS, "compilers")


def _tree(suite, target):
    """The directory with the prepared tree, linux/, and what is known about it."""
    base = _base(suite)
    apt = suites.PrivateApt(suite)
    package = f"linux-source-{suite.version}"
    version = apt.version(package)
    script = (f"VARIABLES='{target.variables}' RELEASE={base.release}\n{UNPACK}{target.configure}"
              f"{PREPARE}{RELEASE if target.loads else ''}")

    def make(directory):
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir=host.CACHE, prefix=".tree-") as scratch:
            root = base.root(scratch)
            [deb] = apt.download(root.work, f"{package}={version}")
            proc.run(["dpkg-deb", "-x", str(deb), str(root.work / "deb")])
            [tarball] = (root.work / "deb/usr/src").glob("linux-source-*.tar.xz")
            tarball.rename(root.work / tarball.name)
            root.run(script, log=directory / "prepare.log")
            for path in ("linux", "auto.conf", "auto.conf.debian"):
                (root.work / path).rename(directory / path)
        host.progress(f"{suite.name}: kernel tree for {target.name} made in "
                      f"{time.monotonic() - started:.0f} s")

    return cache.entry(f"tree_{target.name}-{suite.name}",
                       cache.digest(base.key, version, script), make)


def build(suite, target):
    """Build our modules for a target; returns modules.Modules."""
    tree = _tree(suite, target)
    base = _base(suite)
    variables = f"{target.variables} {LOADS if target.loads else NEVER_LOADED} W=1"
    key = cache.digest(tree.name, cache.tree_digest(host.ROOT, modules.NOT_SOURCE), variables)

    def make(directory):
        started = time.monotonic()
        with modules.copied(host.ROOT) as work, \
                tempfile.TemporaryDirectory(dir=host.CACHE, prefix=".tree-") as scratch:
            root = base.root(scratch)
            root.run(f"make -C /build/ours -j2 modules KDIR=/build/linux {variables}",
                     log=directory / "build.log",
                     before=f'mkdir -p "$2/root/build/linux" "$2/root/build/ours"; '
                            f'mount --bind {tree}/linux "$2/root/build/linux"; '
                            f'mount --bind {work} "$2/root/build/ours"')
            [out] = (path.parent for path in work.glob("build/*/rtrs-core.ko"))
            for name in modules.OURS:
                (out / f"{name}.ko").rename(directory / f"{name}.ko")
        if target.loads:
            modules.pack(rootfs.boot_files(rootfs.rootfs(suite)), directory)
        host.progress(f"{suite.name}: modules for {target.name} built in "
                      f"{time.monotonic() - started:.0f} s")

    return modules.found(cache.entry(f"modules_{target.name}-{suite.name}", key, make))


def configured_otherwise(suite, target):
    """The options, by name, in which a tree differs from Debian's configuration."""
    tree = _tree(suite, target)
    ours, debians = (set((tree / name).read_text().splitlines())
                     for name in ("auto.conf", "auto.conf.debian"))
    return sorted({re.sub("^CONFIG_|=.*", "", line) for line in ours ^ debians
                   if line.startswith("CONFIG_")})
