# SPDX-License-Identifier: GPL-2.0
"""Virtual machines that run a distribution's own kernel, for tests and demos.

The rooms, from the ground up:

    host      what the machine offers: packages, package mirror, directories, progress lines
    proc      child processes that never outlive us; the build sandbox
    cache     directories named after the hash of what they were made from
    suites    Debian suites and the newest kernel of a series, resolved when needed
    rootfs    a suite's root file system, the guests' disk image and initrd
    modules   kernel modules built by a suite's own compiler; files of a kernel's source package
    channel   the host's half of the agent that runs inside every guest (guest/agent.py)
    klog      what a kernel log must not contain
    guest     one virtual machine
    pair      a server and a client joined by cables
    cli       the `vm` command
"""
