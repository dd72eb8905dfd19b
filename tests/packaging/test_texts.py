# SPDX-License-Identifier: GPL-2.0
"""What packages say about the project: versions, parameters, hooks.  Reads files only."""

import re
import subprocess

import pytest

import packages
from vmlab import host, modules

ROOT = host.ROOT
OPTION = re.compile(r"^#options ([\w-]+) (\w+)=\S+$", re.M)


@pytest.mark.parametrize("name", packages.VERSIONS)
def test_one_version_everywhere(name):
    text = (ROOT / name).read_text()
    pattern = {"VERSION": r"\A(\S+)$", "dkms.conf": r'^PACKAGE_VERSION="(.*)"$',
               "debian/changelog": r"\Arnbd \((.*)\) ", "rpm/rnbd-dkms.spec": r"^Version: +(\S+)$"}
    assert re.search(pattern[name], text, re.M)[1] == packages.VERSION


def test_rpm_changelog_has_this_version():
    text = (ROOT / "rpm/rnbd-dkms.spec").read_text()
    release = re.search(r"^Release: +(\w+)", text, re.M)[1]
    first = re.search(r"%changelog\n\*.* - (\S+)\n", text)[1]
    assert first == f"{packages.VERSION}-{release}"


@pytest.mark.parametrize("folder", ["rtrs/core", "rtrs/client", "rtrs/server",
                                    "rnbd/client", "rnbd/server"])
def test_every_parameter_can_be_set(folder):
    """In modprobe.d/rnbd.conf, where nothing else is."""
    text = (ROOT / "tools/modprobe.d/rnbd.conf").read_text()
    module = folder.replace("/", "-")
    assert sorted(name for where, name in OPTION.findall(text) if where == module) == \
        sorted(packages.parameters(folder))


def test_no_parameter_is_set_and_nothing_is_loaded():
    text = (ROOT / "tools/modprobe.d/rnbd.conf").read_text()
    assert {where for where, _ in OPTION.findall(text)} <= set(modules.OURS)
    assert not [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(OPTION.findall(text)) == len(re.findall("^#options", text, re.M))


@pytest.mark.parametrize("where, pattern", [
    ("debian/rnbd-dkms.install", r"^(\S+)\s+usr/src/"), ("rpm/rnbd-dkms.spec", r"^cp -a (.*) \S+$"),
])
def test_whole_directories_are_installed(where, pattern):
    """No list of files that someone would have to keep."""
    names = " ".join(re.findall(pattern, (ROOT / where).read_text(), re.M)).split()
    assert {"rtrs", "rnbd", "compat", "Kbuild", "Makefile", "VERSION", "LICENSE"} == \
        set(names) - {"dkms.conf"}


def test_initramfs_hook_is_off(tmp_path):
    """And says so to who asks what must come before it."""
    hook = ROOT / "tools/initramfs-tools/hooks/rnbd"
    for arguments in (["prereqs"], []):
        done = subprocess.run([hook, *arguments], cwd=tmp_path, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0 and not done.stdout.strip()


def test_dracut_module_is_off():
    """255: only for who adds it."""
    setup = ROOT / "tools/dracut/95rnbd/module-setup.sh"
    done = subprocess.run(["bash", "-c", '. "$1" && check', "bash", setup], check=False)
    assert done.returncode == 255
