# SPDX-License-Identifier: GPL-2.0
"""One virtual machine."""

import glob
import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from . import channel, debug_kernel, host, klog, proc

BOOT_TIMEOUT = 180
# An emulated processor now and then runs into a kernel's self-modifying code
# while another one modifies it.  A crash before the first of our programs and
# modules runs says nothing about them.
BOOT_ATTEMPTS = 3
COMMAND_TIMEOUT = 120
# How much longer all of this takes on a debug kernel
SLOW = 6

# The console shows warnings only: an emulated serial port is slow, and the
# agent brings the whole log.  Time-outs of the kernel's own watchdogs are
# made for real processors.  Debian clears every page that it hands out: without
# that, use of memory that nobody has written shows, and less is emulated.
COMMAND_LINE = ("console=ttyS0 loglevel=5 panic=-1 printk.devkmsg=on log_buf_len=4M "
                "net.ifnames=0 mitigations=off tsc=reliable edd=off "
                "rcupdate.rcu_cpu_stall_timeout=60 init_on_alloc=0")


@dataclass(frozen=True)
class Disk:
    """An extra disk of a guest, seen there as /dev/disk/vmlab/<name>; a sparse file here."""

    name: str
    size: int
    block_size: int = 512


@dataclass(frozen=True)
class Nic:
    """A network card: its end of the cable, the other end, and its addresses."""

    socket: Path
    peer: Path
    mac: str
    ipv4: str
    ipv6: str


