# SPDX-License-Identifier: GPL-2.0
"""The machines of one test run: made ready in the background, kept from test to test."""

import fnmatch
import threading

from . import channel, host, modules, proc, rootfs

# Unloading starts with the modules that use the others.
UNLOAD = [name.replace("-", "_") for name in reversed(modules.OURS)]


class Background:
    """A value that a thread makes while tests that do not need it run.

    behind: what it starts stands back behind other work
    """

    def __init__(self, behind, function, *arguments):
        self._value = None
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(behind, function, arguments),
                                        daemon=True)
        self._thread.start()

    def _run(self, behind, function, arguments):
        if behind:
            proc.step_back()
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
    """Hands out what tests need; one pair or one machine runs at a time."""

    def __init__(self):
        self._values = {}
        self.machines = None
        self._worn_out = False

    def prepare(self, name, suite, function):
        """Start to make a value of a suite; get() fetches it.

        The suite that is asked for first is needed first: the others stand back.
        """
        if (name, suite) not in self._values:
            first = next(iter(self._values), (name, suite))[1]
            self._values[name, suite] = Background(suite != first, function, suite)

    def get(self, name, suite):
        """A value that prepare() has started."""
        return self._values[name, suite].get()

    def machines_for(self, suite, kind, **properties):
        """Clean machines, pair.Pair or pair.Single: the current ones if they live and fit."""
        self.get("images", suite)
        now = self.machines
        if now and not (now.alive and not self._worn_out and
                        type(now) is kind and now.suite == suite and
                        all(getattr(now, key) == value for key, value in properties.items())):
            self.stop()
        if not self.machines:
            self.machines = kind(suite, **properties)
            self.machines.boot()
        return self.machines

    def tidy_up(self):
        """Clean the machines after a test; returns what the test should not have left."""
        found = self.machines.on_each(lambda guest: leftovers(guest) if guest.alive else None)
        trouble = [f"{guest.name}: {text}" for guest, text in zip(self.machines.guests, found) if text]
        if trouble:
            host.progress("the machines will be booted anew")
            # Not now: their logs and consoles are still to be looked at.
            self._worn_out = True
        return trouble

    def stop(self):
        """Power off."""
        if self.machines:
            self.machines.stop()
            self.machines = None
        self._worn_out = False


# What a test may leave: (how to see it, how to undo it).
CLEAN_UP = (
    ("/mnt/*", "for target in $(findmnt -rno TARGET | grep '^/mnt/' | sort -r); do "
               "umount $target; done"),
    *((f"/sys/module/{module}", f"timeout 60 rmmod {module}") for module in UNLOAD),
    ("/sys/block/loop*/loop/backing_file", "losetup -D"),
    ("/sys/block/dm-*", "dmsetup remove_all"),
    ("/sys/kernel/config/nullb/*/power", "for disk in /sys/kernel/config/nullb/*/; do "
                                         "echo 0 >$disk/power; rmdir $disk; done"),
    ("/mnt/*", "rm -rf /mnt/*"),
    ("/tmp/*", "rm -rf /tmp/*"),
)


def leftovers(guest):
    """Bring a guest into the state it had after boot; returns why that cannot be, or None."""
    try:
        for number in range(len(guest.nics)):
            guest.cable(number, True)
        found = guest.glob(*(pattern for pattern, _ in CLEAN_UP))
        undo = [command for pattern, command in CLEAN_UP if fnmatch.filter(found, pattern)]
        if not undo:
            return None
        result = guest.run("\n".join(undo), timeout=150, check=False)
        if result.timed_out or result.err:
            return result.describe()
        loaded = sorted(set(UNLOAD) & set(guest.loaded_modules()))
        return f"modules cannot be unloaded: {' '.join(loaded)}" if loaded else None
    except (channel.GuestDied, channel.CommandFailed) as error:
        return str(error)


def images(suite):
    """What booting a suite takes, for prepare()."""
    return rootfs.boot_files(rootfs.rootfs(suite))
