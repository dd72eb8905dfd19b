# SPDX-License-Identifier: GPL-2.0
"""Packages of this tree, built in Debian 12's chroot by `make deb` and `make rpm`."""

import re
import shutil
import tempfile
from pathlib import Path

import roots
from vmlab import cache, host, modules

VERSION = (host.ROOT / "VERSION").read_text().strip()
NEWER = f"{VERSION}.1"
# What is not in a package, and does not change one
NOT_PACKAGED = {".git", "build", "tests", ".ci"}
# To build the Debian packages, on the oldest suite and on the newest
BUILDERS = {"bullseye": ("debhelper", *roots.DKMS), "trixie": ("debhelper", "dh-dkms", *roots.DKMS)}
# Where a version is written
VERSIONS = ("VERSION", "dkms.conf", "debian/changelog", "rpm/rnbd-dkms.spec")


def tools():
    """What packages are built and judged in."""
    return roots.base("bookworm", (*roots.TOOLS, *roots.DKMS), "tools")


def set_version(tree, version):
    """Give a copy of the tree another version, everywhere where there is one."""
    for name in VERSIONS:
        path = Path(tree) / name
        path.write_text(path.read_text().replace(VERSION, version))


def build(version=VERSION, kinds=("deb", "rpm")):
    """Build packages of the tree; returns the directory they are in.

    Cached by what they are made from.
    """
    base = tools()
    # Texts are in packages, too.
    content = [part for path in cache.tree_files(host.ROOT, NOT_PACKAGED, everything=True)
               for part in (path.relative_to(host.ROOT), path.stat().st_mode, path.read_bytes())]
    key = cache.digest(base.key, version, *kinds, *content)

    def make(directory):
        host.progress(f"building {' and '.join(kinds)} of {version}")
        with modules.copied(host.ROOT, everything=True) as tree, \
                tempfile.TemporaryDirectory(dir=host.CACHE, prefix=".package-") as scratch:
            set_version(tree, version)
            root = base.root(scratch)
            shutil.copytree(tree, root.work / "tree", symlinks=True)
            root.run("".join(f"make -C tree {kind} && " for kind in kinds) + "true",
                     log=directory / "log")
            for path in (root.work / "tree/build/packages").iterdir():
                shutil.copy2(path, directory)

    kind = "packages" if version == VERSION else "packages_newer"
    return cache.entry(f"{kind}-bookworm", key, make)


def the(directory, pattern):
    """The one file in a directory that matches."""
    [path] = Path(directory).glob(pattern)
    return path


def deb(directory, name):
    """The path of a Debian package."""
    return the(directory, f"{name}_*.deb")


def rpm(directory, name):
    """The path of an rpm."""
    return the(directory, f"{name}-[0-9]*.noarch.rpm")


def parameters(folder):
    """The names of the parameters that a module's sources define."""
    text = "\n".join(path.read_text() for path in sorted((host.ROOT / folder).glob("*.c")))
    return re.findall(r"\bmodule_param(?:_\w+)?\(\s*(\w+)", text)
