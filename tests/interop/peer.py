# SPDX-License-Identifier: GPL-2.0
"""Mainline's modules of the same kernel, as black boxes to talk to.

They are built from the distribution's linux-source package and live in a
directory of their own in a guest, so that `modprobe` never finds them.
"""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from vmlab import cache, host, modules, proc, rootfs

GUEST_DIR = "/opt/mainline"
ROLES = {"client": ("rtrs-core", "rtrs-client", "rnbd-client"),
         "server": ("rtrs-core", "rtrs-server", "rnbd-server")}
# What insmod, unlike modprobe, does not load by itself.
NEEDS = ("rdma_cm", "ib_cm", "ib_core")

BUILD = f"""
set -e
K=/lib/modules/$KVER/build
make -j2 -C $K M=/build/{modules.TRANSPORT} modules \
    CONFIG_INFINIBAND_RTRS=m CONFIG_INFINIBAND_RTRS_CLIENT=m CONFIG_INFINIBAND_RTRS_SERVER=m
make -j2 -C $K M=/build/{modules.BLOCK} modules \
    CONFIG_BLK_DEV_RNBD=y CONFIG_BLK_DEV_RNBD_CLIENT=m CONFIG_BLK_DEV_RNBD_SERVER=m \
    KBUILD_EXTRA_SYMBOLS=/build/{modules.TRANSPORT}/Module.symvers KCFLAGS=-I/build/{modules.TRANSPORT}
"""


@dataclass(frozen=True)
class Mainline:
    """Mainline's built modules: a directory of .ko files."""

    directory: Path

    def install(self, guest):
        """Copy them into a guest."""
        if not guest.exists(GUEST_DIR):
            for path in self.directory.glob("*.ko"):
                guest.put(f"{GUEST_DIR}/{path.name}", path)

    def load(self, guest, role, **parameters):
        """Load the "client" or "server" modules.

        Parameters are named module__parameter, for example rtrs_server__always_invalidate="N".
        """
        commands = ["set -e", "modprobe -a " + " ".join(NEEDS)]
        for name in ROLES[role]:
            prefix = name.replace("-", "_") + "__"
            options = " ".join(f"{key[len(prefix):]}={value}" for key, value in
                               parameters.items() if key.startswith(prefix))
            commands.append(f"insmod {GUEST_DIR}/{name}.ko {options}")
        guest.run("\n".join(commands))

    def unload(self, guest, role):
        """Unload them; fails if one is still in use."""
        guest.run("rmmod " + " ".join(reversed(ROLES[role])))


def build(suite):
    """Build them for a suite's kernel, unless the cache has them."""
    source = modules.kernel_source(suite)
    fs = rootfs.rootfs(suite)
    key = cache.digest(fs.key, source.name, BUILD)

    def make(directory):
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir=host.CACHE, prefix=".build-") as work:
            shutil.copytree(source, work, dirs_exist_ok=True)
            proc.run_in_chroot(fs.root, work, f"KVER={fs.release}\n{BUILD}",
                               log=directory / "build.log")
            for part in (modules.TRANSPORT, modules.BLOCK):
                for path in (Path(work) / part).glob("*.ko"):
                    proc.run(["strip", "--strip-debug", "-o", str(directory / path.name),
                              str(path)])
        host.progress(f"{suite.name}: mainline's modules built in "
                      f"{time.monotonic() - started:.0f} s")

    return Mainline(cache.entry(f"mainline-{suite.name}", key, make))
