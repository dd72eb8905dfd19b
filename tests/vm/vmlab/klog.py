# SPDX-License-Identifier: GPL-2.0
"""What a kernel log must not contain."""

import re
import threading

# One expression a line: any match is a failure.
BAD = [
    # WARN, lockdep and RCU reports; BUG reports of every subsystem
    r"\bWARNING: ",
    r"\bBUG\b",
    r"\bcut here\b",
    r"\bCall Trace:",
    r"\bOops\b",
    r"\bKernel panic\b",
    r"general protection fault",
    r"Unable to handle kernel",
    r"\bkernel NULL pointer dereference",
    r"invalid opcode",
    # hangs
    r"INFO: task .* blocked (for more than|on) ",
    r"\bsoft lockup\b",
    r"\bhard LOCKUP\b",
    r"rcu.*detected.*stall",
    r"workqueue lockup",
    # locking
    r"INFO: trying to register non-static key",
    r"possible recursive locking",
    r"inconsistent lock state",
    r"circular locking dependency",
    r"suspicious RCU usage",
    r"DEBUG_LOCKS_WARN_ON",
    r"scheduling while atomic",
    r"sleeping function called from invalid context",
    # memory
    r"\b(KASAN|UBSAN|KCSAN|KMSAN|KFENCE): ",
    r"\bkmemleak: \d+ new suspected",
    r"refcount_t: ",
    r"\bODEBUG: ",
    r"(list_add|list_del) corruption",
    r"Objects remaining",
    r"\bcorruption detected",
    r"page allocation failure",
    r"invoked oom-killer",
    r"\bOut of memory: ",
    # references and names
    r"kobject.*(tried to init an initialized|is not initialized|does not have a release)",
    r"sysfs: cannot create duplicate filename",
    r"unregister_netdevice: waiting for",
    # data
    r"(EXT4-fs|XFS \(\S+\): ).*([Ee]rror|[Cc]orrupt)",
    r"Corruption of in-memory data",
    # programs
    r"\bsegfault at\b",
    # our own collection
    r"kernel messages were lost",
]

# Contain one of the above, but say nothing bad.
HARMLESS = [
    r"Spectre V2 : WARNING: ",
]

_bad = re.compile("|".join(f"(?:{expression})" for expression in BAD))
_harmless = re.compile("|".join(f"(?:{expression})" for expression in HARMLESS))


def problems(lines, allowed=()):
    """The lines that a kernel must not have logged, but for the allowed ones.

    allowed: regular expressions, each of which excuses the lines it matches
    """
    excused = [re.compile(expression) for expression in allowed]
    return [line for line in lines
            if _bad.search(line) and not _harmless.search(line)
            and not any(expression.search(line) for expression in excused)]


# Bits of the flags register that are 0 in every real processor
NEVER_SET = 0xffc08028


def emulator_broke(lines):
    """True if a kernel died of a double fault with flags that no processor has.

    QEMU, which works them out late, sometimes takes a value of another register for them when
    an interrupt comes at a bad moment.
    """
    text = "\n".join(lines)
    flags = re.findall(r"\bEFLAGS: ([0-9a-f]{8})\b", text)
    return "double fault" in text and any(int(each, 16) & NEVER_SET for each in flags)


class KernelLog:
    """The growing kernel log of a guest; every line is on disk at once."""

    def __init__(self):
        self._lines = []
        self._arrival = threading.Condition()
        self._file = None

    def direct_to(self, path):
        """Write lines to this file from now on."""
        with self._arrival:
            if self._file:
                self._file.close()
            self._file = open(path, "a", encoding="utf-8") if path else None

    def add(self, lines):
        """Take more lines."""
        with self._arrival:
            self._lines += lines
            if self._file:
                self._file.write("\n".join(lines) + "\n")
                self._file.flush()
            self._arrival.notify_all()

    def position(self):
        """Where the log ends now; for since()."""
        with self._arrival:
            return len(self._lines)

    def since(self, position=0):
        """The lines after a position."""
        with self._arrival:
            return self._lines[position:]

    def wait_for(self, expression, position=0, timeout=30):
        """Wait for a line that matches; returns it, or None when time is up."""
        wanted = re.compile(expression)
        seen = position

        def arrived():
            nonlocal seen
            while seen < len(self._lines):
                seen += 1
                if wanted.search(self._lines[seen - 1]):
                    return self._lines[seen - 1]
            return None

        with self._arrival:
            return self._arrival.wait_for(arrived, timeout)
