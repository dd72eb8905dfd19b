# SPDX-License-Identifier: GPL-2.0
"""Builds for every kernel of the matrix, by its own suite's compiler, in that suite's chroot.

A copy of the tree is built with every warning that the kernel's make has
(W=1), with sparse (C=2), and then once more, which must do nothing.
"""

import re
import shutil
from pathlib import Path

import pytest

from vmlab import forms, proc, rootfs, suites

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("Makefile", "Kbuild", "VERSION", "dkms.conf", "LICENSE", "rtrs", "rnbd", "compat")
MODULES = ("rtrs-core", "rtrs-client", "rtrs-server", "rnbd-client", "rnbd-server")


class Built:
    """One kernel's build."""

    def __init__(self, series, work):
        self.fs = rootfs.rootfs(suites.find(series))
        self.series = series
        self.work = work
        self.tree = work / "tree"
        self.tree.mkdir()
        for name in SHIPPED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, self.tree / name)
        self.before = self.files()
        self.code, self.output = self.make("W=1 C=2")

    def make(self, arguments):
        """Run make modules; returns (exit code, output)."""
        return self.run(f"make -C tree modules KVER={self.fs.release} {arguments}")

    def run(self, script):
        """Run a command in the chroot, where the copy is the folder tree."""
        return proc.run_in_chroot(self.fs.root, self.work, script, check=False)

    def files(self):
        """The files of the copy outside build/, with times and sizes."""
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size)
                for path in self.tree.rglob("*")
                if path.is_file() and "build" not in path.relative_to(self.tree).parts[:1]}

    @property
    def out(self):
        """Where the modules are."""
        return self.tree / "build" / self.fs.release

    def answers(self):
        """The answers to the probes, name to yes or no."""
        text = (self.out / "src/compat/answers.h").read_text()
        return {name.lower(): "yes" if value == "1" else "no"
                for name, value in re.findall(r"^#define HAVE_(\w+) ([01])$", text, re.M)}

    def modinfo(self, module, field):
        """One field of a module's information."""
        return self.run(f"modinfo -F {field} {self.out.relative_to(self.work)}/{module}.ko")[1].strip()


@pytest.fixture(name="built", scope="module", params=forms.kernels())
def built_fixture(request, tmp_path_factory):
    """The build for one kernel, made once for all tests of this file."""
    return Built(request.param, tmp_path_factory.mktemp(f"build-{request.param}-"))


def test_builds_without_a_warning(built):
    assert built.code == 0, built.output
    words = re.findall(r"^.*\b(?:warning|error)\b.*$", built.output, re.M | re.I)
    assert not words, "\n".join(words)
    assert "CHECK" in built.output, "sparse has not run"


@pytest.mark.parametrize("module", MODULES)
def test_module_says_what_it_is(built, module):
    assert (built.out / f"{module}.ko").is_file()
    version = (ROOT / "VERSION").read_text().strip()
    header = (built.out / "src/compat/answers.h").read_text()
    assert built.modinfo(module, "version") == version
    assert built.modinfo(module, "compat") == re.search(r'RNBD_COMPAT "(\w+)"', header)[1]
    assert built.modinfo(module, "license") == "GPL"
    assert built.modinfo(module, "description")
    assert built.modinfo(module, "vermagic").split()[0] == built.fs.release


def test_answers_are_the_expected_ones(built):
    table = Path(__file__).resolve().parents[1] / f"probes/expected/{built.series}.txt"
    assert built.answers() == dict(line.split() for line in table.read_text().splitlines())


def test_source_tree_stays_clean(built):
    assert built.files() == built.before


def test_second_build_compiles_nothing(built):
    # C=2 checks again by its nature, C=0 does not.
    code, output = built.make("W=1")
    assert code == 0, output
    assert not re.findall(r"^\s*(?:CC|LD|PROBE|CHECK) .*$", output, re.M)


def test_removed_source_is_noticed(built):
    """A file that is gone from the tree is not in the next build."""
    extra = built.tree / "rtrs/core/zz-extra.c"
    extra.write_text("// SPDX-License-Identifier: GPL-2.0\nvoid rtrs_extra(void);\n"
                     "void rtrs_extra(void)\n{\n}\n")
    assert built.make("W=1")[0] == 0
    assert (built.out / "src/rtrs/core/zz-extra.o").is_file()
    extra.unlink()
    code, output = built.make("W=1")
    assert code == 0, output
    assert not (built.out / "src/rtrs/core/zz-extra.c").is_symlink()
    assert b"rtrs_extra" not in (built.out / "rtrs-core.ko").read_bytes()


def test_vendor_rdma_stack_is_used(built):
    """Headers of an OFED tree come first, its own prelude too, and the build says so."""
    vendor = built.work / "ofed/default"
    (vendor / "include/linux").mkdir(parents=True)
    (vendor / "include/linux/compat-2.6.h").write_text("#include <vendor.h>\n")
    (vendor / "include/vendor.h").write_text('#error "the header of the vendor"\n')
    (vendor / "Module.symvers").write_text("")
    code, output = built.make("OFED_DIR=/build/ofed BUILD=/build/vendor")
    assert code and "vendor RDMA stack in /build/ofed/default" in output
    assert "the header of the vendor" in output
