# SPDX-License-Identifier: GPL-2.0
"""The `vm` command: try things in virtual machines by hand.

A KERNEL is a suite ("trixie") or a kernel series ("6.12").
"""

import argparse
import os
import select
import shutil
import signal
import sys
import termios
import tty

from . import channel, host, modules, pair, proc, rootfs, suites


def cmd_setup(_arguments):
    """install the packages that the tests need on this machine"""
    host.setup()


def cmd_prepare(arguments):
    """make the root file systems and images of suites"""
    host.setup()
    for suite in _suites(arguments.kernels):
        fs = rootfs.rootfs(suite)
        rootfs.boot_files(fs)
        print(f"{suite.name}: kernel {fs.release}, chroot {fs.root}, contents {fs.manifest}")


def cmd_build(arguments):
    """build the modules for a kernel, into build/<release>/"""
    suite = suites.find(arguments.kernel)
    built = modules.build(suite, variables=tuple(arguments.variables))
    target = host.BUILD / suite.resolve().release
    target.mkdir(parents=True, exist_ok=True)
    for path in built.directory.glob("*.ko"):
        shutil.copy(path, target)
    print(built.log.read_text())
    print(f"modules are in {target}")


def cmd_chroot(arguments):
    """run a shell command on a copy of the source tree in a suite's chroot"""
    fs = rootfs.rootfs(suites.find(arguments.kernel))
    with modules.copied(host.ROOT, everything=True) as work:
        code, output = proc.run_in_chroot(
            fs.root, work, f"export KVER={fs.release}; {arguments.command}", check=False)
    print(output, end="")
    return code


class _Step(argparse.Action):
    """Collects -s, -c and -p in the order they are given."""

    def __call__(self, _parser, namespace, value, option=None):
        namespace.steps = [*(namespace.steps or []), (option, value)]


def cmd_try(arguments):
    """boot a server and a client (or one machine) with the modules, run steps, power off"""
    with _Booted(arguments) as booted:
        names = {guest.name: guest for guest in booted.guests}
        for option, value in arguments.steps or []:
            if option == "-p":
                with open(value, encoding="utf-8") as script:
                    exec(compile(script.read(), value, "exec"), {"pair": booted, **names})
                continue
            guest = booted.guests[-1 if option == "-c" else 0]
            host.progress(f"{guest.name}: {value}")
            result = guest.run(value, timeout=600, check=False)
            print(result.out + result.err, end="", flush=True)
            if result.rc or result.timed_out:
                print(f"ended with {result.rc}", flush=True)
                return 1
    return 0


def cmd_shell(arguments):
    """an interactive shell in the client (or server) of a booted pair, or in one machine"""
    with _Booted(arguments) as booted:
        guest = booted.guests[0 if arguments.server else -1]
        others = [f"; the {other.name} is {other.nics[0].ipv4}"
                  for other in booted.guests if other is not guest]
        print(f"This is the {guest.name}{''.join(others)}. The modules are installed, but neither "
              "they nor soft-RoCE are loaded. `exit` powers everything off.", flush=True)
        interact(guest)


def _window():
    """Lines and columns of our terminal."""
    columns, lines = shutil.get_terminal_size()
    return lines, columns


def interact(guest):
    """Join our terminal to a shell in the guest until it ends."""
    shell = guest.shell(os.environ.get("TERM", "vt100"), _window(), lambda data: os.write(1, data))
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        before = termios.tcgetattr(0)
        tty.setraw(0)
        signal.signal(signal.SIGWINCH, lambda *_: shell.resize(_window()))
    try:
        while shell.job.running:
            if select.select([0], [], [], 0.05)[0]:
                data = os.read(0, 4096)
                shell.type(data or b"\x04")
                if not data:
                    shell.job.finish(60)
    finally:
        if is_terminal:
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)
            termios.tcsetattr(0, termios.TCSADRAIN, before)
            print()


class _Booted:
    """Machines set up as the command line says, stopped at the end of a with statement."""

    def __init__(self, arguments):
        self._arguments = arguments
        self._machines = None

    def __enter__(self):
        host.setup()
        wanted = self._arguments
        suite = suites.find(wanted.kernel)
        built = None if wanted.no_modules else modules.build(suite)
        self._machines = pair.Single(suite) if wanted.one else pair.Pair(suite, wanted.links)
        self._machines.boot()
        try:
            if built:
                self._machines.on_each(lambda guest: guest.install_modules(built))
            if not wanted.no_rxe:
                self._machines.setup_rxe()
        except BaseException:
            self._machines.stop()
            raise
        return self._machines

    def __exit__(self, *_):
        for each in self._machines.guests:
            if each.alive:
                each.sync_log()
            for line in each.problems():
                print(f"{each.name}: {line}")
        self._machines.stop()


def _suites(names):
    return [suites.find(name) for name in names] if names else suites.SUITES


def _parser():
    parser = argparse.ArgumentParser(prog="vm", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(function):
        command = commands.add_parser(function.__name__[4:], help=function.__doc__)
        command.set_defaults(function=function)
        return command

    add(cmd_setup)
    add(cmd_prepare).add_argument("kernels", nargs="*", metavar="KERNEL")
    build = add(cmd_build)
    build.add_argument("kernel", metavar="KERNEL")
    build.add_argument("variables", nargs="*", metavar="VARIABLE=VALUE")
    chroot = add(cmd_chroot)
    chroot.add_argument("kernel", metavar="KERNEL")
    chroot.add_argument("command")
    attempt, shell = add(cmd_try), add(cmd_shell)
    for command in (attempt, shell):
        command.add_argument("kernel", metavar="KERNEL", nargs="?",
                             default=os.environ.get("KERNEL", "trixie"))
        command.add_argument("--links", type=int, default=1, help="cables between them")
        command.add_argument("--one", action="store_true", help="one machine instead of two")
        command.add_argument("--no-modules", action="store_true", help="do not install ours")
        command.add_argument("--no-rxe", action="store_true", help="no soft-RoCE device")
    shell.add_argument("--server", action="store_true", help="in the server, not the client")
    attempt.set_defaults(steps=None)
    attempt.add_argument("-s", action=_Step, metavar="COMMAND", help="run in the server")
    attempt.add_argument("-c", action=_Step, metavar="COMMAND", help="run in the client")
    attempt.add_argument("-p", action=_Step, metavar="FILE",
                         help="run a Python file that sees `pair`, `server` and `client` (or `machine`)")
    return parser


def main():
    """Carry out the command line."""
    arguments = _parser().parse_args()
    try:
        return arguments.function(arguments)
    except (host.SetupError, proc.CommandError, channel.CommandFailed,
            channel.GuestDied) as error:
        print(f"vm: {error}", file=sys.stderr)
        return 1
