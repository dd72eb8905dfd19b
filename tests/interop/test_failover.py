# SPDX-License-Identifier: GPL-2.0
"""Several paths with mainline on one side: failover, and no corruption by a server without a fence."""

import itertools

import pytest

import multipath
import rnbd
from multipath import FAST, Session, Watch, verified_io
from vmlab import forms, host

pytestmark = [pytest.mark.kernels("6.12"), pytest.mark.links(2)]

# Mainline's own heartbeat: five seconds, five of them missed
MAINLINE_EXPIRY = 35
RECONNECT_DELAY = 30


@pytest.fixture(name="theirs")
def theirs_fixture(pair, modules, mainline):
    """A function that loads mainline's server and our client; unloads both at the end."""
    def load(**parameters):
        pair.setup_rxe()
        mainline.load(pair.server, "server", **{key: value for key, value in parameters.items()
                                                if key.startswith("rtrs_server")})
        rnbd.load(pair, server=False, **FAST)

    yield load
    if pair.alive and "rnbd_client" in pair.client.loaded_modules():
        rnbd.remove_module(pair.client, "rnbd_client")
        rnbd.assert_gone(pair.client)
        mainline.unload(pair.server, "server")


HUNG = forms.short_or_full(
    [("alone", "64k", "Y"), ("alone", "4k", "N"), ("two-paths", "64k", "N")],
    list(itertools.product(("alone", "two-paths"), ("4k", "64k"), "YN")))


@pytest.mark.parametrize("how,block,invalidate", HUNG)
def test_hung_buffer_of_mainline(pair, theirs, how, block, invalidate):
    """Row X01: mainline's server does not fence; our client uses no id that may still be busy."""
    theirs(rtrs_server__always_invalidate=invalidate, rtrs_server__sess_queue_depth=16)
    multipath.hung_buffer(pair, block, how)


@pytest.mark.full
@pytest.mark.parametrize("invalidate", ["Y", "N"])
def test_the_recipe_can_fail(pair, mainline, invalidate):
    """Row X01 with mainline on both sides, as a proof of the recipe: 6.12's corrupts data."""
    pair.setup_rxe()
    mainline.load(pair.server, "server", rtrs_server__always_invalidate=invalidate,
                  rtrs_server__sess_queue_depth=16)
    mainline.load(pair.client, "client")
    with pytest.raises(AssertionError, match=multipath.MIXED_UP):
        multipath.hung_buffer(pair, "64k", "alone")


@pytest.mark.parametrize("invalidate", ["Y", "N"])
def test_paths_of_our_client(pair, theirs, kernel, invalidate):
    """Our client with mainline's server: paths removed, added, disconnected; a link down and up."""
    theirs(rtrs_server__always_invalidate=invalidate)
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "paths", 256))
    session.policy = "round-robin"
    with verified_io(pair.client, disk):
        for number in range(forms.short_or_full(2, 10)):
            path = number % 2
            session.wait_traffic(0, 1)
            session.remove(path)
            session.wait_traffic(1 - path)
            session.add(path)
            session.wait_traffic(0, 1)
            session.do(path, "disconnect")
            session.wait_traffic(1 - path)
            session.do(path, "reconnect")
        watch = Watch(session)
        pulled = watch.now()
        pair.client.cable(0, False)
        detection = watch.wait_state(0, pulled, "disconnected", 20)
        session.wait_traffic(1)
        plugged = watch.now()
        pair.client.cable(0, True)
        # Until mainline's server misses it, too, it refuses the path.
        recovery = watch.wait_state(0, plugged, "connected",
                                    MAINLINE_EXPIRY + RECONNECT_DELAY * 1.5)
        session.wait_traffic(0, 1)
        watch.stop()
    host.progress(f"MEASURED {kernel}: our client, mainline's server: detection {detection:.1f} s, "
                  f"recovery {recovery:.1f} s")
    assert detection <= multipath.DETECTION + multipath.LATE
    rnbd.unmap(pair, disk)
    rnbd.remove_null_blk(pair.server, "paths")


@pytest.mark.parametrize("invalidate", ["Y", "N"])
def test_paths_of_mainline_client(pair, modules, mainline, invalidate):
    """Mainline's client with our server: paths removed, added, disconnected under load."""
    rnbd.load(pair, client=False, rtrs_server__always_invalidate=invalidate, **FAST)
    mainline.load(pair.client, "client")
    session = Session(pair)
    disk = session.map(rnbd.null_blk(pair.server, "paths", 256))
    session.policy = "round-robin"
    with verified_io(pair.client, disk):
        for number in range(forms.short_or_full(2, 10)):
            path = number % 2
            session.wait_traffic(0, 1)
            session.remove(path)
            session.wait_traffic(1 - path)
            session.add(path)
            session.wait_traffic(0, 1)
            session.do(path, "disconnect")
            session.wait_traffic(1 - path)
            session.do(path, "reconnect")
        session.wait_traffic(0, 1)
    rnbd.unmap(pair, disk)
    rnbd.remove_null_blk(pair.server, "paths")
    mainline.unload(pair.client, "client")
    rnbd.remove_module(pair.server, "rnbd_server")
    rnbd.assert_gone(pair.server)
