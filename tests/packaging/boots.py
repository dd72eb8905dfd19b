# SPDX-License-Identifier: GPL-2.0
"""Machines that boot the very root a package was installed into: does modprobe load ours?

The smoke test is the one that the Debian package brings for autopkgtest.
"""

import shutil

import rnbd
from vmlab import host, modules, pair

SMOKE = host.ROOT / "debian/tests/smoke"


class Boots:
    """Boots a root with one of its kernels; gone after `with`."""

    def __init__(self, root, suite, release, scratch, append=""):
        self._directory = scratch.new()
        self._logs = host.BUILD / "test-logs" / f"boot-{suite.name}-{release}{append}"
        files = root.boot_files(release, self._directory)
        self._machines = pair.Single(suite, append=append, files=files)

    def __enter__(self):
        self._machines.boot()
        self._machines.begin_test(_fresh(self._logs))
        return self._machines.machine

    def __exit__(self, kind, *_):
        trouble = self._machines.end_test()
        self._machines.stop()
        shutil.rmtree(self._directory)
        if not kind:
            assert not trouble, "\n".join(trouble)


def _fresh(directory):
    """The directory, empty."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def loads_ours(machine, version):
    """modprobe finds ours and loads them, and they work."""
    machine.run("modprobe -a rnbd-server rnbd-client")
    for name in modules.OURS:
        path, there = machine.out(f"modinfo -n {name}; modinfo -F srcversion {name}").split()
        assert path.startswith(f"/lib/modules/{machine.release}/updates/")
        loaded = f"/sys/module/{name.replace('-', '_')}"
        assert machine.read(f"{loaded}/version") == version
        assert machine.read(f"{loaded}/srcversion") == there
    machine.run("modprobe -r rnbd-client rnbd-server rtrs-core")
    machine.put("/tmp/smoke", SMOKE, 0o755)
    assert "smoke: all is well" in machine.out(f"/tmp/smoke {version}")
    rnbd.assert_gone(machine)
