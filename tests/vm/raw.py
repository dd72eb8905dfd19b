# SPDX-License-Identifier: GPL-2.0
"""RNBD messages byte by byte, and the client in user space that sends them (guest/raw_client.c)."""

import errno
import functools
import itertools
import shutil
import struct
import subprocess
from dataclasses import dataclass, replace

import rnbd
from vmlab import host

RO, RW, MIGRATION = range(3)
MODES = ("ro", "rw", "migration")
READ, WRITE, FLUSH, DISCARD, SECURE_ERASE, WRITE_ZEROES = range(6)
SYNC, FUA, PREFLUSH, NOUNMAP = (0x100 << bit for bit in range(4))

# What a message's data consists of if nothing else is said
FILL = 0xd7


@dataclass(frozen=True)
class Request:
    """A transport request with a user message, and what its header is to say instead of the truth.

    then: what is written over the message while the server looks at it
    """

    direction: str
    data_len: int
    message: bytes
    fill: int = FILL
    usr_len: int | None = None
    desc_len: int | None = None
    then: bytes = b""

    def line(self, tag, cid, flags=""):
        """As guest/raw_client.c wants it."""
        words = [tag, str(cid), self.direction, str(self.data_len), self.message.hex() or "-"]
        if self.direction == "write":
            words.append(f"fill={self.fill}")
        words += [f"{key}={value}" for key, value in (("usr", self.usr_len),
                                                      ("desc", self.desc_len)) if value is not None]
        if self.then:
            words.append(f"then={self.then.hex()}")
        return " ".join(words + [flags]).strip() + "\n"


@dataclass(frozen=True)
class Answer:
    """errno's name or OK (or silent, overrun), and the first bytes of the answer's data."""

    error: str
    data: bytes

    @property
    def device_id(self):
        """Of an OPEN_RSP."""
        assert self.error == "OK", self
        return struct.unpack_from("<I", self.data, 4)[0]


def sess_info(version=2):
    """SESS_INFO."""
    return Request("read", 36, struct.pack("<HHB31x", 0, 0, version))


def open_device(name, mode=RW):
    """OPEN; a name of 255 bytes is not terminated."""
    name = name.encode() if isinstance(name, str) else name
    return Request("read", 56, struct.pack("<HHBx255s3x", 2, 0, mode, name))


def close(device):
    """CLOSE."""
    return Request("write", 0, struct.pack("<HHI", 5, 0, device))


def io(device, op, sector=0, size=0, prio=0):
    """IO of any operation with its flags, in the direction and with the data that belong to it."""
    message = struct.pack("<HHIQIIH6x", 4, 0, device, sector, op, size, prio)
    direction = "read" if op & 0xff in (READ, FLUSH) else "write"
    return Request(direction, size if op & 0xff in (READ, WRITE) else 0, message)


def changed(request, **fields):
    """A request that differs in some fields."""
    return replace(request, **fields)


@functools.cache
def program():
    """guest/raw_client.c, compiled."""
    target = host.BUILD / "raw_client"
    target.parent.mkdir(parents=True, exist_ok=True)
    assert shutil.which("cc"), "a C compiler is among the host packages"
    root = host.VM_DIR.parents[1]
    subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror",
                    f"-I{root}/tests/include", f"-I{root}", "-o", target,
                    host.VM_DIR / "guest" / "raw_client.c", "-lrdmacm", "-libverbs"], check=True)
    return target


class RawClient:
    """A session of the client machine that is made and used by a program of ours."""

    def __init__(self, pair, name=None):
        self.name = name or rnbd.new_session()
        self.guest = pair.client
        self._tags = itertools.count(1)
        self._fifo = f"/tmp/{self.name}.fifo"
        if not self.guest.exists("/tmp/raw_client"):
            self.guest.put("/tmp/raw_client", program(), 0o755)
            self.guest.run("modprobe -a rdma_ucm ib_uverbs")
        self._job = self.guest.start_job(
            f"mkfifo {self._fifo} && exec /tmp/raw_client {pair.server_address()} 1234 "
            f"{self.name} {self._fifo} 2>&1", 1200)
        self.chunk_size = int(self.wait_word("ready").split(" ")[3])

    def _lines(self):
        """Complete lines that it has printed."""
        return self._job.output().decode().split("\n")[:-1]

    def wait_word(self, word, timeout=60):
        """Wait until it prints a line that begins with a word; returns the line."""
        def said():
            found = [line for line in self._lines() if line.split(" ")[0] == word]
            assert found or self._job.running, f"{self.name} has ended: {self._lines()[-5:]}"
            return found and found[0]

        # Many short messages: what is looked at is here, not in the guest.
        return self.guest.wait_for(said, timeout, f"{self.name} says {word}", pause=0.002)

    def _send(self, requests, cids, flags):
        tags = [f"r{next(self._tags)}" for _ in requests]
        lines = [request.line(tag, cid, flags)
                 for request, tag, cid in zip(requests, tags, itertools.cycle(cids))]
        # A pipe takes 64 KiB at a time.
        for start in range(0, len(lines), 25):
            self.guest.write(self._fifo, "".join(lines[start:start + 25]))
        return tags

    def post(self, *requests, cids=(1,)):
        """Send requests, at most 16, without waiting; returns the tags of their answers."""
        return self._send(requests, cids, "async")

    def answer(self, tag, timeout=60):
        """Wait for the Answer to a request."""
        _, error, *rest = self.wait_word(tag, timeout).split(" ")
        if rest[:1] == ["overrun"] or not error.isdigit():
            return Answer("overrun" if rest else error, b"")
        # Python knows EOPNOTSUPP by its other name.
        names = {0: "OK", **errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}
        return Answer(names[int(error)], bytes.fromhex(rest[0]) if rest else b"")

    def answered(self, tag):
        """Is there an answer yet?"""
        return any(line.split(" ")[0] == tag for line in self._lines())

    def ask(self, *requests, cids=(1,)):
        """Send one request after the other over these connections in turn; returns the answers."""
        tags = self._send(requests, cids, "")
        return [self.answer(tag) for tag in tags]

    def errors(self, *requests, **keys):
        """Like ask(), but the names of the errnos only."""
        return [answer.error for answer in self.ask(*requests, **keys)]

    def open(self, name, mode=RW):
        """OPEN a device; returns its id."""
        return self.ask(open_device(name, mode))[0].device_id

    def end(self):
        """End the session.  The server needs a moment to notice."""
        self.guest.write(self._fifo, "quit\n")
        self.wait_word("bye")

    def kill(self):
        """End the program, without a word to the server."""
        self._job.kill()
