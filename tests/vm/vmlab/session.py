# SPDX-License-Identifier: GPL-2.0
"""The machines of one test run: made ready in the background, kept from test to test."""

import threading

from . import channel, host, modules, pair, rootfs

# Unloading starts with the modules that use the others.
UNLOAD = [name.replace("-", "_") for name in reversed(modules.OURS)]


class Background:
    """A value that a thread makes while tests that do not need it run."""

    def __init__(self, function, *arguments):
        self._value = None
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self._thread.start()

    def _run(self, function, arguments):
        try:
            self._value = function(*arguments)
        except Exception as error:
            self._error = error

    def get(self):
        """Wait for the value; raises what the thread raised."""
        self._thread.join()
        if self._error:
            raise self._error
        return self._value


class Session:
    """Hands out what tests need; only one pair runs at a time."""

    def __init__(self):
        self._values = {}
        self.pair = None

    def prepare(self, name, suite, function):
        """Start to make a value of a suite once its images are there; get() fetches it."""
        def make():
            if name != "images":
                self.get("images", suite)
            return function(suite)

        if (name, suite) not in self._values:
            self._values[name, suite] = Background(make)

    def get(self, name, suite):
        """A value that prepare() has started."""
        return self._values[name, suite].get()

    def pair_for(self, suite, links):
        """A clean pair of machines: the current one if it lives and fits, else a new one."""
        self.get("images", suite)
        if self.pair and (self.pair.suite != suite or self.pair.links != links
                          or not self.pair.alive):
            self.stop()
        if not self.pair:
            self.pair = pair.Pair(suite, links=links)
            self.pair.boot()
        return self.pair

    def tidy_up(self):
        """Clean the machines after a test; returns what the test should not have left."""
        trouble = [f"{guest.name}: {found}" for guest in self.pair.guests if guest.alive
                   for found in [leftovers(guest)] if found]
        if trouble:
            host.progress("the machines will be booted anew")
            self.stop()
        return trouble

    def stop(self):
        """Power off."""
        if self.pair:
            self.pair.stop()
            self.pair = None


CLEAN_UP = """
for target in $(findmnt -rno TARGET | grep -E '^/(mnt|tmp)/' | sort -r); do umount $target; done
for module in %s; do
    [ ! -d /sys/module/$module ] || timeout 60 rmmod $module
done
losetup -D
dmsetup remove_all 2>/dev/null
for disk in /sys/kernel/config/nullb/*/; do
    [ ! -d $disk ] || { echo 0 >$disk/power; rmdir $disk; }
done
rm -rf /tmp/* /mnt/*
"""


def leftovers(guest):
    """Bring a guest into the state it had after boot; returns why that cannot be, or None."""
    try:
        for number in range(len(guest.nics)):
            guest.cable(number, True)
        result = guest.run(CLEAN_UP % " ".join(UNLOAD), timeout=150, check=False)
        if result.timed_out or result.err:
            return result.describe()
        loaded = sorted(set(UNLOAD) & set(guest.loaded_modules()))
        return f"modules cannot be unloaded: {' '.join(loaded)}" if loaded else None
    except (channel.GuestDied, channel.CommandFailed) as error:
        return str(error)


def images(suite):
    """What booting a suite takes, for prepare()."""
    return rootfs.boot_files(rootfs.rootfs(suite))
