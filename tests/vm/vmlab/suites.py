# SPDX-License-Identifier: GPL-2.0
"""Debian suites, and the newest kernel of a series in each, resolved when needed."""

import functools
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from . import cache, debug_kernel, host, proc

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LISTS_FRESH_FOR = 6 * 3600

# What every guest and every build chroot contains, besides the kernel.
PACKAGES = """
    gcc make libc6-dev bc libelf-dev sparse
    fio rdma-core ibverbs-providers rdmacm-utils iproute2 iputils-ping e2fsprogs xfsprogs
    btrfs-progs dmsetup lvm2 mdadm cryptsetup-bin fdisk kmod util-linux mount procps python3
""".split()


@dataclass(frozen=True)
class Suite:
    """A Debian suite and the kernel series we take from it.

    name: the suite's name, unique here
    version: of the kernel; with the flavour it is the name of the series
    flavour: of the kernel; "debug" is ours, see debug_kernel.py
    base: of an extra series, the suite to whose root file system its kernel is added
    also: packages that the kernel needs from a pocket that apt would not choose
    """

    name: str
    version: str
    flavour: str = ""
    base: "Suite | None" = None
    pockets: tuple = ("", "-updates", "-security")
    also: tuple = ()

    @property
    def series(self):
        """What tests call the kernel, for example "6.12" or "6.12-rt"."""
        return "-".join(filter(None, (self.version, self.flavour)))

    @property
    def built(self):
        """True if we have to build the kernel."""
        return self.flavour == "debug"

    @property
    def codename(self):
        """What Debian calls the suite."""
        return self.base.codename if self.base else self.name

    @property
    def archive(self):
        """The suite whose package lists have everything of this one."""
        same = self.base and self.base.pockets == self.pockets
        return self.base.archive if same else self

    def sources(self):
        """The apt lines of this suite, on this machine's own mirror."""
        main, security = host.mirrors()
        lines = []
        for pocket in self.pockets:
            uri = security if pocket == "-security" else main
            if uri:
                lines.append(f"deb [signed-by={KEYRING}] {uri} {self.codename}{pocket} main")
        return lines

    def resolve(self):
        """Find the newest kernel of the series and all package versions; see Resolved."""
        return _resolve(self)


# What everything is tested on
SUITES = (
    Suite("bookworm", "6.1"),
    Suite("trixie", "6.12"),
)
# ... and what only those tests run on that name the series
EXTRA = (
    Suite("bullseye", "5.10"),
    Suite("trixie-rt", "6.12", "rt", SUITES[1]),
    Suite("trixie-backports", "7.3", "", SUITES[1], (*SUITES[1].pockets, "-backports"),
          ("linux-base/trixie-backports",)),
    Suite("trixie-backports-7.2", "7.2", "", SUITES[1],
          (*SUITES[1].pockets, "-backports"), ("linux-base/trixie-backports",)),
    Suite("trixie-debug", "6.12", "debug", SUITES[1]),
)
ALL = SUITES + EXTRA


def find(name):
    """The suite of a suite name ("trixie") or kernel series ("6.12")."""
    for suite in ALL:
        if name in (suite.name, suite.series):
            return suite
    known = ", ".join(f"{s.name} ({s.series})" for s in ALL)
    raise host.SetupError(f"unknown suite or kernel {name!r}; there are {known}")


@dataclass(frozen=True)
class Resolved:
    """What the archive offers now.

    release: of the kernel, as uname -r prints it
    packages: what to install, the kernel's image and headers included
    versions: "name version" of everything that this pulls in
    """

    suite: Suite
    release: str
    packages: tuple
    versions: tuple


