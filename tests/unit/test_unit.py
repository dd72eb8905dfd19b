# SPDX-License-Identifier: GPL-2.0
"""The host unit tests: one result per cmocka test case.

Every test_*.c here is a program.  All are built once into build/unit (with gcc,
AddressSanitizer and UBSan) and each is run once; its cases are then reported one
by one.  The same programs are built and run with clang as a whole.
"""

import functools
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
VECTORS = HERE / "vectors.txt"

PROGRAMS = sorted(p.stem for p in HERE.glob("test_*.c"))


def cases(program):
    """Names of the test cases, as they stand in the program's list."""
    text = (HERE / f"{program}.c").read_text()
    return re.findall(r"cmocka_unit_test\((\w+)\)", text)


ALL = [(p, c) for p in PROGRAMS for c in cases(p)]


def make(compiler, *argv):
    """Run make for one compiler; returns the finished process and the output directory."""
    out = BUILD / ("unit" if compiler == "gcc" else f"unit-{compiler}")
    done = subprocess.run(
        ["make", "-s", f"CC={compiler}", f"OUT={out}", *(arg.format(out=out) for arg in argv)],
        cwd=HERE, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")})
    return done, out


@functools.cache
def build_all(compiler):
    """All programs at once, on all processors; who fails is told by build()."""
    make(compiler, "-k", f"-j{os.cpu_count()}", "all")


def build(program, compiler):
    """Build one program; returns its path (None on failure) and what the compiler said."""
    build_all(compiler)
    done, out = make(compiler, "{out}/" + program)
    return (None if done.returncode else out / program), done.stdout


class Run:
    """One run of one program."""

    def __init__(self, program, compiler):
        self.results = {}
        self.path, self.output = build(program, compiler)
        self.status = None
        if self.path:
            self._run(program)

    def _run(self, program):
        report = self.path.with_suffix(".xml")
        report.unlink(missing_ok=True)
        env = dict(os.environ, VECTORS=str(VECTORS),
                   CMOCKA_MESSAGE_OUTPUT="XML", CMOCKA_XML_FILE=str(report),
                   # a failed assertion jumps over free(): not the news
                   ASAN_OPTIONS="detect_leaks=0",
                   UBSAN_OPTIONS="print_stacktrace=1")
        try:
            run = subprocess.run([str(self.path)], env=env, text=True,
                                 errors="replace", timeout=120,
                                 stdout=subprocess.PIPE, check=False,
                                 stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as expired:
            self.output = f"{program} hangs\n{expired.output or ''}"
            return
        self.status = run.returncode
        self.output = run.stdout
        if report.exists():
            for case in ElementTree.parse(report).iter("testcase"):
                failure = case.find("failure")
                self.results[case.get("name")] = (
                    None if failure is None else failure.text or "failed")


@functools.cache
def run(program, compiler):
    return Run(program, compiler)


@pytest.mark.parametrize("program,case", ALL,
                         ids=[f"{p.removeprefix('test_')}-{c}" for p, c in ALL])
def test_case(program, case):
    this = run(program, "gcc")
    if case not in this.results:
        pytest.fail(f"{program} ended with status {this.status} before "
                    f"{case} had a result\n{this.output}", pytrace=False)
    if this.results[case] is not None:
        pytest.fail(f"{program}: {case}\n{this.results[case]}\n{this.output}",
                    pytrace=False)


@pytest.mark.parametrize("program", PROGRAMS,
                         ids=[p.removeprefix("test_") for p in PROGRAMS])
def test_clang(program):
    this = run(program, "clang")
    failed = [c for c in cases(program) if this.results.get(c, "") is not None]
    if this.status != 0 or failed:
        pytest.fail(f"{program}, built by clang, status {this.status}, "
                    f"not passed: {' '.join(failed)}\n{this.output}",
                    pytrace=False)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("header", ["rtrs/wire.h", "rnbd/wire.h"])
def test_header_alone(header, compiler):
    """The wire headers need nothing around them and are plain C11."""
    done = subprocess.run(
        [compiler, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra",
         "-Werror", "-fsyntax-only", f"-I{ROOT}/tests/include", f"-I{ROOT}",
         "-x", "c", "-"],
        input=f'#include "{header}"\nint main(void) {{ return 0; }}\n',
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        pytest.fail(done.stdout, pytrace=False)


def test_every_vector_is_used():
    """A vector that no program loads would prove nothing."""
    names = re.findall(r"^\[(\w+)\]$", VECTORS.read_text(), re.M)
    sources = "".join((HERE / f"{p}.c").read_text() for p in PROGRAMS)
    assert len(names) == len(set(names)) > 40
    assert [n for n in names if f'"{n}"' not in sources] == []


def test_every_case_is_listed():
    """A static function that looks like a case but is not in the list."""
    for program in PROGRAMS:
        text = (HERE / f"{program}.c").read_text()
        written = re.findall(r"^static void (\w+)\(void \*\*state\)", text,
                             re.M)
        assert written and sorted(written) == sorted(cases(program)), program
