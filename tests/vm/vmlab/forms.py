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


def kernels(*series):
    """The kernel series to test, those named by KERNELS or all.

    series: none but these; among them may be extra ones
    """
    names = os.environ.get("KERNELS", "").replace(",", " ").split()
    chosen = [suites.find(name) for name in names] or (suites.ALL if series else suites.SUITES)
    return [suite.series for suite in chosen if not series or suite.series in series]