class Monitor:
    """QEMU's machine protocol, as far as we need it."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("r", encoding="utf-8")
        self._stream.readline()
        self.command("qmp_capabilities")

    def command(self, command, /, **arguments):
        """Execute a command and return what it answers."""
        request = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        for line in self._stream:  # events come between
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise channel.GuestDied("QEMU closed its monitor")

    def close(self):
        """Close the connection."""
        self._stream.close()
        self._socket.close()


class Guest:
    """A virtual machine that runs commands for us.

    start() and wait_up() boot it, kill() is a power cut, restart() boots it
    again with the same disks.  run() and its relatives may be used from
    several threads.
    """

    def __init__(self, name, files, directory, disks=(), nics=(), memory=2048, append=""):
        self.name = name
        self.files = files
        self.suite = files.suite
        self.release = files.release
        self.dir = Path(directory)
        self.disks = disks
        self.nics = nics
        self.memory = memory
        self.append = append
        self.slow = SLOW if files.release.endswith(debug_kernel.SUFFIX) else 1
        self.log = klog.KernelLog()
        self.console = self.dir / f"{name}.console"
        # See klog.emulator_broke().
        self.broken_emulation = False
        self._process = None
        self._channel = None
        self._monitor = None
        self._marks = 0
        self._installed = None

    # ---- life

    def start(self):
        """Power on; wait_up() waits until the guest can be used.

        To be called from a thread that lives as long as the guest shall live.
        """
        overlay = self.dir / f"{self.name}.qcow2"
        if not overlay.exists():
            proc.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw",
                      "-b", str(self.files.disk), str(overlay)])
        for path in (self.dir / f"{self.name}.agent", self.dir / f"{self.name}.qmp"):
            path.unlink(missing_ok=True)
        with open(self.dir / f"{self.name}.qemu", "ab") as log:
            self._process = proc.spawn(self._command(overlay), stdout=log, stderr=log)
        proc.prefer(self._process)

    def _command(self, overlay):
        base = self.dir / self.name
        command = [
            "qemu-system-x86_64", "-name", self.name, "-nodefaults", "-nographic", "-no-reboot",
            "-machine", "q35", "-accel", "tcg,thread=multi",
            # Wide vectors are slower than narrow ones when they are emulated.
            "-cpu", "max,la57=off,avx=off,avx2=off",
            "-smp", "2", "-m", str(self.memory),
            "-kernel", str(self.files.kernel), "-initrd", str(self.files.initrd),
            "-append", f"{COMMAND_LINE} vmlab.name={self.name} {self.append}",
            "-chardev", f"file,id=console,path={self.console},append=on",
            "-serial", "chardev:console",
            "-qmp", f"unix:{base}.qmp,server=on,wait=off",
            "-chardev", f"socket,id=agent,path={base}.agent,server=on,wait=off",
            "-device", "virtio-serial-pci",
            "-device", "virtserialport,chardev=agent,name=vmlab",
            "-device", "virtio-rng-pci",
            "-drive", f"file={overlay},if=none,id=root,format=qcow2,cache=unsafe",
            "-device", "virtio-blk-pci,drive=root,serial=root",
        ]
        for disk in self.disks:
            path = self.dir / f"{self.name}-{disk.name}.raw"
            if not path.exists():
                with open(path, "wb") as handle:
                    handle.truncate(disk.size)
            command += [
                "-drive", f"file={path},if=none,id={disk.name},format=raw,cache=unsafe,"
                          "discard=unmap",
                "-device", f"virtio-blk-pci,drive={disk.name},serial={disk.name},"
                           f"logical_block_size={disk.block_size},"
                           f"physical_block_size={disk.block_size}"]
        for number, nic in enumerate(self.nics):
            command += [
                "-netdev", f"dgram,id=net{number},local.type=unix,local.path={nic.socket},"
                           f"remote.type=unix,remote.path={nic.peer}",
                "-device", f"virtio-net-pci,id=nic{number},netdev=net{number},mac={nic.mac},"
                           "host_mtu=9000,romfile="]
        return command

    def wait_up(self):
        """Wait until the agent answers; set up disk names and addresses."""
        for attempts_left in reversed(range(BOOT_ATTEMPTS)):
            try:
                self._channel = channel.connect(self.name, self.dir / f"{self.name}.agent",
                                                self._process, self.log.add,
                                                BOOT_TIMEOUT * self.slow)
                self._channel.slow = self.slow
                break
            except channel.GuestDied as error:
                self.kill()
                if not attempts_left:
                    text = self.console_since().decode(errors="replace")[-3000:]
                    qemu = (self.dir / f"{self.name}.qemu").read_text(errors="replace")[-2000:]
                    raise channel.GuestDied(f"{error}\n{qemu}\n{text}") from None
                host.progress(f"{error}; one more attempt")
                self.start()
        self._monitor = Monitor(self.dir / f"{self.name}.qmp")
        script = ["mkdir -p /dev/disk/vmlab",
                  "for d in /sys/block/vd*; do ln -sf /dev/${d##*/} "
                  "/dev/disk/vmlab/$(cat $d/serial); done"]
        for number, nic in enumerate(self.nics):
            script += [f"ip link set eth{number} up",
                       f"ip addr add {nic.ipv4}/24 dev eth{number}",
                       f"ip addr add {nic.ipv6}/64 dev eth{number} nodad"]
        self.run("\n".join(["set -e", *script]))

    @property
    def alive(self):
        """True while the guest runs and its agent can be reached."""
        return bool(self._channel) and not self._channel.closed.is_set() \
            and self._process.poll() is None

    def kill(self):
        """Power cut: the guest learns nothing of it.  May be repeated."""
        monitor, process, connected = self._monitor, self._process, self._channel
        self._monitor = self._process = self._channel = None
        if monitor:
            try:
                # Unlike a signal this lets QEMU bring its image file in order.
                monitor.command("quit")
                process.wait(10)
            except (OSError, channel.GuestDied, subprocess.TimeoutExpired):
                pass  # it is dead already, or hangs
            monitor.close()
        if process:
            process.kill()
            process.wait()
        if connected:
            connected.close()

    def restart(self):
        """Power cut, if it runs, and boot again with the same disks."""
        self.kill()
        self.start()
        self.wait_up()

    def cable(self, number, plugged):
        """Pull or plug a network cable."""
        self._monitor.command("set_link", name=f"nic{number}", up=plugged)

    # ---- commands and files

    def _connected(self):
        if not self.alive:
            raise channel.GuestDied(f"{self.name} is not running")
        return self._channel

    def start_job(self, cmd, timeout=None, stdin=b""):
        """Start a shell command; returns a channel.Job.  It is killed after `timeout` seconds."""
        return self._connected().request("run", stdin, cmd=cmd,
                                         timeout=timeout and timeout * self.slow)

    def run(self, cmd, timeout=COMMAND_TIMEOUT, check=True, stdin=b""):
        """Run a bash command line to its end; returns a channel.Result.

        Raises CommandFailed if it ends with an error (unless check is False)
        or not in time (never with check=False: look at timed_out), GuestDied
        if the guest dies meanwhile.
        """
        return self.start_job(cmd, timeout, stdin).wait(timeout + 60, check)

    def out(self, cmd, timeout=COMMAND_TIMEOUT):
        """What a command prints, without the white space around it."""
        return self.run(cmd, timeout).out.strip()

    def put(self, path, data, mode=0o644):
        """Write a file in the guest from bytes, a string or a host Path."""
        if isinstance(data, Path):
            data = data.read_bytes()
        elif isinstance(data, str):
            data = data.encode()
        for offset in range(0, max(len(data), 1), channel.CHUNK):
            self._connected().request("put", data[offset:offset + channel.CHUNK], path=path,
                                      append=offset > 0, mode=mode).finish(COMMAND_TIMEOUT)

    def get(self, path):
        """The bytes of a file in the guest."""
        job = self._connected().request("get", path=path)
        job.finish(COMMAND_TIMEOUT)
        return job.output()

    def read(self, path):
        """The text of a small file such as a sysfs node, stripped."""
        return self.get(path).decode().strip()

    def write(self, path, text, timeout=COMMAND_TIMEOUT):
        """write(2) to an existing file such as a sysfs node; raises OSError with its errno."""
        self._connected().request("write", text.encode(), path=path).finish(timeout)

    def glob(self, *patterns):
        """The paths in the guest that exist and match a shell pattern."""
        return self._connected().request("glob", patterns=patterns).finish(
            COMMAND_TIMEOUT)["paths"]

    def exists(self, path):
        """True if the path exists in the guest."""
        return bool(self.glob(glob.escape(path)))

    def readlink(self, path):
        """Where a symbolic link of the guest points."""
        return self._connected().request("readlink", path=path).finish(COMMAND_TIMEOUT)["target"]

    def tasks(self):
        """The names of all processes and kernel threads."""
        return self._connected().request("commands").finish(COMMAND_TIMEOUT)["names"]

    def wait_for(self, condition, timeout=60, what=None, pause=0.05):
        """Wait until a shell command succeeds or a callable returns a true value.

        Returns that value (or the command's output).  Raises AssertionError
        that names the condition when time is up.  It is looked at again after
        a pause of so many seconds.
        """
        deadline = time.monotonic() + timeout * self.slow
        while True:
            if callable(condition):
                value = condition()
            else:
                result = self.run(condition, check=False)
                value = result.rc == 0 and (result.out.strip() or True)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: not in {timeout} s: {what or condition}")
            time.sleep(pause)

    def shell(self, term, size, on_output):
        """Start an interactive shell; returns a Shell.

        size: (lines, columns) of its terminal
        """
        connected = self._connected()
        return Shell(connected, connected.request("shell", sink=on_output, term=term, size=size))

    # ---- kernel

    def sync_log(self):
        """Return once everything the kernel has logged so far is in self.log."""
        self._marks += 1
        mark = f"vmlab: mark {self._marks}."
        position = self.log.position()
        self.write("/dev/kmsg", mark + "\n")
        if self.log.wait_for(mark.replace(".", r"\."), position) is None:
            raise AssertionError(f"{self.name}: the kernel log does not arrive")

    def console_since(self, size=0):
        """What the console has printed since it had this size."""
        with open(self.console, "rb") as console:
            console.seek(size)
            return console.read()

    def problems(self, position=0, console_size=0, allowed=()):
        """Bad lines of the kernel log since a position.

        The console has the last words of a guest that died.
        """
        lines = self.log.since(position)
        if not self.alive:
            lines += self.console_since(console_size).decode(errors="replace").splitlines()
            if klog.emulator_broke(lines):
                self.broken_emulation = True
        return klog.problems(lines, allowed)

    def install_modules(self, modules):
        """Make `modprobe` find the .ko files of a modules.Modules.  May be repeated."""
        if self._installed != modules:
            self.put("/tmp/modules.tar", modules.archive)
            self.run("tar -C / -xf /tmp/modules.tar && rm /tmp/modules.tar && sync")
            self._installed = modules

    def copy_tree(self, source, target):
        """Copy a directory of the host into the guest."""
        buffer = BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.add(source, arcname=".")
        self.run(f"mkdir -p '{target}' && tar -C '{target}' -xf -", stdin=buffer.getvalue())

    def setup_rxe(self, number=0):
        """Put a soft-RoCE device on a network card; returns its name.  May be repeated."""
        name = f"rxe{number}"
        state = f"/sys/class/infiniband/{name}/ports/1/state"
        if not self.exists(state):
            self.run(f"modprobe rdma_rxe && rdma link add {name} type rxe netdev eth{number}")
        self.wait_for(lambda: "ACTIVE" in self.read(state), what=f"{name} is active")
        return name

    def loaded_modules(self):
        """Names of the loaded modules and their use counts."""
        return {line.split()[0]: int(line.split()[2])
                for line in self.get("/proc/modules").decode().splitlines()}


class Shell:
    """An interactive shell in a guest."""

    def __init__(self, connected, job):
        self._channel = connected
        self.job = job

    def type(self, data):
        """Send input."""
        self._channel.send({"op": "input", "to": self.job.ident}, data)

    def resize(self, size):
        """The terminal has (lines, columns) now."""
        self._channel.request("resize", to=self.job.ident, size=size)


def fresh_directory(prefix):
    """A new directory for sockets and disks; those of dead processes are removed.

    It is in /tmp because the path of a unix socket may have 107 characters only.
    """
    for old in Path("/tmp").glob("vmlab-*"):
        owner = old.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(old, ignore_errors=True)
    number = 0
    while True:
        path = Path(f"/tmp/vmlab-{os.getpid()}-{prefix}{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1
