#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changed pages found by soft-dirty bits, on a kernel that has them, as the module and as /proc tell
them: one boot.

    trackers_test.py CHANGES_TEST AUDIT_TEST BIN PROGRAM [--all]

All ways in which a page may change, real programs under audit, and when the bits are not used. A
plain user and root do the same, but that root has swap, and KSM at the end.
"""

import mmap
import os
import subprocess
import sys
import tempfile
import time

# What hangs on the kernel; the others run on every machine.
CHOSEN = ["test_every_way_audited", "test_written_from_outside_all_the_time",
          "test_bits_that_somebody_else_clears_are_left_to_them",
          "test_bits_that_somebody_else_has_cleared_before", "test_another_image_as_base",
          "test_a_restored_program_is_watched_anew",
          "test_the_program_closes_what_it_does_not_know"]
CHOSEN_OF_ROOT = ["test_every_way_to_the_image_before"]
# Soft-dirty bits as /proc tells them, which --all audits with real programs as well.
CHOSEN_OF_PROC = ["test_every_way_audited"]
AUDITED = 100_000  # pages
KSM = "/sys/kernel/mm/ksm/"


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def swap_on():
    subprocess.run(["modprobe", "zram"], check=True)
    write("/sys/block/zram0/disksize", "64M")
    subprocess.run(["mkswap", "/dev/zram0"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", "/dev/zram0"], check=True)


def used_tracker(tools, program):
    """What a checkpoint says by which changed pages were found."""
    with tempfile.TemporaryDirectory() as scratch, \
            subprocess.Popen([os.path.join(tools, "cr_run"), program], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        said = subprocess.run([os.path.join(tools, "cr_checkpoint"), "-v", "--nosync", "--delta",
                               "-f", os.path.join(scratch, "image"), str(process.pid)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        process.kill()
    return (said.stdout + said.stderr).partition("changed pages found by ")[2].partition(",")[0]


def after_ksm(tools, program):
    """Once pages may have been merged, the bits are not used."""
    # Where nobody has anything to merge, nothing is looked at.
    with mmap.mmap(-1, 16 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(bytes([1]) * len(memory))
        memory.madvise(mmap.MADV_MERGEABLE)
        write(KSM + "sleep_millisecs", "1")
        write(KSM + "run", "1")
        while True:  # the harness limits the time
            with open(KSM + "full_scans", encoding="ascii") as file:
                if file.read() != "0\n":
                    break
            time.sleep(0.01)
        write(KSM + "run", "0")
    return used_tracker(tools, program)


def main():
    changes, audit, tools, program = sys.argv[1:5]
    everything = sys.argv[5:] == ["--all"]
    root = os.getuid() == 0
    if root:
        swap_on()
    used = used_tracker(tools, program)
    print(f"changed pages are found by {used}", flush=True)
    expected = "module" if os.uname().release.startswith("6.1.") else "userfaultfd"
    failed = used != expected
    chosen = CHOSEN + (CHOSEN_OF_ROOT if root else [])
    for tracker, some in (("module", chosen), ("soft-dirty", CHOSEN_OF_PROC)):
        os.environ["CRYO_TRACKER"] = tracker
        told = used_tracker(tools, program)
        print(f"CRYO_TRACKER={tracker}: {told}", flush=True)
        failed |= told != tracker
        commands = [[changes, tools, program, "-v",
                     *(f"Changes.{one}" for one in some if not everything)]]
        if everything or tracker == used:
            commands.append([audit, tools, sys.executable, "--pages", str(AUDITED)])
        for command in commands:
            begun = time.monotonic()
            failed |= subprocess.run([sys.executable, "-B", *command], check=False).returncode != 0
            print(f"{tracker}: {os.path.basename(command[0])}: {time.monotonic() - begun:.0f} s",
                  flush=True)
    del os.environ["CRYO_TRACKER"]
    if root and expected == "module":
        left = after_ksm(tools, program)
        print(f"after KSM has run: {left}")
        failed |= left != "hashing"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
