# SPDX-License-Identifier: GPL-2.0
"""Where a build cannot succeed: does one learn why, and does it work once the reason is gone?"""

import re

import pytest

import packages
import roots

# No compiler that a kernel's make would find
NO_COMPILER = "rm -f /usr/bin/*gcc /usr/bin/*gcc-[0-9]* /usr/bin/*cpp* /usr/bin/cc"
SHORT_OF_SPACE = "1M"


class Place:
    """A root with the sources where dkms finds them, but nothing built yet."""

    def __init__(self, base, root, built):
        self.base = base
        self.root = root
        self.deb = root.give(packages.deb(built, "rnbd-dkms"))[0]
        self.version = packages.VERSION

    def add(self):
        """Unpack without the scripts of the package, and tell dkms."""
        self.root.run(f"dpkg-deb -x {self.deb} / && dkms add -m rnbd -v {self.version}")

    def dkms(self, verb, before=""):
        """Run dkms for the installed kernel; returns (exit code, output with make.log)."""
        return self.root.run(
            f"dkms {verb} -m rnbd -v {self.version} -k {self.base.release}; code=$?; "
            "cat /var/lib/dkms/rnbd/*/build/make.log 2>/dev/null; exit $code",
            check=False, before=before)

    def installed(self):
        """The kernels that have modules."""
        return [each[2] for each in roots.installed(self.root.run("dkms status")[1])]

    @property
    def skips(self):
        """How this dkms says that a kernel is none for a module."""
        return 9 if self.base.suite.name == "bullseye" else 77


@pytest.fixture(name="place")
def place_fixture(base, built, scratch):
    """A root of the test's own."""
    return Place(base, base.root(scratch.new()), built)


@pytest.fixture(name="cheap")
def cheap_fixture(base, built, scratch):
    """The same, where what was built once is not built again."""
    return Place(base, base.root(scratch.new(), keeps=True), built)


def refusal(output):
    """The three lines: what is missing, on which kernel, what to do."""
    lines = re.findall(r"^rnbd: .*$", output, re.M)
    assert len(lines) == 3 and lines[1].startswith("rnbd: kernel: "), output
    return lines


def test_every_verb_of_dkms(cheap):
    """With the suite's own dkms, and without a package."""
    cheap.add()
    if not roots.supported(cheap.base.release):
        code, output = cheap.dkms("build")
        assert code == cheap.skips and "older than" in refusal(output)[0]
        return
    for verb in ("build", "install"):
        code, output = cheap.dkms(verb)
        assert code == 0 and "deprecated" not in output.lower(), output
    assert cheap.installed() == [cheap.base.release]
    code, output = cheap.dkms("uninstall")
    assert code == 0 and cheap.installed() == [], output
    code, output = cheap.root.run(f"dkms remove -m rnbd -v {cheap.version} --all", check=False)
    assert code == 0 and not cheap.root.run("dkms status")[1].strip(), output


@pytest.mark.newest
def test_no_headers(place):
    """The package is installed all the same, and dkms says what is missing."""
    place.root.run("rm -rf /usr/lib/modules/*/build")
    output = place.root.run(f"{roots.APT} install ./{place.deb}")[1]
    assert f"rnbd: there are no headers of the running kernel {place.base.release}" in output, output
    assert place.installed() == []
    code, output = place.dkms("build")
    assert code == place.skips
    assert "no kernel build directory" in refusal(output)[0]
    assert f"linux-headers-{place.base.release}" in refusal(output)[2]


WITHOUT_RDMA = "sed -i /CONFIG_INFINIBAND_ADDR_TRANS=/d include/config/auto.conf"
TOO_OLD = """
    old=/usr/lib/modules/4.19.0-1-amd64/build
    mkdir -p $old/include/config $old/include/generated
    cp include/config/auto.conf $old/include/config
    echo '#define UTS_RELEASE "4.19.0-1-amd64"' >$old/include/generated/utsrelease.h
    touch $old/Makefile
    rm -f /boot/config-*
    touch /boot/config-4.19.0-1-amd64
"""


