# SPDX-License-Identifier: GPL-2.0
"""Who may write: the table "Writers of one block device" in rnbd/README.md, all of it."""

import errno
import itertools

import pytest

import raw
import rnbd
from multipath import FAST, Session
from raw import RawClient
from vmlab import forms

pytestmark = pytest.mark.newest

TRIPLES = list(itertools.product(raw.MODES, repeat=3))
PAIRS = list(itertools.product(raw.MODES, repeat=2))


def granted(mode, others):
    """What the table says: OK or EPERM, for what others have open."""
    writers = sum(other != "ro" for other in others)
    allowed = {"ro": True, "rw": writers == 0, "migration": writers <= 1}[mode]
    return "OK" if allowed else "EPERM"


class RawUser:
    """A client of our own that opens and closes a device."""

    def __init__(self, pair, device):
        self.client = RawClient(pair)
        self.name = self.client.name
        self.device = device
        self._id = None

    def open(self, mode):
        """OK or the errno's name."""
        answer, = self.client.ask(raw.open_device(self.device, raw.MODES.index(mode)))
        if answer.error == "OK":
            self._id = answer.device_id
        return answer.error

    def close(self):
        """Close what is open."""
        assert self.client.errors(raw.close(self._id)) == ["OK"]

    def end(self):
        """End the session."""
        self.client.end()


class OrdinaryUser:
    """A session of the ordinary client; another device keeps it when this one is not mapped."""

    def __init__(self, pair, device, anchor):
        self.pair = pair
        self.session = Session(pair)
        self.name = self.session.name
        self.device = device
        self._anchor = self.session.map(anchor, [0], access_mode="ro")
        self._disk = None

    def open(self, mode):
        """OK or the errno's name."""
        try:
            self._disk = self.session.map(self.device, [0], access_mode=mode)
        except OSError as error:
            return errno.errorcode[error.errno]
        return "OK"

    def close(self):
        """Unmap it."""
        rnbd.unmap(self.pair, self._disk)

    def end(self):
        """Unmap the rest."""
        rnbd.unmap(self.pair, self._anchor)


class Table:
    """Some users of one device; what they get is compared with the table."""

    def __init__(self, pair, device, users):
        self.server = pair.server
        self.nodes = f"/sys/class/rnbd-server/ctl/devices/{device[5:]}/sessions"
        self.users = users
        self.held = {}
        self.wrong = []

    def open(self, user, mode):
        """One more asks for the device."""
        expected = granted(mode, self.held.values())
        got = user.open(mode)
        if got != expected:
            self.wrong.append(f"{mode} beside {list(self.held.values())}: {got}, not {expected}")
        if got == "OK":
            self.held[user] = mode

    def close(self, user):
        """One leaves."""
        user.close()
        del self.held[user]

    def check_nodes(self):
        """The server's sysfs shows who has the device open, and how."""
        found = {path.split("/")[-2]: self.server.read(path)
                 for path in self.server.glob(f"{self.nodes}/*/access_mode")}
        assert found == {user.name: mode for user, mode in self.held.items()}

    def run(self, modes, leaver):
        """All ask in this order; one of those that got it leaves; the others ask again."""
        for user, mode in zip(self.users, modes):
            self.open(user, mode)
        self.check_nodes()
        self.close(list(self.held)[leaver % len(self.held)])
        for user, mode in zip(self.users, modes):
            if user not in self.held:
                self.open(user, mode)
        self.check_nodes()
        for user in list(self.held):
            self.close(user)

    def end(self):
        """Nothing was wrong; all leave."""
        assert not self.wrong, "\n".join(self.wrong)
        for user in self.users:
            user.end()


def test_three_clients(pair, modules):
    """Row B36: every ordered triple of modes; one (long: each) leaves, the others ask again."""
    rnbd.load(pair, **FAST)
    device = rnbd.null_blk(pair.server, "modes", 4)
    table = Table(pair, device, [RawUser(pair, device) for _ in range(3)])
    for number, modes in enumerate(TRIPLES):
        for leaver in forms.short_or_full([number % 3], range(3)):
            table.run(modes, leaver)
    table.end()
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "modes")


def test_ordinary_clients(pair, modules):
    """Every ordered pair (long: triple) of modes, mapped through sysfs."""
    rnbd.load(pair, **FAST)
    device, anchor = (rnbd.null_blk(pair.server, name, 4) for name in ("modes", "anchor"))
    combinations = forms.short_or_full(PAIRS, TRIPLES)
    table = Table(pair, device, [OrdinaryUser(pair, device, anchor) for _ in combinations[0]])
    for modes in combinations:
        for leaver in forms.short_or_full([0], range(3)):
            table.run(modes, leaver)
    table.end()
    for name in ("modes", "anchor"):
        rnbd.remove_null_blk(pair.server, name)
    rnbd.unload(pair)


def test_one_client_twice(pair, modules):
    """The ordinary client does not map a name twice, in whatever mode: EEXIST."""
    rnbd.load(pair, **FAST)
    device = rnbd.null_blk(pair.server, "modes", 4)
    session = Session(pair)
    for mode, second in PAIRS:
        disk = session.map(device, [0], access_mode=mode)
        with pytest.raises(OSError) as caught:
            session.map(device, [0], access_mode=second)
        assert caught.value.errno == errno.EEXIST
        rnbd.unmap(pair, disk)
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "modes")


def test_writers_that_vanish(pair, modules):
    """Row B36: a client that dies without CLOSE is no writer any more."""
    rnbd.load(pair, **FAST)
    device = rnbd.null_blk(pair.server, "modes", 4)
    last = RawUser(pair, device)
    for modes in (("rw",), ("migration", "migration"), ("rw", "migration")):
        users = [RawUser(pair, device) for _ in modes]
        assert [user.open(mode) for user, mode in zip(users, modes)] == ["OK"] * len(modes)
        assert last.open("rw") == "EPERM"
        for user in users:
            user.client.kill()
        pair.server.wait_for(lambda: last.open("rw") == "OK", 30, "the writers are gone")
        last.close()
    last.end()
    rnbd.unload(pair)
    rnbd.remove_null_blk(pair.server, "modes")
