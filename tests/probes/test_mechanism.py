# SPDX-License-Identifier: GPL-2.0
"""The compat mechanism itself: probes, guards, answers, precheck, dkms.conf.  Host only, seconds."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPAT = ROOT / "compat"
COMPILE = ["gcc", "-fsyntax-only", "-Werror=implicit-function-declaration",
           "-fno-diagnostics-show-caret"]


def run(*argv, **kwargs):
    """Run a program; returns (exit code, all output)."""
    done = subprocess.run([str(arg) for arg in argv], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **kwargs)
    return done.returncode, done.stdout


@pytest.fixture(name="ask")
def ask_fixture(tmp_path):
    """Ask one probe; returns (exit code, output, answer or None)."""
    def ask(source, symvers=None):
        probe = tmp_path / "question.c"
        probe.write_text(source)
        table = tmp_path / "Module.symvers"
        if symvers is not None:
            table.write_text(symvers)
        answer = tmp_path / "question.answer"
        answer.write_text("stale\n")
        code, output = run(COMPAT / "probe", probe, answer, *COMPILE, env={
            "PATH": "/usr/bin:/bin", "SYMVERS": str(table)})
        return code, output, answer.read_text().strip() if answer.exists() else None
    return ask


def test_probe_yes(ask):
    assert ask("/* 1.0, x: y */\n/* no mentions: f */\nint f(void);\n") == (0, "", "yes")


def test_probe_no_is_explained(ask):
    source = "/* 1.0, x: y */\n/* no mentions: missing */\nint f(void) { return missing(); }\n"
    assert ask(source) == (0, "", "no")


def test_probe_no_for_another_reason_stops_the_build(ask):
    source = "/* 1.0, x: y */\n/* no mentions: missing */\nu32 f(void) { return missing(); }\n"
    code, output, answer = ask(source)
    assert code == 1 and answer is None
    assert "question.c is broken" in output
    assert "u32" in output, "the compiler's words are shown"


def test_probe_without_second_line_stops_the_build(ask):
    code, output, answer = ask("/* 1.0, x: y */\nint f(void);\n")
    assert code == 1 and answer is None and "second line" in output


@pytest.mark.parametrize("symvers, expected", [
    ("0x1\tf\tvmlinux\tEXPORT_SYMBOL_GPL\t\n", "yes"),
    ("0x1\tff\tvmlinux\tEXPORT_SYMBOL\t\n", "no"),
])
def test_probe_of_an_exported_symbol(ask, symvers, expected):
    source = "/* 1.0, x: y */\n/* no mentions: f */\n/* exported: f */\nint f(void);\n"
    assert ask(source, symvers) == (0, "", expected)


def test_probe_of_an_exported_symbol_needs_the_table(ask):
    source = "/* 1.0, x: y */\n/* no mentions: f */\n/* exported: f */\nint f(void);\n"
    code, output, answer = ask(source)
    assert code == 1 and answer is None and "Module.symvers" in output


@pytest.mark.parametrize("compiler, text", [
    ("false", "not even an empty module compiles"),
    ("true", "no probe can be believed"),
])
def test_guards_catch_a_useless_compiler(tmp_path, compiler, text):
    stamp = tmp_path / "guards.ok"
    code, output = run(COMPAT / "guards/check", stamp, COMPAT / "guards", compiler)
    assert code == 1 and text in output and not stamp.exists()


@pytest.fixture(name="join")
def join_fixture(tmp_path):
    """Join answers given as name=value; returns (output, header)."""
    def join(**answers):
        files = []
        for name, value in answers.items():
            files.append(tmp_path / f"{name}.answer")
            files[-1].write_text(value + "\n")
        code, output = run(COMPAT / "answers", tmp_path / "answers.h", *files, env={
            "PATH": "/usr/bin:/bin", "RNBD_RELEASE": "6.1.0-1-amd64", "RNBD_VERSION": "1.2.3",
            "RNBD_COMPILER": "gcc (Debian) 12"})
        assert code == 0, output
        return output, tmp_path / "answers.h"
    return join


def test_answers_header(join):
    output, header = join(b_thing="no", a_thing="yes")
    text = header.read_text()
    assert "#define HAVE_A_THING 1\n#define HAVE_B_THING 0\n" in text
    assert '#define RNBD_VERSION "1.2.3"' in text
    assert "6.1.0-1-amd64" in text and "gcc (Debian) 12" in text
    assert "compat: a_thing: yes\ncompat: b_thing: no\n" in output


def test_answers_header_is_left_alone_and_hash_ignores_order(join):
    first, header = join(a="yes", b="no")
    before = header.stat()
    second, _ = join(b="no", a="yes")
    after = header.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert first.splitlines()[-1] == second.splitlines()[-1]
    third, _ = join(a="yes", b="yes")
    assert third.splitlines()[-1] != first.splitlines()[-1]


OPTIONS = ["CONFIG_MODULES=y", "CONFIG_BLOCK=y", "CONFIG_SYSFS=y",
           "CONFIG_INFINIBAND_ADDR_TRANS=y"]


@pytest.fixture(name="kdir")
def kdir_fixture(tmp_path):
    """Make something that looks like a kernel's build directory."""
    def kdir(release="6.1.0-1-amd64", options=tuple(OPTIONS)):
        directory = tmp_path / "kernel"
        (directory / "include/config").mkdir(parents=True)
        (directory / "include/generated").mkdir()
        (directory / "Makefile").write_text("")
        (directory / "include/config/auto.conf").write_text("\n".join(options) + "\n")
        (directory / "include/generated/utsrelease.h").write_text(
            f'#define UTS_RELEASE "{release}"\n')
        return directory
    return kdir