@pytest.mark.newest
@pytest.mark.parametrize("spoil, words", [
    (WITHOUT_RDMA, "without CONFIG_INFINIBAND_ADDR_TRANS"), (TOO_OLD, "older than"),
], ids=["no RDMA", "too old"])
def test_kernel_that_cannot_work(cheap, spoil, words):
    """A skip: the package is installed, nothing is compiled, and one learns why."""
    release = cheap.base.release
    if spoil is TOO_OLD:
        release = "4.19.0-1-amd64"
    elif not roots.supported(release):
        pytest.skip("too old anyway")
    cheap.root.run(f"cd /usr/lib/modules/{cheap.base.release}/build && {spoil}")
    cheap.root.runs(release)
    output = cheap.root.run(f"{roots.APT} install ./{cheap.deb}")[1]
    lines = refusal(output)
    assert words in lines[0] and release in lines[1]
    # Newer dkms may build for the newest kernel besides the running one.
    assert release not in cheap.installed()
    assert not cheap.root.run(f"find /var/lib/dkms/rnbd -path '*{release}*' -name make.log")[1].strip()


@pytest.mark.newest
def test_kernel_that_cannot_work_is_installed(cheap):
    """After our package: the hook that runs then must not fail, or that kernel's package does."""
    if not roots.supported(cheap.base.release):
        pytest.skip("too old anyway")
    cheap.add()
    cheap.root.run(f"cd /usr/lib/modules/{cheap.base.release}/build && {WITHOUT_RDMA}")
    hook = f"/etc/kernel/header_postinst.d/dkms {cheap.base.release}"
    code, output = cheap.root.run(f"DEB_MAINT_PARAMS=configure {hook}", check=False)
    assert code == 0, output
    assert "without CONFIG_INFINIBAND_ADDR_TRANS" in refusal(output)[0]
    assert cheap.installed() == []


@pytest.mark.newest
def test_no_compiler(place):
    """The build's own log names it."""
    if not roots.supported(place.base.release):
        pytest.skip("refused before")
    place.add()
    place.root.run(NO_COMPILER)
    code, output = place.dkms("build")
    assert code not in (0, place.skips)
    assert re.search(r"gcc\S*: (command )?not found", output), output
    told = f"rnbd: {place.version} for kernel {place.base.release} was not built"
    assert re.search(f"^{re.escape(told)}", output, re.M), output


@pytest.mark.newest
def test_full_disk(cheap):
    """dkms's directory has no room: a failure that says so, and nothing half-installed."""
    if not roots.supported(cheap.base.release):
        pytest.skip("refused before")
    cheap.add()
    full = ('cp -a "$2/root/var/lib/dkms" "$2/root/tmp/dkms"; '
            f'mount -t tmpfs -o size={SHORT_OF_SPACE} tmpfs "$2/root/var/lib/dkms"; '
            'cp -a "$2/root/tmp/dkms/." "$2/root/var/lib/dkms/"')
    code, output = cheap.dkms("install", before=full)
    assert code not in (0, cheap.skips), output
    assert re.search(r"^rnbd: only \d+ KiB are free in /var/lib/dkms", output, re.M), output
    assert cheap.installed() == []
    assert cheap.dkms("install")[0] == 0
    assert cheap.installed() == [cheap.base.release]


@pytest.mark.newest
def test_interrupted_build(cheap):
    """Killed with all it has started: dkms status knows of no module, and the next try works."""
    if not roots.supported(cheap.base.release):
        pytest.skip("refused before")
    cheap.add()
    cheap.root.run("mv /etc/dkms/rnbd.conf /root/")
    cheap.root.run(f"""
        setsid dkms build -m rnbd -v {cheap.version} -k {cheap.base.release} >output 2>&1 & child=$!
        until [ -n "$(find /var/lib/dkms/rnbd -name '*.answer')" ]; do
            kill -0 $child || {{ cat output; exit 1; }}
            sleep 0.2
        done
        kill -KILL -$child""")
    assert cheap.installed() == []
    cheap.root.run("mv /root/rnbd.conf /etc/dkms/")
    code, output = cheap.dkms("install")
    assert code == 0, output
    assert cheap.installed() == [cheap.base.release]
