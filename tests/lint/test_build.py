# SPDX-License-Identifier: GPL-2.0
"""Builds for every kernel of the matrix, by its own suite's compiler, in that suite's chroot.

The modules that the tests with machines load are built with every warning that
the kernel's make has (W=1) and with sparse (C=2); that build is looked at here.
How the build behaves when it is repeated is tried on a copy, in the long form.
"""

import re
import shutil
from pathlib import Path

import pytest

from vmlab import forms, modules, proc, rootfs, suites

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.late

# What the tests with machines use in this form
SERIES = dict.fromkeys([*forms.kernels(), *forms.kernels("5.10", "7.3"),
                        *forms.short_or_full((), forms.kernels("6.12-rt", "7.2"))])
SHIPPED = ("Makefile", "Kbuild", "VERSION", "dkms.conf", "LICENSE", "rtrs", "rnbd", "compat")


class Copy:
    """A copy of the tree, built for one kernel."""

    def __init__(self, series, work):
        self.fs = rootfs.rootfs(suites.find(series))
        self.work = work
        self.tree = work / "tree"
        self.tree.mkdir()
        for name in SHIPPED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, self.tree / name)
        self.before = self.files()
        self.code, self.output = self.make("W=1")

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


@pytest.fixture(name="series", scope="module", params=SERIES)
def series_fixture(request):
    """Each kernel series in turn."""
    return request.param


@pytest.fixture(name="built", scope="module")
def built_fixture(series):
    """What the tests with machines use: the modules and the build's log."""
    return modules.build(suites.find(series))


@pytest.fixture(name="copy", scope="module")
def copy_fixture(series, tmp_path_factory):
    """A copy of the tree that may be built again and again."""
    copy = Copy(series, tmp_path_factory.mktemp(f"build-{series}-"))
    assert copy.code == 0, copy.output
    return copy


def modinfo(path, field):
    """One field of a module's information."""
    return proc.run(["modinfo", "-F", field, str(path)])[1].strip()


@pytest.mark.matrix("built by gcc, W=1 C=2", row="series")
def test_builds_without_a_warning(built, series):
    output = built.log.read_text()
    words = re.findall(r"^.*\b(?:warning|error)\b.*$", output, re.M | re.I)
    assert not words, "\n".join(words)
    # Sparse 0.6.4 does not know the C of 7.2's headers and later ones; their make goes without.
    refused = "sparse is not available or not up to date" in output
    assert refused == (series in ("7.2", "7.3"))
    assert refused or "CHECK" in output, "sparse has not run"


@pytest.mark.parametrize("module", modules.OURS)
def test_module_says_what_it_is(built, series, module):
    path = built.directory / f"{module}.ko"
    version = (ROOT / "VERSION").read_text().strip()
    assert modinfo(path, "version") == version
    assert re.search(rf"^compat: answers {modinfo(path, 'compat')}$", built.log.read_text(), re.M)
    assert modinfo(path, "license") == "GPL"
    assert modinfo(path, "description")
    assert modinfo(path, "vermagic").split()[0] == suites.find(series).resolve().release


@pytest.mark.parametrize("module", modules.OURS)
def test_modules_of_two_builds_do_not_mix(built, module):
    """All need the core's ABI by its number, also where symbols have no versions."""
    symbols = proc.run(["nm", str(built.directory / f"{module}.ko")])[1]
    kind = "[A-TV-Z]" if module == "rtrs-core" else "U"
    assert re.search(rf" {kind} rtrs_abi_\d+$", symbols, re.M)


def test_ours_do_not_mix_with_mainlines():
    """No function has the name of one of theirs: theirs cannot use ours, nor ours theirs."""
    exports = re.compile(r"\bEXPORT_SYMBOL(?:_GPL)?\((\w+)\)")
    mainline = modules.kernel_source(suites.find("6.12")) / modules.TRANSPORT
    theirs, ours = ({name for path in top.rglob("*.c") for name in exports.findall(path.read_text())}
                    for top in (mainline, ROOT / "rtrs"))
    assert len(theirs) > 20 and len(ours) > 20 and not theirs & ours


