# SPDX-License-Identifier: GPL-2.0
"""The host's half of the agent inside a guest (guest/agent.py says what travels)."""

import itertools
import json
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass

CHUNK = 128 * 1024


class GuestDied(Exception):
    """The guest is gone: it crashed, was killed, or never came up."""


class CommandFailed(AssertionError):
    """A command in a guest ended with an error, or not in time."""


@dataclass(frozen=True)
class Result:
    """How a command in a guest ended."""

    cmd: str
    rc: int | None
    out: str
    err: str
    timed_out: bool

    def describe(self):
        """All of it as text for a person."""
        how = "did not end in time" if self.timed_out else f"ended with {self.rc}"
        return f"{self.cmd!r} {how}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Job:
    """A command that runs, or has run, in a guest."""

    def __init__(self, channel, ident, cmd, sink=None):
        self._channel = channel
        self.ident = ident
        self.cmd = cmd
        self._sink = sink
        self._output = {"out": bytearray(), "err": bytearray()}
        self._ended = threading.Event()
        self.fields = None

    def receive(self, header, payload):
        """Called by the channel for every frame that belongs to this job."""
        if header["ev"] == "done":
            self.fields = header
            self._ended.set()
        elif self._sink:
            self._sink(payload)
        else:
            self._output[header["ev"]] += payload

    def lost(self):
        """Called by the channel when the guest is gone."""
        self._ended.set()

    @property
    def running(self):
        """True until the command has ended or the guest is gone."""
        return not self._ended.is_set()

    def output(self, which="out"):
        """What has been written so far, as bytes."""
        return bytes(self._output[which])

    def finish(self, timeout):
        """Wait for the end and return the agent's closing fields."""
        if not self._ended.wait(timeout and timeout * self._channel.slow):
            raise CommandFailed(f"no answer from the guest in {timeout} s: {self.cmd!r}")
        if self.fields is None:
            raise GuestDied(f"{self._channel.name} died during {self.cmd!r}")
        if "errno" in self.fields:
            raise OSError(self.fields["errno"], os.strerror(self.fields["errno"])
                          + f" ({self.fields['text']})")
        return self.fields

    def wait(self, timeout=None, check=True):
        """Wait for the command's end; see Guest.run()."""
        fields = self.finish(timeout)
        result = Result(self.cmd, fields["rc"], self.output().decode(errors="replace"),
                        self.output("err").decode(errors="replace"), fields["timed_out"])
        if check and (result.rc != 0 or result.timed_out):
            raise CommandFailed(f"{self._channel.name}: {result.describe()}")
        return result

    def kill(self, signal=9):
        """Send a signal to the command and all it started."""
        self._channel.request("kill", to=self.ident, signal=signal).finish(60)


class Channel:
    """A connection to the agent of one guest.

    slow: how much longer than others it takes for everything
    """

    slow = 1

    def __init__(self, name, path, on_kernel_lines):
        self.name = name
        self._on_kernel_lines = on_kernel_lines
        self._ids = itertools.count(1)
        self._jobs = {}
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self.hello = threading.Event()
        self.closed = threading.Event()
        self.kernel_release = None
        threading.Thread(target=self._read, name=f"channel-{name}", daemon=True).start()

    def request(self, operation, payload=b"", cmd=None, sink=None, **fields):
        """Send a request; returns the Job that collects its answers."""
        job = Job(self, next(self._ids), cmd or f"{operation} {fields}", sink)
        with self._lock:
            if self.closed.is_set():
                raise GuestDied(f"{self.name} is not running")
            self._jobs[job.ident] = job
        if cmd is not None:
            fields["cmd"] = cmd
        self.send({"id": job.ident, "op": operation, **fields}, payload)
        return job

    def send(self, header, payload=b""):
        """Send one frame."""
        data = json.dumps(header).encode()
        try:
            with self._write_lock:
                self._socket.sendall(struct.pack(">II", len(data), len(payload)) + data + payload)
        except OSError as error:
            raise GuestDied(f"{self.name} does not listen: {error}") from error

    def close(self):
        """Give up the connection."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # QEMU has closed it already

    def _read(self):
        with self._socket.makefile("rb", buffering=1 << 20) as stream:
            try:
                while len(head := stream.read(8)) == 8:
                    header_size, size = struct.unpack(">II", head)
                    self._dispatch(json.loads(stream.read(header_size)), stream.read(size))
            except (OSError, ValueError):
                pass  # cut off in the middle of a frame: the guest is gone
        with self._lock:
            self.closed.set()
            orphans = list(self._jobs.values())
            self._jobs.clear()
        for job in orphans:
            job.lost()

    def _dispatch(self, header, payload):
        if header["ev"] == "kmsg":
            self._on_kernel_lines(payload.decode(errors="replace").split("\n"))
        elif header["ev"] == "hello":
            self.kernel_release = header["release"]
            self.hello.set()
        else:
            with self._lock:
                job = self._jobs.get(header["id"])
                if header["ev"] == "done":
                    self._jobs.pop(header["id"], None)
            if job:
                job.receive(header, payload)


def connect(name, path, process, on_kernel_lines, timeout):
    """Wait for QEMU's socket and the agent's first word."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            channel = Channel(name, path, on_kernel_lines)
            break
        except (FileNotFoundError, ConnectionRefusedError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise GuestDied(f"{name}: QEMU did not start, or has ended already") from None
            time.sleep(0.02)
    while not channel.hello.wait(0.05):
        if channel.closed.is_set():
            raise GuestDied(f"{name} died while it booted")
        if time.monotonic() > deadline:
            channel.close()
            raise GuestDied(f"{name} did not come up in {timeout} s")
    return channel
