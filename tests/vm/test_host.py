# SPDX-License-Identifier: GPL-2.0
"""What the harness reads from the machine it runs on; needs no machine of its own."""

import pytest

from vmlab import cache, host, suites

DEB822 = """
# a comment
Types: deb deb-src
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://mirror.example/security
Suites:
 bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: trixie
Components: main
"""
ONE_LINE = """
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/a.gpg] https://third.example/repo stuff main
deb [ trusted=yes ] http://mirror.example/debian bookworm main contrib # words
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/security bookworm-security main
"""


@pytest.mark.parametrize("name, text", [
    ("sources.list.d/debian.sources", DEB822),
    ("sources.list.d/debian.list", ONE_LINE),
    ("sources.list", ONE_LINE),
], ids=["deb822", "one-line", "sources.list"])
def test_mirror_is_found(tmp_path, name, text):
    """In both formats, wherever apt looks for them."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert host.mirrors(host.apt_entries(tmp_path)) == \
        ("http://mirror.example/debian", "http://mirror.example/security")


def test_no_mirror_is_an_error(tmp_path):
    """A machine without Debian sources is told so."""
    with pytest.raises(host.SetupError, match="no Debian mirror"):
        host.mirrors(host.apt_entries(tmp_path))


class FakeApt:
    """An archive with a few kernels."""

    suite = suites.find("trixie")
    images = {"linux-image-6.12.9+deb13-amd64": "6.12.9-1",
              "linux-image-6.12.10+deb13-amd64": "6.12.10-1",
              "linux-image-6.12.11+deb13-amd64": "6.12.11-1",
              "linux-image-6.12.12+deb13-cloud-amd64": "6.12.12-1",
              "linux-image-6.12.12+deb13-rt-amd64": "6.12.12-1",
              "linux-image-6.12.12+deb13-amd64-unsigned": "6.12.12-1"}

    def names(self, prefix):
        """The newest image comes without headers."""
        headers = [name.replace("image", "headers") for name in self.images
                   if "6.12.11" not in name]
        return [name for name in [*self.images, *headers] if name.startswith(prefix)]

    def version(self, package):
        """The version of an image."""
        return self.images[package]


def test_newest_stock_kernel_with_headers_is_chosen():
    """By Debian's order of versions; not a cloud, -rt or unsigned one."""
    assert suites.newest_kernel(FakeApt(), "6.12") == "6.12.10+deb13-amd64"
    assert suites.newest_kernel(FakeApt(), "6.12", "rt") == "6.12.12+deb13-rt-amd64"
    with pytest.raises(host.SetupError, match="no kernel 5.10"):
        suites.newest_kernel(FakeApt(), "5.10")


def test_cache_keeps_what_fits_only(tmp_path, monkeypatch):
    """An entry is made once; one that nobody uses goes when its successor comes."""
    monkeypatch.setattr(host, "CACHE", tmp_path)
    made = []

    def make(directory):
        made.append(directory)
        (directory / "file").write_text("whole")

    first = cache.entry("thing", "1" * 20, make)
    assert cache.entry("thing", "1" * 20, make) == first and len(made) == 1
    assert (first / "file").read_text() == "whole"
    cache.release(first)
    second = cache.entry("thing", "2" * 20, make)
    assert second.exists() and not first.exists()
    cache.entry("thing", "3" * 20, make)
    assert second.exists(), "it is in use"

    def fail(_directory):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cache.entry("thing", "4" * 20, fail)
    assert not list(tmp_path.glob("*4444*")) and not list(tmp_path.glob(".making*"))
