# SPDX-License-Identifier: Apache-2.0
"""What the device-mapper target log-writes has written down (Linux: Documentation/admin-guide/
device-mapper/log-writes.rst): the writes to a device in the order in which they were completed.

    log = WriteLog("/dev/ram1")
    for entry in log:                        # an Entry
        if entry.is_barrier: ...             # a flush, or a write that is durable by itself
        log.apply(entry, target)
"""
import os
import struct
from dataclasses import dataclass

MAGIC = 0x6a736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


@dataclass(frozen=True)
class Entry:
    sector: int
    sectors: int
    flags: int
    data: int  # where the data lies in the log
    text: str  # of a mark

    @property
    def is_barrier(self):
        return self.flags & (FLUSH | FUA) != 0

    @property
    def is_mark(self):
        return self.flags & MARK != 0


class WriteLog:
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY)
        magic, version, self.entries, self.sector_size = struct.unpack(
            "<QQQI", os.pread(self.fd, 28, 0))
        if magic != MAGIC or version != 1:
            raise ValueError(f"{path}: no log of writes")

    def __iter__(self):
        at = self.sector_size
        for _ in range(self.entries):
            head = os.pread(self.fd, self.sector_size, at)
            sector, sectors, flags, length = struct.unpack_from("<QQQQ", head)
            at += self.sector_size
            yield Entry(sector, sectors, flags, at,
                        head[32:32 + length].decode() if flags & MARK else "")
            if not flags & (DISCARD | MARK):
                at += sectors * self.sector_size

    def apply(self, entry, target):
        """Writes to the descriptor `target` what the entry has written."""
        if entry.is_mark or entry.flags & DISCARD:
            return  # what was discarded may as well still be there
        done, size = 0, entry.sectors * self.sector_size
        while done < size:
            part = os.pread(self.fd, min(size - done, 1 << 20), entry.data + done)
            os.pwrite(target, part, entry.sector * self.sector_size + done)
            done += len(part)
