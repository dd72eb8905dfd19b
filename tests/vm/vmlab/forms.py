# SPDX-License-Identifier: GPL-2.0
"""Short and long forms of tests, and the kernels they run on."""

import os

from . import suites


def full():
    """True in the long form, `make check-full`."""
    return os.environ.get("FULL", "0") not in ("", "0")


def short_or_full(short, long):
    """One of two values, for example loop counts or lists of parameters."""
    return long if full() else short


def kernels():
    """The kernel series to test, all or those named by KERNELS."""
    names = os.environ.get("KERNELS", "").replace(",", " ").split()
    return [suites.find(name).series for name in names] or \
        [suite.series for suite in suites.SUITES]
