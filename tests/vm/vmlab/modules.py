# SPDX-License-Identifier: GPL-2.0
"""Kernel modules built by a suite's own compiler; files of a kernel's source package."""

import re
import shlex
import shutil
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from . import cache, host, proc, rootfs, suites

# Top-level names of the source tree that the kernel modules do not depend on.
NOT_SOURCE = {"build", "tests", "docs", "debian", "rpm", "tools", "dkms.conf", "LICENSE"}
OURS = ("rtrs-core", "rtrs-client", "rtrs-server", "rnbd-client", "rnbd-server")

# What is ever needed of a kernel's source package, all at once: fetching and
# unpacking it takes a minute.
TRANSPORT = "drivers/infiniband/ulp/rtrs"
BLOCK = "drivers/block/rnbd"
CHECKPATCH = "scripts/checkpatch.pl"
SOURCES = (CHECKPATCH, "scripts/spelling.txt", "scripts/const_structs.checkpatch",
           TRANSPORT, BLOCK)


@dataclass(frozen=True)
class Modules:
    """Built modules: a directory of .ko files, the build's log, and what a guest installs."""

    directory: Path
    log: Path
    archive: Path

    @property
    def answers(self):
        """What the probes answered in this build: {name: "yes" or "no"}."""
        return dict(re.findall(r"^compat: (\w+): (yes|no)$", self.log.read_text(), re.M))


def expected_answers(version):
    """What the probes are known to answer on a version of the kernel, from tests/probes."""
    table = host.ROOT / f"tests/probes/expected/{version}.txt"
    return dict(line.split() for line in table.read_text().splitlines())


# Every warning that the kernel's make has, and sparse
CHECKS = ("W=1", "C=2")


def build(suite, source=host.ROOT, names=OURS, variables=CHECKS, kind="modules"):
    """Build the modules of a source tree for a suite's kernel.

    `make modules KVER=<release> ...` runs in the suite's chroot on a copy of
    the tree and must leave the .ko files in build/<release>/.  The result is
    cached by the contents of the tree.

    kind: what the cache calls it; it keeps one of a kind and suite
    """
    fs = rootfs.rootfs(suite)
    key = cache.digest(fs.key, cache.tree_digest(source, NOT_SOURCE), *names, *variables)

    def make(directory):
        started = time.monotonic()
        with copied(source) as work:
            script = (f"make -j2 modules KVER={fs.release} "
                      + " ".join(shlex.quote(variable) for variable in variables))
            proc.run_in_chroot(fs.root, work, script, log=directory / "build.log")
            for name in names:
                shutil.copy(work / "build" / fs.release / f"{name}.ko", directory)
        pack(rootfs.boot_files(fs), directory)
        host.progress(f"{suite.name}: modules built in {time.monotonic() - started:.0f} s")

    return found(cache.entry(f"{kind}-{suite.name}", key, make))


def found(directory):
    """The Modules in a directory that build() or pack() has filled."""
    return Modules(directory, directory / "build.log", directory / "modules.tar")


class copied:
    """A temporary copy of a source tree: what modules are built from, or everything."""

    def __init__(self, source, everything=False):
        self._source = Path(source)
        self._everything = everything

    def __enter__(self):
        host.CACHE.mkdir(parents=True, exist_ok=True)
        self._temporary = tempfile.TemporaryDirectory(dir=host.CACHE, prefix=".build-")
        work = Path(self._temporary.name)
        skipped = {".git", "build"} if self._everything else NOT_SOURCE
        for path in cache.tree_files(self._source, skipped, self._everything):
            target = work / path.relative_to(self._source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        return work

    def __exit__(self, *_):
        self._temporary.cleanup()


def pack(files, directory):
    """Make modules.tar: the .ko files of a directory, and module lists that know them.

    Unpacked in a guest it does what `make modules_install` and depmod would
    do there, where depmod takes half a minute.
    """
    with tempfile.TemporaryDirectory() as temporary:
        lib = Path(temporary) / "usr/lib/modules" / files.release
        (lib / "updates").mkdir(parents=True)
        (Path(temporary) / "lib").symlink_to("usr/lib")
        (lib / "kernel").symlink_to(files.modules / "kernel")
        for path in files.modules.glob("modules.*"):
            shutil.copy(path, lib)
        for path in directory.glob("*.ko"):
            proc.run(["strip", "--strip-debug", "-o", str(lib / "updates" / path.name), str(path)])
        proc.run(["depmod", "-b", temporary, files.release])
        (lib / "kernel").unlink()
        with tarfile.open(directory / "modules.tar", "w") as archive:
            archive.add(lib, arcname=f"usr/lib/modules/{files.release}")


def kernel_source(suite):
    """Unpack SOURCES from a kernel's source package; returns their root.

    The package has the version of the suite's kernel if the archive still
    offers that, else the newest of the series.
    """
    resolved = suite.resolve()
    built = next(line.split()[1] for line in resolved.versions
                 if line.startswith(f"linux-image-{resolved.release} "))
    apt = suites.PrivateApt(suite)
    package = f"linux-source-{suite.version}"
    version = apt.version(package)
    key = cache.digest(version, *SOURCES)

    def make(directory):
        host.progress(f"{suite.name}: unpacking {package} {version} (kernel is {built})")
        [deb] = apt.download(directory, f"{package}={version}")
        proc.run(["dpkg-deb", "-x", str(deb), str(directory / "deb")])
        tarball = next((directory / "deb/usr/src").glob("linux-source-*.tar.xz"))
        top = re.sub(r"\.tar\.xz$", "", tarball.name)
        proc.run(["tar", "-C", str(directory), "--strip-components=1", "-xf", str(tarball),
                  *(f"{top}/{member}" for member in SOURCES)])
        shutil.rmtree(directory / "deb")
        deb.unlink()

    return cache.entry(f"source-{suite.name}", key, make)
