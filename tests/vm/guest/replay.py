# SPDX-License-Identifier: GPL-2.0
"""replay.py LOG TARGET MARK: write to TARGET what dm-log-writes has logged before a mark.

The log has what was written to a disk in the order in which it became durable; what no flush
and no FUA made durable before the mark is not in front of it.  One entry after the other:

    superblock  le64 magic, version, number of entries; le32 bytes of a sector
    entry       le64 sector, number of sectors, flags, length of its text; the text; in a
                sector of its own, with the sectors that were written behind it
"""

import os
import struct
import sys

MAGIC, VERSION = 0x6a736677736872, 1
DISCARD, MARK = 4, 8
SUPER, ENTRY = struct.Struct("<QQQL"), struct.Struct("<QQQQ")


def replay(log, target, mark):
    """Returns how many entries precede the mark; None if it is not there."""
    # The log is written behind the back of the cache that we read through.
    os.posix_fadvise(log, 0, 0, os.POSIX_FADV_DONTNEED)
    magic, version, entries, sector_size = SUPER.unpack(os.pread(log, SUPER.size, 0))
    assert (magic, version) == (MAGIC, VERSION), "not a log of dm-log-writes"
    position = sector_size
    for number in range(entries):
        head = os.pread(log, sector_size, position)
        sector, sectors, flags, text_len = ENTRY.unpack_from(head)
        position += sector_size
        if flags & MARK and head[ENTRY.size:ENTRY.size + text_len].decode() == mark:
            return number
        # What a discard leaves is anybody's guess; it has no data in the log.
        if flags & DISCARD:
            continue
        size = sectors * sector_size
        if size:
            data = os.pread(log, size, position)
            assert os.pwrite(target, data, sector * sector_size) == size == len(data)
        position += size
    return None


def main():
    """Carry out the command line."""
    log, target = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY)
    before = replay(log, target, sys.argv[3])
    if before is None:
        sys.exit(f"no mark {sys.argv[3]}")
    os.fsync(target)
    print(before)


if __name__ == "__main__":
    main()
