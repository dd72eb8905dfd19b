# SPDX-License-Identifier: GPL-2.0
"""What dkms's build costs besides compiling the modules: probes, checks, copies, signatures."""

import re

import pytest

import packages
import roots

# The kernel's make alone, once all questions about the kernel have been answered
PLAIN = r"""
src=/build/tree/build/$KVER/src
find $src -name '*.ko' -o -name '*.o' -o -name '*.mod*' -o -name '.*.cmd' |
    grep -v "^$src/compat/" | xargs rm -f
make -s -j$(nproc) -C /lib/modules/$KVER/build M=$src modules
"""


def seconds(root, script):
    """Processor time of a script, by all that it starts."""
    (root.work / "timed").write_text(script)
    output = root.run("bash -c 'TIMEFORMAT=\"took %U %S\"; time sh -e timed'")[1]
    return sum(map(float, re.search(r"^took (\S+) (\S+)$", output, re.M).groups()))


@pytest.mark.full
def test_dkms_build_takes_at_most_twice_a_plain_one(base, built, scratch):
    root = base.root(scratch.new())
    [deb] = root.give(packages.deb(built, "rnbd-dkms"))
    root.run(f"dpkg-deb -x {deb} / && dkms add -m rnbd -v {packages.VERSION} && "
             f"cp -r /usr/src/rnbd-{packages.VERSION} tree && "
             f"make -C tree modules KVER={base.release}")
    release = f"RNBD_RELEASE={base.release}; export RNBD_RELEASE\n"
    plain = seconds(root, f"{release}KVER={base.release}{PLAIN}")
    assert root.run(f"ls tree/build/{base.release}/src/r*/*.ko | wc -l")[1].strip() == "5"
    # What somebody's environment has for other purposes is none of ours.
    dkms = seconds(root, f"BUILD=elsewhere ONLY=rtrs-core dkms build -m rnbd -v {packages.VERSION} -k {base.release}")
    print(f"dkms build: {dkms:.1f} s, the modules alone: {plain:.1f} s")
    assert dkms <= 2 * plain
