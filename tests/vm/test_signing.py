# SPDX-License-Identifier: GPL-2.0
"""Where a kernel takes only modules that are signed with a key it was built with.

What stock kernels say to modules of unknown origin: packaging/test_boot.py.
"""

import tempfile
from pathlib import Path

import pytest

import exercise
import rnbd
from vmlab import debug_kernel, host, proc, rootfs
from vmlab.modules import OURS


@pytest.mark.full
@pytest.mark.kernels("6.12-debug")
@pytest.mark.append("module.sig_enforce=1")
def test_only_signed_modules_load(pair, suite, modules):
    """Unsigned ones are refused, the same ones signed do all their work."""
    for guest, module in ((pair.server, "rnbd-server"), (pair.client, "rnbd-client")):
        result = guest.run(f"modprobe {module}", check=False)
        assert result.rc and "Key was rejected by service" in result.err, result.describe()
        assert guest.log.wait_for("Loading of unsigned module is rejected", 0)
        assert not set(rnbd.MODULES) & set(guest.loaded_modules())
    _install_signed(pair, rootfs.rootfs(suite), modules.directory)
    rnbd.load(pair)
    exercise.exercise(pair)
    rnbd.unload(pair)


def _install_signed(pair, fs, directory):
    """Put signed copies in the place of the modules that are installed."""
    with tempfile.TemporaryDirectory(dir=host.CACHE) as work:
        for name in OURS:
            # As they are installed, see modules.pack()
            proc.run(["strip", "--strip-debug", "-o", f"{work}/{name}.ko", f"{directory}/{name}.ko"])
        debug_kernel.sign(fs.root, fs.release, work)
        for guest in pair.guests:
            for name in OURS:
                guest.put(f"/usr/lib/modules/{fs.release}/updates/{name}.ko",
                          Path(work, f"{name}.ko"))
