# SPDX-License-Identifier: GPL-2.0
"""A machine with the Debian packages: now, with the next kernel, and where modules must be signed."""

import pytest

import packages
import roots
from boots import Boots, loads_ours
from life import Life

NOTES = "/usr/lib/rnbd-dkms/notes"


@pytest.fixture(name="life", scope="module")
def life_fixture(base, built, scratch):
    """The packages, installed."""
    return Life(base, base.root(scratch.new(), keeps=True), built)


@pytest.mark.matrix("package installed, booted", row="name")
def test_installed_modules_work(life, base, scratch):
    """With the kernel that was there."""
    with Boots(life.root, base.suite, base.release, scratch) as machine:
        loads_ours(machine, packages.VERSION)


@pytest.mark.full
@pytest.mark.matrix("then a newer kernel", row="name")
def test_newer_kernel_works(life, base, scratch):
    """With a kernel that was installed later; nobody has asked for modules."""
    release, debs = roots.another_kernel(base)
    names = life.root.give(*debs)
    life.root.run(f"{roots.APT} install " + " ".join(f"./{each}" for each in names))
    with Boots(life.root, base.suite, release, scratch) as machine:
        loads_ours(machine, packages.VERSION)


@pytest.mark.full
def test_unknown_signature_is_explained(life, base, scratch):
    """A kernel that takes modules of known origin only refuses ours, and one can learn why."""
    with Boots(life.root, base.suite, base.release, scratch, "module.sig_enforce=1") as machine:
        result = machine.run("modprobe rnbd-client", check=False)
        assert result.rc and "Key was rejected by service" in result.err, result.describe()
        told = machine.out(NOTES)
        assert "only modules signed with a key it trusts" in told and "module.sig_enforce" in told
        assert "mokutil" not in told, "there is no Secure Boot here"
        machine.run("mkdir -p /var/lib/dkms; echo stands for one >/var/lib/dkms/mok.pub")
        assert "the modules load if /var/lib/dkms/mok.pub is one of those" in machine.out(NOTES)
        assert not [name for name in machine.loaded_modules() if name.startswith(("rtrs", "rnbd"))]
