#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""run.py SECONDS PROGRAM [ARGUMENT]... -- run a libFuzzer program for a while.

It runs for SECONDS and until it has had a third of that as processor time,
because it may have to share the processors with everything else.  It is then
asked to end, and prints its statistics.  The exit status is the program's.
"""

import os
import signal
import subprocess
import sys
import time


def processor_time(pid):
    """Seconds of processor time that a child has had."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as handle:
        fields = handle.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(seconds, argv):
    """Run it to its end."""
    started = time.monotonic()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as fuzzer:
        while True:
            try:
                return fuzzer.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
            if time.monotonic() - started >= seconds and \
                    processor_time(fuzzer.pid) >= seconds / 3:
                # libFuzzer ends after the input that it is trying.
                fuzzer.send_signal(signal.SIGUSR1)
                return fuzzer.wait()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
