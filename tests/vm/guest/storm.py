# SPDX-License-Identifier: GPL-2.0
"""storm.py SECONDS SEED PATH SESSIONS DEVICES: map, unmap, remap, resize at random, in 8 processes.

PATH is how to reach the server; SESSIONS and DEVICES are words joined by commas.  Prints how
often each operation ended how, as JSON: {"unmap": {"OK": 17, "EBUSY": 2}, ...}.
"""

import collections
import errno
import json
import os
import random
import sys
import time

CTL = "/sys/class/rnbd-client/ctl"
PROCESSES = 8
SECTORS = 8192


def write(path, text):
    """OK or the errno's name of one write(2)."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError as error:
        return errno.errorcode[error.errno]
    try:
        os.write(fd, text.encode())
    except OSError as error:
        return errno.errorcode[error.errno]
    finally:
        os.close(fd)
    return "OK"


def read_some(path):
    """OK or the errno's name of reading the beginning of a disk."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.read(fd, 65536)
        finally:
            os.close(fd)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "OK"


class Storm:
    """What one process does."""

    def __init__(self, rng, path, sessions, devices):
        self.rng = rng
        self.path = path
        self.sessions = sessions
        self.devices = devices
        self.results = collections.defaultdict(collections.Counter)

    def disk(self):
        """The directory of some disk that may be mapped now or not."""
        device = self.rng.choice(self.devices).replace("/", "!")
        return f"{CTL}/devices/{device}@{self.rng.choice(self.sessions)}"

    def do_map(self):
        """Map some device, for reading or writing."""
        return write(f"{CTL}/map_device",
                     f"sessname={self.rng.choice(self.sessions)} path={self.path} "
                     f"device_path={self.rng.choice(self.devices)} "
                     f"access_mode={self.rng.choice(('ro', 'rw', 'migration'))}")

    def do_unmap(self):
        """Unmap some device, one way or the other."""
        return write(f"{self.disk()}/rnbd/unmap_device", self.rng.choice(("normal", "force")))

    def do_remap(self):
        """Open some device again."""
        return write(f"{self.disk()}/rnbd/remap_device", "1")

    def do_resize(self):
        """Give some device another size."""
        return write(f"{self.disk()}/rnbd/resize", str(self.rng.choice((SECTORS, SECTORS // 2))))

    def do_disconnect(self):
        """Disconnect the path of some session for a moment."""
        path = f"/sys/class/rtrs-client/{self.rng.choice(self.sessions)}/paths/{self.path}"
        result = write(f"{path}/disconnect", "1")
        write(f"{path}/reconnect", "1")
        return result

    def do_read(self):
        """Read from some disk."""
        link = self.disk()
        try:
            return read_some("/dev/" + os.path.basename(os.readlink(link)))
        except OSError as error:
            return errno.errorcode[error.errno]

    def run(self, seconds):
        """Do one thing after the other."""
        operations = [self.do_map] * 8 + [self.do_unmap] * 6 + \
            [self.do_remap, self.do_resize, self.do_read] * 2 + [self.do_disconnect]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            operation = self.rng.choice(operations)
            self.results[operation.__name__[3:]][operation()] += 1


def child(number, seconds, seed, pipe, words):
    """Run in a process of its own; write the results to a pipe."""
    storm = Storm(random.Random(seed * PROCESSES + number), *words)
    try:
        storm.run(seconds)
    finally:
        os.write(pipe, json.dumps(storm.results).encode() + b"\n")
        os._exit(0)


def main():
    """Start the processes and add up what they say."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    words = sys.argv[3], sys.argv[4].split(","), sys.argv[5].split(",")
    read_end, write_end = os.pipe()
    for number in range(PROCESSES):
        if os.fork() == 0:
            child(number, seconds, seed, write_end, words)
    os.close(write_end)
    total = collections.defaultdict(collections.Counter)
    with os.fdopen(read_end) as pipe:
        lines = pipe.read().splitlines()
    for line in lines:
        for operation, results in json.loads(line).items():
            total[operation].update(results)
    print(json.dumps(total))
    return 0 if len(lines) == PROCESSES else 1


if __name__ == "__main__":
    sys.exit(main())