class PrivateApt:
    """apt with another suite's package lists; the machine's own stay untouched."""

    def __init__(self, suite):
        self.suite = suite
        self.dir = host.CACHE / f"apt-{suite.archive.name}"
        for sub in ("lists/partial", "archives/partial", "etc"):
            (self.dir / sub).mkdir(parents=True, exist_ok=True)
        (self.dir / "status").touch()
        text = "\n".join(suite.sources()) + "\n"
        sources = self.dir / "sources.list"
        # Somebody else's apt may be reading it.
        if not sources.exists() or sources.read_text() != text:
            with tempfile.NamedTemporaryFile("w", dir=self.dir, delete=False) as new:
                new.write(text)
            os.replace(new.name, sources)
        self.options = [f"-oDir::{key}={value}" for key, value in {
            "State": self.dir, "State::Lists": self.dir / "lists",
            "State::status": self.dir / "status", "Cache": self.dir,
            "Cache::archives": self.dir / "archives",
            "Cache::pkgcache": "pkgcache.bin", "Cache::srcpkgcache": "srcpkgcache.bin",
            "Etc::sourcelist": self.dir / "sources.list",
            "Etc::sourceparts": "/dev/null", "Etc::preferences": "/dev/null",
            "Etc::preferencesparts": "/dev/null",
        }.items()] + ["-oAPT::Architecture=amd64", "-oAPT::Install-Recommends=false",
                      "-oAcquire::Languages=none", "-oAPT::Sandbox::User=root"]

    def update(self, force=False):
        """Fetch the package lists unless they are fresh."""
        stamp = self.dir / "updated"
        text = "\n".join(self.suite.sources())
        if not force and stamp.exists() and stamp.read_text() == text and \
                time.time() - stamp.stat().st_mtime < LISTS_FRESH_FOR:
            return
        command = ["apt-get", *self.options, "-q", "-oAPT::Update::Error-Mode=any", "update"]
        code, output = proc.run(command, check=False)
        if code and "NO_PUBKEY" in output:
            # The keyring of a machine installed long ago may lack a newer suite's key.
            host.install_packages(["debian-archive-keyring"])
            code, output = proc.run(command, check=False)
        if not code:
            stamp.write_text(text)
        elif stamp.exists():
            host.progress(f"{self.suite.name}: no new package lists, using those of "
                          + time.ctime(stamp.stat().st_mtime))
        else:
            raise host.SetupError(f"no package lists for {self.suite.name}:\n{output}")

    def names(self, prefix):
        """Package names that start with a prefix."""
        return proc.run(["apt-cache", *self.options, "pkgnames", prefix])[1].split()

    def version(self, package):
        """The newest version of a package in the lists."""
        shown = proc.run(["apt-cache", *self.options, "show", "--no-all-versions", package])[1]
        return re.search(r"^Version: (\S+)", shown, re.M).group(1)

    def closure(self, packages, status=None):
        """"name version" of all packages that an installation would unpack.

        status: what is installed already, as dpkg keeps it
        """
        state = [f"-oDir::State::status={status}"] if status else []
        plan = proc.run(["apt-get", *self.options, *state, "-qq", "--print-uris", "install",
                         *packages])[1]
        return tuple(sorted(f"{name} {urllib.parse.unquote(version)}" for name, version in
                            re.findall(r"^'\S+' ([^_ ]+)_([^_ ]+)_\w+\.deb ", plan, re.M)))

    def download(self, directory, *packages):
        """Download package files into a directory, named there as their packages; all its paths."""
        proc.run(["apt-get", *self.options, "-q", "download", *packages], cwd=directory)
        return sorted(Path(directory).glob("*.deb"))


def version_newer(one, other):
    """True if Debian version `one` is newer than `other`."""
    return subprocess.run(["dpkg", "--compare-versions", one, "gt", other],
                          check=False).returncode == 0


def kernels(apt, version, flavour=""):
    """Releases of the kernels of a version and flavour that have headers, too; newest first."""
    names = set(apt.names(f"linux-headers-{version}."))
    kind = f"{flavour}-amd64" if flavour else "amd64"
    found = []
    for image in apt.names(f"linux-image-{version}."):
        match = re.fullmatch(
            rf"linux-image-({re.escape(version)}\.[0-9][^-]*(?:-[0-9]+)?-{kind})", image)
        if match and f"linux-headers-{match[1]}" in names:
            found.append((apt.version(image), match[1]))
    newer = functools.cmp_to_key(lambda one, other: 1 if version_newer(one, other) else -1)
    found.sort(key=lambda each: newer(each[0]), reverse=True)
    return [release for _, release in found]


def newest_kernel(apt, version, flavour=""):
    """The first of kernels()."""
    found = kernels(apt, version, flavour)
    if not found:
        raise host.SetupError(f"{apt.suite.name} has no kernel {version} {flavour} with headers")
    return found[0]


@functools.lru_cache(maxsize=None)
def _resolve(suite):
    apt = PrivateApt(suite)
    with cache.locked(host.CACHE / f".apt-{suite.archive.name}.lock"):
        apt.update()
        # Asking apt takes ten seconds; its answer changes only with its lists.
        answer = apt.dir / f"resolved-{suite.name}.json"
        question = cache.digest(*suite.also, *PACKAGES, *debug_kernel.PACKAGES,
                                (apt.dir / "updated").stat().st_mtime_ns)
        if answer.exists():
            known = json.loads(answer.read_text())
            if known["question"] == question:
                return Resolved(suite, known["release"], tuple(known["packages"]),
                                tuple(known["versions"]))
        if suite.built:
            source = apt.version(f"linux-source-{suite.version}")
            release = debug_kernel.release(source)
            packages = (*debug_kernel.PACKAGES, *PACKAGES)
            versions = (f"linux-source-{suite.version} {source}", *apt.closure(packages))
        else:
            release = newest_kernel(apt, suite.version, suite.flavour)
            packages = (f"linux-image-{release}", f"linux-headers-{release}", *suite.also,
                        *PACKAGES)
            versions = apt.closure(packages)
        answer.write_text(json.dumps({"question": question, "release": release,
                                      "packages": packages, "versions": versions}))
    return Resolved(suite, release, packages, versions)