def refusal(directory, release):
    """The three lines of a refusal."""
    code, output = run(COMPAT / "precheck", directory, release)
    lines = output.splitlines()
    assert code == 2 and len(lines) == 3, output
    assert all(line.startswith("rnbd: ") for line in lines)
    assert lines[1] == f"rnbd: kernel: {release}"
    return lines[0]


def test_precheck_is_silent_when_all_is_well(kdir):
    assert run(COMPAT / "precheck", kdir(), "6.1.0-1-amd64") == (0, "")


def test_precheck_no_headers(tmp_path):
    assert "no kernel build directory" in refusal(tmp_path / "none", "6.1.0-1-amd64")


def test_precheck_not_a_build_directory(tmp_path):
    assert "no Makefile" in refusal(tmp_path, "6.1.0-1-amd64")


def test_precheck_not_configured(kdir):
    directory = kdir()
    (directory / "include/config/auto.conf").unlink()
    assert "no configuration" in refusal(directory, "6.1.0-1-amd64")


def test_precheck_not_prepared(kdir):
    directory = kdir()
    (directory / "include/generated/utsrelease.h").unlink()
    assert "not prepared" in refusal(directory, "6.1.0-1-amd64")


def test_precheck_of_another_kernel(kdir):
    assert "belongs to kernel 6.1.0-1-amd64" in refusal(kdir(), "6.1.0-2-amd64")


def test_precheck_below_the_floor(kdir):
    assert "older than" in refusal(kdir("4.19.0"), "4.19.0")


def test_precheck_release_without_version(kdir):
    assert "cannot read a version" in refusal(kdir("mainline"), "mainline")


def test_precheck_above_the_ceiling_warns_and_goes_on(kdir):
    code, output = run(COMPAT / "precheck", kdir("99.0.1"), "99.0.1")
    assert code == 0 and "newer than" in output and len(output.splitlines()) == 1


@pytest.mark.parametrize("missing", OPTIONS)
def test_precheck_missing_option(kdir, missing):
    directory = kdir(options=[option for option in OPTIONS if option != missing])
    assert f"without {missing[:-2]} " in refusal(directory, "6.1.0-1-amd64")


def build(tmp_path, kdir, where="build"):
    """compat/build for something that is no kernel; returns (exit code, what we say)."""
    code, output = run(COMPAT / "build", env={
        "PATH": "/usr/bin:/bin", "KDIR": str(kdir), "BUILD": str(tmp_path / where)})
    return code, [line for line in output.splitlines() if line.startswith("rnbd: ")]


def test_build_that_cannot_be_is_no_bug(tmp_path, kdir):
    """Three lines, none that asks for a report, and nothing is left."""
    code, lines = build(tmp_path, kdir("4.19.0"))
    assert code == 2 and len(lines) == 3, lines
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize("where", ["with space", "with:colon"])
def test_path_that_no_kernel_builds_in(tmp_path, kdir, where):
    """The kernel's make would say so in words of its own."""
    code, lines = build(tmp_path, kdir(), where)
    assert code == 1 and len(lines) == 1 and where in lines[0], lines


