# SPDX-License-Identifier: GPL-2.0
"""Roots for the tests of packages: overlays on cached root file systems, see roots.py."""

import pytest

import packages
import roots
from vmlab import forms, host, proc


@pytest.fixture(name="scratch", scope="session")
def scratch_fixture():
    """Directories for roots, gone at the end; skips where there can be no overlays."""
    if not roots.is_root():
        pytest.skip("root file systems are for root only")
    scratch = roots.Scratch()
    try:
        try:
            scratch.try_overlay()
        except proc.CommandError as error:
            pytest.skip(f"no overlay can be mounted in {host.CACHE}: {error}")
        yield scratch
    finally:
        scratch.close()


@pytest.fixture(name="name", scope="module", params=roots.NAMES)
def name_fixture(request):
    """Each suite in turn."""
    return request.param


@pytest.fixture(name="chosen", autouse=True)
def chosen_fixture(request):
    """In short runs tests marked `newest` use the newest suite only."""
    if request.node.get_closest_marker("newest") and not forms.full() and \
            request.getfixturevalue("name") != roots.NAMES[-1]:
        pytest.skip("in short runs on the newest suite only")


@pytest.fixture(name="base", scope="module")
def base_fixture(name, scratch):  # pylint: disable=unused-argument
    """The suite's root file system with dkms."""
    return roots.base(name)


@pytest.fixture(name="built", scope="session")
def built_fixture(scratch):  # pylint: disable=unused-argument
    """The directory with the packages of this version."""
    return packages.build()


@pytest.fixture(name="newer", scope="session")
def newer_fixture(scratch):  # pylint: disable=unused-argument
    """The directory with the same packages of a newer version."""
    return packages.build(packages.NEWER)
