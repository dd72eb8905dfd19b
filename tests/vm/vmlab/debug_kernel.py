# SPDX-License-Identifier: GPL-2.0
"""A kernel with KASAN, lockdep and their like, built from a suite's source package.

Distributions ship none.  It has what the guests need and no more, which makes it
25 minutes of processor time; everything in it runs five to eight times slower.
"""

import re
import tempfile
import time
from pathlib import Path

from . import host, proc

CONFIG = Path(__file__).with_name("debug.config")
# What building it takes, besides what every chroot has
PACKAGES = ("bison", "cpio", "flex", "libssl-dev", "openssl", "rsync")
SUFFIX = "-rnbd-debug"

# The tiny configuration, ours on top; a word of ours that the kernel does not know is an error.
BUILD = """
set -e
cd source
make -s tinyconfig
scripts/kconfig/merge_config.sh -m .config ../debug.config
make -s olddefconfig
for line in $(grep '^CONFIG.*=[^n]' ../debug.config); do
    grep -qxF "$line" .config || { echo "not so in this kernel: $line"; exit 1; }
done
make -s -j2 bzImage modules
release=$(make -s kernelrelease)
make -s modules_install
cp arch/x86/boot/bzImage /boot/vmlinuz-$release
make -s run-command \
    KBUILD_RUN_COMMAND='$(srctree)/scripts/package/install-extmod-build /usr/src/linux-'$release
mkdir -p /usr/src/linux-$release/certs
cp certs/signing_key.* /usr/src/linux-$release/certs
ln -sfn /usr/src/linux-$release /lib/modules/$release/build
test $release = "$RELEASE"
"""


def release(version):
    """What uname -r prints for the kernel of a source package of this version."""
    return version.split("-")[0] + SUFFIX


def sign(root, wanted, directory):
    """Sign the modules in a directory with the key that this kernel trusts.

    root: the chroot that it was built in
    """
    proc.run_in_chroot(root, directory, f"""
        cd /usr/src/linux-{wanted}
        for module in /build/*.ko; do
            scripts/sign-file sha256 certs/signing_key.pem certs/signing_key.x509 $module || exit 1
        done""")


def build(apt, package, root, wanted):
    """Build it in the chroot `root`, from a source package, and install it there."""
    started = time.monotonic()
    host.progress(f"building {wanted}, which takes a while")
    with tempfile.TemporaryDirectory(dir=host.CACHE, prefix=".kernel-") as work:
        [deb] = apt.download(work, package)
        proc.run(["dpkg-deb", "-x", str(deb), f"{work}/deb"])
        [tarball] = Path(work).glob("deb/usr/src/linux-source-*.tar.xz")
        Path(work, "source").mkdir()
        proc.run(["tar", "-C", f"{work}/source", "--strip-components=1", "-xf", str(tarball)])
        text = re.sub(r"^#.*\n", "", CONFIG.read_text(), flags=re.M)
        Path(work, "debug.config").write_text(f'CONFIG_LOCALVERSION="{SUFFIX}"\n{text}')
        proc.run_in_chroot(root, work, f"RELEASE={wanted}\n{BUILD}", log=root.parent / "kernel.log")
    host.progress(f"{wanted} built in {time.monotonic() - started:.0f} s")
