# SPDX-License-Identifier: GPL-2.0
"""The life of the rpm: with rpm and with dnf, in Debian 12's root with Debian's dkms.

A package without files stands in the RPM database for dkms and what it brings there.
"""

import pytest

import packages
import roots
from boots import Boots, loads_ours
from vmlab import modules

FIXTURE = """
Name: dkms
Version: 3.0.10
Release: 1
Summary: Stands for what Debian has installed
License: MIT
BuildArch: noarch
Provides: gcc make kernel-devel /bin/sh /bin/bash
%description
%{summary}
%files
"""
RPM = "rpm --force-debian"
# No signatures, no subscription, nothing from outside
DNF = ("dnf -y --releasever=1 --setopt=reposdir=/none --repofrompath=local,/build/repo "
       "--repo=local --nogpgcheck --setopt=install_weak_deps=True --setopt=cachedir=/tmp/dnf")
DATABASES = ("/root/.rpmdb", "/var/lib/rpm", "/var/lib/dnf")
BAD_WORDS = ("scriptlet failed", "Non-fatal", "Traceback", "not built")


class Life:
    """A root in which rpm or dnf installs packages."""

    def __init__(self, base, root, built, newer):
        self.base = base
        self.root = root
        root.write("/build-fixture.spec", FIXTURE)
        root.run("rpmbuild -bb --define '_topdir /build/top' /build-fixture.spec && "
                 f"{RPM} -i top/RPMS/noarch/dkms-*.rpm && mkdir repo && "
                 # Of packages that are always there
                 "mkdir -p /usr/lib/dracut/modules.d /usr/share/licenses")
        self.old, self.new = (root.give(packages.rpm(where, "rnbd-dkms"))[0]
                              for where in (built, newer))
        self.tools = root.give(packages.rpm(built, "rnbd-tools"))[0]
        self.before = root.files()

    def run(self, command):
        """Run a package manager; none of the scripts in the packages may fail."""
        output = self.root.run(command)[1]
        assert not [word for word in BAD_WORDS if word in output], output
        return output

    def expect(self, *files):
        """These packages' modules are installed and no others."""
        found = roots.installed(self.root.run("dkms status")[1])
        wanted = [name.removeprefix("rnbd-dkms-").removesuffix(".noarch.rpm") for name in files]
        assert sorted(found) == sorted(("rnbd", each, self.base.release) for each in wanted)
        sources = self.root.run("ls /usr/src")[1].split()
        assert {each for each in sources if each.startswith("rnbd-")} == \
            {f"rnbd-{each}" for each in wanted}
        for each in wanted:
            shown = self.root.run("".join(f"modinfo -k {self.base.release} -F version {name} && "
                                          for name in modules.OURS) + "true")[1]
            assert shown.split() == [each.rpartition("-")[0]] * 5

    def expect_nothing_left(self):
        """The root is what it was before."""
        changed = roots.changes(self.before, self.root.files())
        assert not [path for path in changed if not path.startswith(DATABASES)]


@pytest.fixture(name="life")
def life_fixture(scratch, built, newer):
    """Nothing of ours installed, both versions at hand."""
    base = packages.tools()
    return Life(base, base.root(scratch.new(), keeps=True), built, newer)


@pytest.mark.full
def test_rpm(life):
    """Install, the same once more, upgrade, back, remove."""
    life.run(f"{RPM} -iv {life.old} {life.tools}")
    life.expect(life.old)
    # What somebody has there without a package changes nothing.
    life.root.write("/usr/src/rnbd-9/dkms.conf", "PACKAGE_VERSION=9\n")
    life.run(f"{RPM} -Uv --replacepkgs {life.old}")
    life.root.remove("/usr/src/rnbd-9")
    life.expect(life.old)
    life.root.write("/sys/module/rtrs_core/version", f"{packages.VERSION}\n")
    output = life.run(f"{RPM} -Uv {life.new}")
    life.root.remove("/sys/module")
    assert f"rtrs_core ({packages.VERSION}) stay loaded until" in output
    life.expect(life.new)
    life.run(f"{RPM} -Uv --oldpackage {life.old}")
    life.expect(life.old)
    life.run(f"{RPM} -ev rnbd-dkms rnbd-tools")
    life.expect_nothing_left()


@pytest.mark.full
def test_rpm_rebuilt(life, built):
    """The same version as another release, with the very same modules in it."""
    life.run(f"{RPM} -iv {life.old}")
    [source] = life.root.give(packages.the(built, "rnbd-dkms-*.src.rpm"))
    life.root.run("rpmbuild --rebuild --define 'dist .again' --define '_topdir /build/top' "
                  f"{source}")
    [again] = life.root.give(packages.the(life.root.work, "top/RPMS/noarch/rnbd-dkms-*.rpm"))
    life.run(f"{RPM} -Uv {again}")
    life.expect(again)
    life.run(f"{RPM} -ev rnbd-dkms")
    life.expect_nothing_left()


@pytest.mark.full
def test_rpm_is_loaded(life, scratch):
    """By a machine that boots from this root."""
    life.run(f"{RPM} -iv {life.old}")
    with Boots(life.root, life.base.suite, life.base.release, scratch) as machine:
        loads_ours(machine, packages.VERSION)


@pytest.mark.full
def test_dnf(life):
    """From a repository; what is only recommended comes along."""
    life.root.run(f"cp {life.old} {life.tools} repo && createrepo_c -q repo")
    life.run(f"{DNF} install rnbd-dkms")
    life.expect(life.old)
    assert life.root.run("rpm -q rnbd-tools")[0] == 0
    life.root.run(f"cp {life.new} repo && createrepo_c -q repo")
    life.run(f"{DNF} --refresh upgrade")
    life.expect(life.new)
    life.run(f"{DNF} remove rnbd-dkms rnbd-tools")
    life.expect_nothing_left()
