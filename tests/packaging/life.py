# SPDX-License-Identifier: GPL-2.0
"""A root into which the Debian packages are installed."""

import packages
import roots
from vmlab import modules


class Life:
    """A root into which packages are installed, step by step."""

    def __init__(self, base, root, built):
        self.base = base
        self.root = root
        self.refused = not roots.supported(base.release)
        self.before = root.files()
        names = root.give(packages.deb(built, "rnbd-dkms"), packages.deb(built, "rnbd-tools"))
        self.output = root.run(f"{roots.APT} install " + " ".join(f"./{name}" for name in names))[1]

    def status(self):
        """What dkms has installed: {(version, kernel)}."""
        found = roots.installed(self.root.run("dkms status")[1])
        assert {name for name, _, _ in found} <= {"rnbd"}
        return {(version, kernel) for _, version, kernel in found}

    def modinfo(self, field, kernel):
        """A field of each of our modules, as modprobe would find them; -n: their paths."""
        option = field if field.startswith("-") else f"-F {field}"
        return self.root.run("".join(f"modinfo -k {kernel} {option} {name} && "
                                     for name in modules.OURS) + "true")[1].split()