def test_precheck_option_in_dot_config(kdir):
    directory = kdir()
    (directory / "include/config/auto.conf").rename(directory / ".config")
    assert run(COMPAT / "precheck", directory, "6.1.0-1-amd64") == (0, "")


def test_build_failure_ends_with_kernel_version_and_where_to_report(tmp_path, kdir):
    """Where the kernel's make fails, as here for want of a Makefile."""
    code, lines = build(tmp_path, kdir())
    version = (ROOT / "VERSION").read_text().strip()
    assert code == 1 and len(lines) == 1
    assert version in lines[0] and "6.1.0-1-amd64" in lines[0] and "report" in lines[0]


def dkms(function="read_conf", **variables):
    """What dkms would read from dkms.conf in one of its functions, as bash sees it."""
    script = (f'set -u; {function}() {{ . "$1"; }}; {function} "$1"; '
              'declare -p PACKAGE_NAME PACKAGE_VERSION MAKE CLEAN '
              'BUILT_MODULE_NAME BUILT_MODULE_LOCATION DEST_MODULE_LOCATION; '
              'echo "exclusive=${BUILD_EXCLUSIVE_KERNEL:-}"')
    code, output = run("bash", "-c", script, "bash", ROOT / "dkms.conf", env={
        "PATH": "/usr/bin:/bin", "kernelver": "", "kernel_source_dir": "", **variables})
    assert code == 0, output
    return output


def test_dkms_conf_names_this_version_and_all_modules():
    text = (ROOT / "dkms.conf").read_text()
    version = (ROOT / "VERSION").read_text().strip()
    assert f'\nPACKAGE_VERSION="{version}"\n' in text
    output = dkms(kernelver="6.1.0-1-amd64", kernel_source_dir="/none", parallel_jobs="3")
    for module in ("rtrs-core", "rtrs-client", "rtrs-server", "rnbd-client", "rnbd-server"):
        assert f'="{module}"' in output
    assert output.count('"build/6.1.0-1-amd64/"') == 5
    assert "'make' -j3 modules BUILD=build ONLY= KVER=6.1.0-1-amd64 KDIR=/none" in output


def test_dkms_conf_can_be_read_without_a_kernel():
    assert "exclusive=\n" in dkms()


def test_dkms_conf_skips_a_kernel_that_precheck_refuses(kdir):
    """A skip and no failure; only who builds is told why."""
    refused = {"kernelver": "6.1.0-1-amd64",
               "kernel_source_dir": str(kdir(options=OPTIONS[:-1]))}
    told = dkms("do_build", **refused)
    assert "exclusive=REFUSED" in told
    assert len(re.findall("^rnbd: .*$", told, re.M)) == 3
    assert f"without {OPTIONS[-1][:-2]} " in told
    assert "exclusive=REFUSED" in dkms(**refused) and "rnbd: " not in dkms(**refused)


@pytest.mark.parametrize("words", [("-k", "6.1.0-none/x86_64"), ("--kernelver=6.1.0-none",)])
def test_dkms_conf_wants_no_installation_that_cannot_be(words):
    """Of dkms autoinstall, whose command line has the kernel."""
    script = 'autoinstall() { . "$1"; echo "wanted=$AUTOINSTALL"; }; autoinstall "$1"'
    code, output = run("bash", "-c", script, "bash", ROOT / "dkms.conf", *words,
                       env={"PATH": "/usr/bin:/bin"})
    assert code == 0 and output.endswith("wanted=\n"), output
    assert len(re.findall("^rnbd: .*$", output, re.M)) == 3 and "kernel: 6.1.0-none\n" in output


def test_dkms_conf_skips_a_kernel_without_headers():
    told = dkms("prepare_build", kernelver="6.1.0-none")
    assert "exclusive=REFUSED" in told and "rnbd: no kernel build directory" in told


def test_dkms_conf_takes_a_kernel_that_has_all(kdir):
    output = dkms(kernelver="6.1.0-1-amd64", kernel_source_dir=str(kdir()))
    assert "exclusive=\n" in output


def test_dkms_conf_asks_for_no_newer_dkms():
    """dh_dkms looks for these words anywhere, and makes packages depend on what Debian 11 lacks."""
    text = (ROOT / "dkms.conf").read_text()
    assert not re.search(r"BUILD_EXCLUSIVE_(CONFIG|KERNEL_MIN|KERNEL_MAX)=", text)
