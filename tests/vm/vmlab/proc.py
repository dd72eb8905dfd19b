# SPDX-License-Identifier: GPL-2.0
"""Child processes that never outlive us, and the sandbox that builds run in."""

import ctypes
import os
import signal
import subprocess
import threading
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Run in a new child: have the kernel kill it when the thread that made it ends.

    Ctrl-C goes to the whole foreground group; a session of its own keeps the
    child alive until we have decided how to end it.
    """
    _libc.setsid()
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def spawn(argv, **kwargs):
    """Start a child that dies with the calling thread."""
    behind = getattr(_priority, "behind", False)

    def prepare():
        die_with_parent()
        if behind:
            set_priority(0, 10)

    return subprocess.Popen(argv, preexec_fn=prepare, stdin=subprocess.DEVNULL, **kwargs)


def set_priority(pid, value):
    """Set the priority of a process that leads a session (0: ourselves), as far as we may.

    With autogroups a session's own priority counts, without them that of its processes.
    """
    try:
        os.setpriority(os.PRIO_PGRP, pid, value)
        with open(f"/proc/{pid or 'self'}/autogroup", "w", encoding="ascii") as group:
            group.write(str(value))
    except OSError:
        pass  # not root, or no autogroups: it is only slower


def prefer(child):
    """Give a child more processor time than builds get.

    A guest's clock runs in real time, so it must not wait for them.
    """
    set_priority(child.pid, -10)


def set_idle(session, idle):
    """Let all processes of a session have only what processor time is left over, or not."""
    policy = os.SCHED_IDLE if idle else os.SCHED_OTHER
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                os.sched_setscheduler(int(stat.parent.name), policy, os.sched_param(0))
        except OSError:
            continue  # it has just ended
    set_priority(session, 19 if idle else 0)


_priority = threading.local()


def step_back():
    """Give what this thread starts from now on less processor time than other work gets."""
    _priority.behind = True


class CommandError(Exception):
    """A command on the host failed; the text carries the end of its output."""


def run(argv, log=None, check=True, **kwargs):
    """Run a command to its end; its output goes to the file `log`, or is returned.

    Returns (exit code, output).
    """
    if log is None:
        child = spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
        output = child.communicate()[0]
    else:
        with open(log, "a+", encoding="utf-8", errors="replace") as sink:
            child = spawn(argv, stdout=sink, stderr=subprocess.STDOUT, **kwargs)
            child.wait()
            sink.seek(0)
            output = sink.read()
    if check and child.returncode:
        tail = "\n".join(output.splitlines()[-25:])
        raise CommandError(f"{' '.join(map(str, argv[:6]))} ... ended with "
                           f"{child.returncode}:\n{tail}")
    return child.returncode, output


# Private mount and process namespaces: whatever is mounted or started inside
# is gone when the command ends or is killed.
SANDBOX = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL"]


def run_in_chroot(root, work, script, log=None, check=True):
    """Run a shell script in the chroot `root`, with the directory `work` as /build.

    Several scripts may use the same chroot at the same time.
    """
    inner = ('mount --bind "$1" "$0/build" && mount --rbind /dev "$0/dev" && '
             'exec chroot "$0" /bin/sh -c "cd /build && $2"')
    argv = [*SANDBOX, f"--mount-proc={root}/proc", "/bin/sh", "-c", inner,
            str(root), str(work), script]
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
    return run(argv, log=log, check=check, env=env)
