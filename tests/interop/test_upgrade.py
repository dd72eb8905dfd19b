# SPDX-License-Identifier: GPL-2.0
"""An upgrade leaves loaded modules alone: for a while two versions work together."""

import pytest

import exercise
import packages
import rnbd
from vmlab import host
from vmlab import modules as vmlab_modules


@pytest.fixture(name="newer")
def newer_fixture(suite):
    """The modules of this tree with a newer version's number."""
    with vmlab_modules.copied(host.ROOT) as tree:
        (tree / "VERSION").write_text(f"{packages.NEWER}\n")
        return vmlab_modules.build(suite, tree, kind="modules_newer")


@pytest.mark.full
def test_two_versions_work_together(pair, modules, newer):
    """On the wire, and on one machine, where the core and the server are in use at the upgrade."""
    rnbd.load(pair, client=False)
    client = pair.client
    client.run("modprobe rnbd-server")
    client.install_modules(newer)
    client.run("modprobe rnbd-client")
    versions = {name: client.read(f"/sys/module/{name}/version") for name in rnbd.MODULES}
    assert versions == {
        "rtrs_core": packages.VERSION, "rtrs_server": packages.VERSION,
        "rnbd_server": packages.VERSION, "rtrs_client": packages.NEWER,
        "rnbd_client": packages.NEWER}
    exercise.exercise(pair)
    rnbd.unload(pair)
