# SPDX-License-Identifier: GPL-2.0
"""Runs commands inside a guest for the host, over a virtio-serial port.

Both directions carry frames: two big-endian 32-bit lengths, a JSON object, raw
bytes.  A request has an id; everything that answers it carries the same id and
an "ev": out and err (output), or done (the end).  Kernel messages come with
id 0 as they appear.
"""

import fcntl
import glob
import json
import os
import pty
import select
import selectors
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

CHUNK = 128 * 1024
PORT_NAME = "vmlab"


def open_port():
    """The device file of our virtio-serial port."""
    base = "/sys/class/virtio-ports"
    while True:
        for name in os.listdir(base) if os.path.isdir(base) else ():
            with open(f"{base}/{name}/name", encoding="ascii") as handle:
                if handle.read().strip() == PORT_NAME:
                    return os.open(f"/dev/{name}", os.O_RDWR)
        time.sleep(0.01)


class Agent:
    """Serves the requests of one host."""

    def __init__(self, port):
        self.port = port
        self.write_lock = threading.Lock()
        self.processes = {}
        self.terminals = {}

    def send(self, ident, event, payload=b"", **fields):
        """Send one frame to the host."""
        header = json.dumps({"id": ident, "ev": event, **fields}).encode()
        frame = memoryview(struct.pack(">II", len(header), len(payload)) + header + payload)
        with self.write_lock:
            while frame:
                frame = frame[os.write(self.port, frame):]

    def receive(self):
        """The host's next request and its payload."""
        header_size, size = struct.unpack(">II", self.read_exactly(8))
        header = json.loads(self.read_exactly(header_size))
        return header, self.read_exactly(size)

    def read_exactly(self, size):
        """Read `size` bytes from the port."""
        data = bytearray()
        while len(data) < size:
            data += os.read(self.port, size - len(data))
        return bytes(data)

    def serve(self):
        """Handle requests until the host asks for the end."""
        while True:
            request, payload = self.receive()
            if request["op"] == "poweroff":
                return
            if request["op"] == "input":
                self.type(request["to"], payload)
                continue
            if request["op"] == "shell":
                self.open_terminal(request)  # before its first input comes
            threading.Thread(target=self.handle, args=(request, payload), daemon=True).start()

    def handle(self, request, payload):
        """Carry out one request; whatever goes wrong becomes its answer."""
        try:
            fields = getattr(self, "do_" + request["op"])(request, payload) or {}
            self.send(request["id"], "done", **fields)
        except OSError as error:
            self.send(request["id"], "done", errno=error.errno or 5, text=str(error))
        except Exception as error:  # the host must hear of it, whatever it is
            self.send(request["id"], "done", errno=5, text=repr(error))

    def do_run(self, request, payload):
        """Run a shell command in a session of its own."""
        process = subprocess.Popen(
            ["/bin/bash", "-c", request["cmd"]], start_new_session=True, cwd="/root",
            stdin=subprocess.PIPE if payload else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ident = request["id"]
        self.processes[ident] = process
        try:
            timed_out = self.pump(ident, process, payload, request.get("timeout"))
        finally:
            del self.processes[ident]
        return {"rc": process.poll(), "timed_out": timed_out}

    def pump(self, ident, process, payload, timeout):
        """Carry input and output of a process until it ends or its time is up."""
        deadline = time.monotonic() + timeout if timeout else None
        if payload:
            threading.Thread(target=self.feed, args=(process, payload), daemon=True).start()
        pidfd = os.pidfd_open(process.pid)
        events = {process.stdout.fileno(): "out", process.stderr.fileno(): "err"}
        with selectors.DefaultSelector() as selector:
            selector.register(pidfd, selectors.EVENT_READ)
            for fd in events:
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ)
            ended = timed_out = False
            while not (ended or timed_out):
                left = None if deadline is None else max(0, deadline - time.monotonic())
                ready = selector.select(left)
                timed_out = left == 0 and not ready
                for key, _ in ready:
                    if key.fd == pidfd:
                        ended = True
                    elif not self.forward(ident, events[key.fd], key.fd):
                        selector.unregister(key.fd)
        os.close(pidfd)
        if timed_out:
            self.send(ident, "err", self.stacks(process.pid))
            os.killpg(process.pid, signal.SIGKILL)
        try:
            # One that hangs in the kernel does not die of the signal.
            process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        # What a process wrote before its end is still in the pipes; what its
        # background children write later is not waited for.
        for fd, event in events.items():
            while self.forward(ident, event, fd):
                pass
        process.stdout.close()
        process.stderr.close()
        return timed_out

    def forward(self, ident, event, fd):
        """Send on what a pipe holds; False at its end or when it is empty."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.send(ident, event, data)
        return bool(data)

    @staticmethod
    def feed(process, payload):
        """Write the input of a process."""
        try:
            process.stdin.write(payload)
            process.stdin.close()
        except BrokenPipeError:
            pass

    @staticmethod
    def stacks(session):
        """Kernel stacks of all processes of a session, for the report of a timeout."""
        text = ""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as handle:
                    name, _, rest = handle.read().rpartition(")")
                if int(rest.split()[3]) == session:
                    with open(f"/proc/{pid}/stack", encoding="utf-8") as handle:
                        text += f"\n{name}) state {rest.split()[0]}\n{handle.read()}"
            except OSError:
                continue
        return text.encode()

    def do_kill(self, request, _payload):
        """Kill the process group of a running command."""
        process = self.processes.get(request["to"])
        if process:
            os.killpg(process.pid, request["signal"])

    def do_put(self, request, payload):
        """Write or append to a file, making its directory."""
        os.makedirs(os.path.dirname(request["path"]) or "/", exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if request["append"] else os.O_TRUNC)
        fd = os.open(request["path"], flags, request["mode"])
        with os.fdopen(fd, "wb") as handle:
            handle.write(payload)

    def do_get(self, request, _payload):
        """Send the contents of a file."""
        with open(request["path"], "rb") as handle:
            while data := handle.read(CHUNK):
                self.send(request["id"], "out", data)

    def do_glob(self, request, _payload):
        """The paths that exist and match one of some patterns."""
        return {"paths": sorted(path for pattern in request["patterns"]
                                for path in glob.glob(pattern))}

    def do_commands(self, _request, _payload):
        """The names of all tasks, those of the kernel included."""
        names = []
        for path in glob.glob("/proc/[0-9]*/comm"):
            try:
                with open(path, encoding="utf-8", errors="replace") as handle:
                    names.append(handle.read().rstrip("\n"))
            except OSError:
                continue  # it has just ended
        return {"names": names}

    def do_readlink(self, request, _payload):
        """Where a symbolic link points."""
        return {"target": os.readlink(request["path"])}

    def do_write(self, request, payload):
        """One write(2) to an existing file, as sysfs wants it."""
        fd = os.open(request["path"], os.O_WRONLY)
        try:
            os.write(fd, payload)
        finally:
            os.close(fd)

    def open_terminal(self, request):
        """Start an interactive shell on a pseudo terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir("/root")
            os.environ["TERM"] = request["term"]
            os.execv("/bin/bash", ["bash", "-i"])
        self.terminals[request["id"]] = terminal, pid
        self.resize(terminal, request["size"])

    @staticmethod
    def resize(terminal, size):
        """Tell a terminal how many lines and columns it has."""
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))

    def type(self, ident, payload):
        """Write to a terminal, unless its shell has just ended."""
        try:
            os.write(self.terminals[ident][0], payload)
        except (KeyError, OSError):
            pass

    def do_resize(self, request, _payload):
        """The window of a terminal has another size now."""
        self.resize(self.terminals[request["to"]][0], request["size"])

    def do_shell(self, request, _payload):
        """Send on what a shell prints, until it ends."""
        terminal, pid = self.terminals[request["id"]]
        try:
            while data := os.read(terminal, CHUNK):
                self.send(request["id"], "out", data)
        except OSError:
            pass  # EIO: the shell has closed its side
        del self.terminals[request["id"]]
        os.close(terminal)
        return {"rc": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}

    def follow_kernel_log(self):
        """Send every kernel message, those from before our start included."""
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        lines = []
        while True:
            try:
                lines.append(self.kernel_line(os.read(log, 8192)))
                if len(lines) < 1000:
                    continue
            except BlockingIOError:
                if not lines:
                    select.select([log], [], [])
                    continue
            except BrokenPipeError:
                lines.append(b"kernel messages were lost")
            self.send(0, "kmsg", b"\n".join(lines))
            lines.clear()

    @staticmethod
    def kernel_line(record):
        """A record of /dev/kmsg as dmesg would print it, with its level."""
        head, _, text = record.partition(b";")
        level, _, stamp, _ = head.split(b",", 3)
        # Further lines of a record are properties of a device: not wanted.
        return b"[%12.6f] <%d> %s" % (int(stamp) / 1e6, int(level) & 7, text.split(b"\n")[0])


def main():
    """Connect to the host and serve it."""
    agent = Agent(open_port())
    agent.send(0, "hello", release=os.uname().release)
    threading.Thread(target=agent.follow_kernel_log, daemon=True).start()
    agent.serve()


if __name__ == "__main__":
    sys.exit(main())
