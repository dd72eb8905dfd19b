# SPDX-License-Identifier: GPL-2.0
"""What counts as a bad line of a kernel log, and what does not; needs no machine."""

import pytest

from vmlab import klog

BAD = """
WARNING: CPU: 1 PID: 812 at block/blk-mq.c:301 blk_mq_unquiesce_queue+0x40/0x50
WARNING: drivers/infiniband/core/cq.c:322 at ib_free_cq+0x1/0x2, CPU#1: kworker/1:1/88
------------[ cut here ]------------
Call Trace:
BUG: kernel NULL pointer dereference, address: 0000000000000008
BUG: unable to handle page fault for address: ffffb0a4c0a00000
kernel BUG at mm/slub.c:4321!
BUG: KASAN: slab-use-after-free in process_one_work+0x1/0x2
BUG kmalloc-64 (Tainted: G  O): Poison overwritten
BUG request_cache (Tainted: G O): Objects remaining in request_cache on __kmem_cache_shutdown()
BUG: sleeping function called from invalid context at kernel/locking/mutex.c:283
BUG: scheduling while atomic: kworker/0:1/9/0x00000002
BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 43s!
watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [kworker/0:1:9]
Oops: 0000 [#1] PREEMPT SMP NOPTI
Oops: general protection fault, probably for non-canonical address 0xdead000000000122: 0000
general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1]
Kernel panic - not syncing: Fatal exception in interrupt
INFO: task kworker/u4:2:45 blocked for more than 120 seconds.
INFO: task modprobe:901 is blocked on a mutex likely owned by task kworker/1:0:17.
rcu: INFO: rcu_preempt self-detected stall on CPU
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
WARNING: possible circular locking dependency detected
WARNING: possible recursive locking detected
WARNING: inconsistent lock state
WARNING: suspicious RCU usage
INFO: trying to register non-static key.
DEBUG_LOCKS_WARN_ON(lock->magic != lock)
refcount_t: underflow; use-after-free.
list_del corruption. prev->next should be ffff888103a1c010, but was dead000000000100.
UBSAN: array-index-out-of-bounds in drivers/block/x.c:12:3
KFENCE: use-after-free read in f+0x1/0x2
kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
ODEBUG: free active (active state 0) object: 000000001b2c3d4e object type: work_struct
kobject: '(null)' (00000000a1b2c3d4): is not initialized, yet kobject_put() is being called.
kobject: 'x' (00000000a1b2c3d4): does not have a release() function, it is broken
sysfs: cannot create duplicate filename '/class/x'
kworker/0:1: page allocation failure: order:5, mode:0x40cc0(GFP_KERNEL|__GFP_COMP)
fio invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0
Out of memory: Killed process 700 (fio) total-vm:900000kB
EXT4-fs error (device rnbd0): ext4_lookup:1855: inode #2: comm ls: deleted inode referenced: 12
XFS (rnbd0): Metadata corruption detected at xfs_agf_verify+0x1/0x2
XFS (rnbd0): Corruption of in-memory data (0x8) detected at xfs_trans_cancel+0x1/0x2
fio[700]: segfault at 0 ip 00007f0000000000 sp 00007ffe00000000 error 4
unregister_netdevice: waiting for eth0 to become free. Usage count = 2
kernel messages were lost
""".strip().splitlines()

GOOD = """
Linux version 6.12.1 (debian-kernel@lists.debian.org) #1 SMP PREEMPT_DYNAMIC
rtrs_core: loading out-of-tree module taints kernel.
rtrs_core: module verification failed: signature and/or required key missing - tainting kernel
rxe0: set active
rdma_rxe: loaded
infiniband rxe0: added eth0
Speed is unknown, defaulting to 1000
null_blk: disk nullb0 created
EXT4-fs (vda): mounted filesystem with ordered data mode. Quota mode: none.
XFS (rnbd0): Ending clean mount
blk_update_request: I/O error, dev rnbd0, sector 0 op 0x1:(WRITE) flags 0x800
rtrs client <a@b>: connection refused, the server answers with a warning
Debug mode: kmemleak is off
tsc: Unable to calibrate against PIT
Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on
DEBUGFS is enabled
""".strip().splitlines()


@pytest.mark.parametrize("line", BAD)
def test_bad_line_is_found(line):
    """With and without the time stamp and level that the collection adds."""
    assert len(klog.problems([line, f"[    1.000000] <4> {line}"])) == 2


@pytest.mark.parametrize("line", GOOD)
def test_good_line_is_left_alone(line):
    """Nothing that a healthy machine logs is a failure."""
    assert not klog.problems([f"[    1.000000] <6> {line}"])


def test_allowed_lines():
    """A test may excuse lines, and only those."""
    lines = ["WARNING: one", "WARNING: two"]
    assert klog.problems(lines, ["one"]) == ["WARNING: two"]


def test_log_waits_and_keeps_positions():
    """since() and wait_for() start where they are told."""
    log = klog.KernelLog()
    log.add(["a", "b"])
    position = log.position()
    log.add(["c"])
    assert log.since(position) == ["c"]
    assert log.wait_for("^a$", timeout=0) == "a"
    assert log.wait_for("^a$", position, timeout=0) is None


@pytest.mark.parametrize("line, broke", [
    ("RSP: 0018:ffffd6244010fbd0 EFLAGS: c52a8e02", True),
    ("RSP: 0018:ffffd6244010fbd0 EFLAGS: 00010246", False),
    ("RSP: 002b:00007ffd2a4d2c28 EFLAGS: 00000202 ORIG_RAX: 0000000000000001", False),
])
def test_impossible_flags(line, broke):
    """What a log says of a processor that cannot be; the first was seen."""
    assert klog.emulator_broke(["Oops: double fault: 0000 [#1] PREEMPT SMP NOPTI", line]) == broke
    assert not klog.emulator_broke(["Oops: 0000 [#1] PREEMPT SMP NOPTI", line])
