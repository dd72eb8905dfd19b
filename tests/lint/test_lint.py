# SPDX-License-Identifier: GPL-2.0
"""Checks that read the sources and build nothing."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from vmlab import modules, suites

ROOT = Path(__file__).resolve().parents[2]
KERNEL_C = sorted(path for top in ("rtrs", "rnbd", "compat/include")
                  for path in (ROOT / top).rglob("*.[ch]"))
DRIVER_C = [path for path in KERNEL_C if "compat" not in path.relative_to(ROOT).parts]
# About 800; a file that needs a few more is not worth a split.
LINES_IN_A_ROOM = 850


def listed():
    """The project's own files: tracked or about to be, never what was built."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                           stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def name(path):
    """A path as a person would write it."""
    return str(path.relative_to(ROOT))


def matches(paths, pattern):
    """FILE:LINE: TEXT of every line that matches."""
    return [f"{name(path)}:{number}: {line.strip()}"
            for path in paths
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if re.search(pattern, line)]


def test_there_is_something_to_check():
    assert {path.relative_to(ROOT).parts[:2] for path in DRIVER_C} >= {
        ("rtrs", "core"), ("rtrs", "client"), ("rtrs", "server"),
        ("rnbd", "client"), ("rnbd", "server")}


def test_no_kernel_condition_outside_compat():
    assert not matches(DRIVER_C, r"LINUX_VERSION|KERNEL_VERSION|RHEL_|\bHAVE_\w|__has_include")


def test_no_ifdef_of_a_compat_answer():
    """#ifdef is always true: the macros are 0 or 1."""
    assert not matches(KERNEL_C, r"#\s*(ifn?def|elifn?def)\s+HAVE_|defined\s*\(?\s*HAVE_")


def test_files_are_rooms_not_halls():
    assert not [f"{name(path)}: {count} lines" for path in DRIVER_C
                if (count := len(path.read_text().splitlines())) > LINES_IN_A_ROOM]


def scripts(interpreter):
    """The files that begin with #! and name an interpreter."""
    pattern = re.compile(rb"#!.*\b" + interpreter + rb"\b")
    return [path for path in listed() if pattern.match(path.read_bytes()[:80])]


def test_every_source_names_its_licence():
    sources = [path for path in listed()
               if path.suffix in (".c", ".h", ".py", ".sh", ".mk") or path.name in ("Kbuild", "Makefile")]
    sources += scripts(b"sh") + scripts(b"bash") + scripts(b"python3")
    # A probe's first two lines are its record; LICENSE covers it as all else.
    small = ("compat/probes/", "compat/guards/")
    assert not sorted({name(path) for path in sources if path.stat().st_size
                       and not name(path).startswith(small)
                       and "SPDX-License-Identifier: GPL-2.0" not in path.read_text()[:200]})


def test_text_is_tidy():
    untidy = []
    for path in listed():
        text = path.read_bytes()
        if path.suffix in (".patch",) or b"\0" in text:
            continue
        if text and not text.endswith(b"\n"):
            untidy.append(f"{name(path)}: no newline at the end")
        if path.suffix != ".md" and path.name != "LICENSE" and re.search(rb"[ \t]+$", text, re.M):
            untidy.append(f"{name(path)}: white space at the end of a line")
        if b"\r" in text:
            untidy.append(f"{name(path)}: carriage return")
    assert not untidy


def test_shellcheck():
    shell = scripts(b"sh") + scripts(b"bash") + [ROOT / "dkms.conf"]
    done = subprocess.run(["shellcheck", "--", *shell], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout


def test_python_compiles():
    python = {path for path in listed() if path.suffix == ".py"} | set(scripts(b"python3"))
    for path in sorted(python):
        compile(path.read_text(), name(path), "exec")


@pytest.fixture(name="checkpatch", scope="module")
def checkpatch_fixture():
    """checkpatch.pl and its word lists: Debian has them only inside its kernel source packages."""
    return modules.kernel_source(suites.find("6.12")) / modules.CHECKPATCH


def complaints(script, paths, *options):
    """The errors and warnings of checkpatch; the finer checks of --strict are advice."""
    done = subprocess.run(["perl", script, "--terse", *options, "-f", *map(str, paths)], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode in (0, 1), done.stdout
    return re.findall(r"^.*: (?:ERROR|WARNING):.*$", done.stdout, re.M)


@pytest.mark.late
def test_checkpatch_notices_what_is_wrong(checkpatch, tmp_path):
    bad = tmp_path / "bad.c"
    bad.write_text("// SPDX-License-Identifier: GPL-2.0\nint f(int a) {\n\treturn(a) ;\n}\n")
    assert len(complaints(checkpatch, [bad])) >= 2


@pytest.mark.late
def test_checkpatch_of_the_drivers(checkpatch):
    assert not complaints(checkpatch, DRIVER_C)


@pytest.mark.late
def test_checkpatch_of_the_adapters(checkpatch):
    """An adapter may define a type that the kernel lacks, and ignore an argument."""
    assert not complaints(checkpatch, [path for path in KERNEL_C if path not in DRIVER_C],
                          "--ignore", "NEW_TYPEDEFS,MACRO_ARG_UNUSED")


def test_originality():
    """The share of code that stands word for word in mainline's drivers, where the tool is at hand."""
    tool = Path(os.environ.get("ORIGINALITY") or ROOT.parent / "shared/tools/originality")
    if not tool.is_file():
        pytest.skip("the fingerprint tool is not on this machine (ORIGINALITY=FILE names it)")
    done = subprocess.run([tool], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
