# SPDX-License-Identifier: GPL-2.0
"""Ours with mainline's, in both roles and both modes of the server, and on all kernels.

Each test is a cell of the table that `make matrix` prints.  Row B23: write zeroes.
"""

import pytest

import exercise
from vmlab import forms

MODES = pytest.mark.parametrize("invalidate", ["Y", "N"])

# The floor, what everything else is tested on, full preemption, the newest
KERNELS = ["5.10", "6.1", "6.12", "6.12-rt", "7.2", "7.3"]
MAINLINE = pytest.mark.kernels(*forms.short_or_full(["6.12"], KERNELS))


@pytest.mark.matrix("ours with ours")
@pytest.mark.kernels(*forms.short_or_full(["5.10"], KERNELS))
@MODES
def test_first_light(pair, modules, invalidate):
    """Map, write, verify, flush, discard, write zeroes, unmap, unload."""
    exercise.run(pair, None, invalidate=invalidate)


@pytest.mark.matrix("our client, mainline's server")
@MAINLINE
@MODES
def test_our_client_with_mainline_server(pair, modules, mainline, invalidate):
    """The same with mainline's modules of the same kernel."""
    exercise.run(pair, mainline, server="mainline", invalidate=invalidate)


@pytest.mark.matrix("mainline's client, our server")
@MAINLINE
@MODES
def test_mainline_client_with_our_server(pair, modules, mainline, invalidate):
    """The same with the roles exchanged."""
    exercise.run(pair, mainline, client="mainline", invalidate=invalidate)


OLDEST, NEWEST = KERNELS[0], KERNELS[-1]
WITH_MAINLINE = pytest.mark.parametrize("client,server", [("ours", "mainline"), ("mainline", "ours")])


@pytest.mark.matrix("ours with ours")
@pytest.mark.kernels(OLDEST)
@pytest.mark.client_kernel(NEWEST)
def test_newest_client_with_oldest_server(pair, modules):
    """A client of the newest kernel, a server of the oldest."""
    exercise.run(pair, None)


@pytest.mark.full
@pytest.mark.matrix("ours with ours")
@pytest.mark.kernels(NEWEST)
@pytest.mark.client_kernel(OLDEST)
def test_oldest_client_with_newest_server(pair, modules):
    """A client of the oldest kernel, a server of the newest."""
    exercise.run(pair, None)


@pytest.mark.full
@pytest.mark.matrix("ours with mainline's")
@pytest.mark.kernels(OLDEST)
@pytest.mark.client_kernel(NEWEST)
@WITH_MAINLINE
def test_newest_with_oldest_mainline(pair, modules, mainline, client, server):
    """One of them mainline's."""
    exercise.run(pair, mainline, client, server)


@pytest.mark.full
@pytest.mark.matrix("ours with mainline's")
@pytest.mark.kernels(NEWEST)
@pytest.mark.client_kernel(OLDEST)
@WITH_MAINLINE
def test_oldest_with_newest_mainline(pair, modules, mainline, client, server):
    """One of them mainline's."""
    exercise.run(pair, mainline, client, server)