def test_answers_are_the_expected_ones(built, series):
    """A flavour has the answers of its version."""
    assert built.answers == modules.expected_answers(suites.find(series).version)


# 6.12's headers, copied to where their number can be changed.  W=1 as in the build it is
# compared with: warnings about types change the order in which gcc puts things.
FALSIFIED = """
set -e
cp -a /usr/src/linux-headers-$KVER fake
cd fake
for link in scripts tools; do ln -sfn $(readlink -f /usr/src/linux-headers-$KVER/$link) $link; done
sed -i -e 's/\\(LINUX_VERSION_CODE\\) .*/\\1 331264/' -e 's/\\(_MAJOR\\) .*/\\1 5/' \
    -e 's/\\(_PATCHLEVEL\\) .*/\\1 14/' -e 's/\\(_SUBLEVEL\\) .*/\\1 0/' \
    include/generated/uapi/linux/version.h
echo '#define UTS_RELEASE "5.14.0-fake"' >include/generated/utsrelease.h
cd /build
make -C tree modules KDIR=/build/fake KVER=5.14.0-fake W=1
for name in $MODULES; do
    for release in $KVER 5.14.0-fake; do
        objcopy -O binary --only-section=.text tree/build/$release/$name.ko $release.text
    done
    cmp $KVER.text 5.14.0-fake.text
done
"""


@pytest.mark.full
def test_version_number_decides_nothing(copy, series):
    """Headers that call themselves 5.14, as RHEL 9's do: the same answers, the same code."""
    if series != "6.12":
        pytest.skip("a test for 6.12's headers")
    code, output = copy.run(f"KVER={copy.fs.release} MODULES='{' '.join(modules.OURS)}'\n{FALSIFIED}")
    assert code == 0, output
    real, fake = (modinfo(copy.tree / f"build/{release}/rtrs-core.ko", "compat")
                  for release in (copy.fs.release, "5.14.0-fake"))
    assert real == fake
    assert modinfo(copy.tree / "build/5.14.0-fake/rtrs-core.ko", "vermagic").startswith("5.14.0-fake ")


@pytest.mark.full
def test_source_tree_stays_clean(copy):
    assert copy.files() == copy.before


@pytest.mark.full
def test_second_build_compiles_nothing(copy):
    # C=2 checks again by its nature, C=0 does not.
    code, output = copy.make("W=1")
    assert code == 0, output
    assert not re.findall(r"^\s*(?:CC|LD|PROBE|CHECK) .*$", output, re.M)


@pytest.mark.full
def test_removed_source_is_noticed(copy):
    """A file that is gone from the tree is not in the next build."""
    extra = copy.tree / "rtrs/core/zz-extra.c"
    extra.write_text("// SPDX-License-Identifier: GPL-2.0\nvoid rtrs_extra(void);\n"
                     "void rtrs_extra(void)\n{\n}\n")
    assert copy.make("W=1")[0] == 0
    assert (copy.out / "src/rtrs/core/zz-extra.o").is_file()
    extra.unlink()
    code, output = copy.make("W=1")
    assert code == 0, output
    assert not (copy.out / "src/rtrs/core/zz-extra.c").is_symlink()
    assert b"rtrs_extra" not in (copy.out / "rtrs-core.ko").read_bytes()


@pytest.mark.full
def test_vendor_rdma_stack_is_used(copy):
    """Headers of an OFED tree come first, its own prelude too, and the build says so."""
    vendor = copy.work / "ofed/default"
    (vendor / "include/linux").mkdir(parents=True)
    (vendor / "include/linux/compat-2.6.h").write_text("#include <vendor.h>\n")
    (vendor / "include/vendor.h").write_text('#error "the header of the vendor"\n')
    (vendor / "Module.symvers").write_text("")
    code, output = copy.make("OFED_DIR=/build/ofed BUILD=/build/vendor")
    assert code and "vendor RDMA stack in /build/ofed/default" in output
    assert "the header of the vendor" in output
