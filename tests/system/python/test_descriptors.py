#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Descriptors that change after cr_checkpoint has looked at them and before the program stands still:
in a callback. The image has what they were in the stop.

    test_descriptors.py COMMANDS MODULES [unittest's arguments]
"""
import json
import os

import case

# Enough for an early look: at numbers that nothing else has.
PROGRAM = """
    import fcntl, socket
    FIRST, COUNT = 100, 200
    END = FIRST + COUNT + 12
    OURS = [*range(FIRST, FIRST + COUNT + 5), END - 2, END - 1] # the agent takes others for a while
    KCMP = 312

    def put(number, fd, cloexec=False):
        os.dup2(fd, number, inheritable=not cloexec)
        if fd != number:
            os.close(fd)

    def open_at(number, name, flags=os.O_RDWR | os.O_CREAT, cloexec=False):
        put(number, os.open(name, flags), cloexec)

    def file(i):
        return f"file.{i}"

    def state():
        lines = []
        opened = []
        for number in OURS:
            try:
                status = os.fstat(number)
            except OSError:
                continue
            link = os.readlink(f"/proc/self/fd/{number}").replace(os.getcwd(), "")
            if link.endswith(" (deleted)") or link == "/third": # comes back without a name, or by its other one
                link = "gone"
            try:
                place = os.lseek(number, 0, os.SEEK_CUR)
            except OSError:
                place = None
                link = link.partition(":")[0]
            try:
                locks = [line.split()[2:5] for line in open(f"/proc/self/fdinfo/{number}")
                         if line.startswith("lock:")]
            except OSError:
                locks = None
            same = [other for other in opened
                    if ctypes.CDLL(None).syscall(KCMP, os.getpid(), os.getpid(), 0, other, number) == 0]
            opened.append(number)
            lines.append(f"{number} {link} {fcntl.fcntl(number, fcntl.F_GETFL):o} "
                         f"{fcntl.fcntl(number, fcntl.F_GETFD)} {place} {status.st_mode:o} "
                         f"{status.st_size} {locks} {same[:1]}")
        return lines

    def change():
        # CHANGES

    changed = False
    expected = []

    @cryo.before_checkpoint
    def before():
        global changed, expected
        if not changed:
            change()
        changed = True
        expected = state()

    @cryo.after_restart
    def again():
        now = state()
        say("as it was" if now == expected else
            "different:\\n" + "\\n".join(sorted(set(now) ^ set(expected), key=lambda line: line.split()[0])))
        os._exit(7)

    os.mkdir("directory")
    os.mkdir("other")
    for i in range(COUNT):
        open_at(FIRST + i, file(i) if i < 150 else f"directory/{file(i)}", cloexec=i % 2)
        os.write(FIRST + i, f"text of {i}".encode())
    EXTRA = FIRST + COUNT
    open_at(EXTRA, "directory", os.O_RDONLY | os.O_DIRECTORY)
    for number, fd in zip((EXTRA + 1, EXTRA + 2), os.pipe()):
        put(number, fd)
    for number, end in zip((EXTRA + 3, EXTRA + 4), socket.socketpair()):
        put(number, end.detach())
    say("ready")
    while True:
        time.sleep(0.01)
"""
SEVERAL = """
os.close(FIRST)                                            # closed
open_at(FIRST + 1, "elsewhere")                            # another file
os.write(FIRST + 1, b"elsewhere")
os.dup2(FIRST + 2, FIRST + 3)                              # shared, where there were two
open_at(FIRST + 4, file(5))                                # the neighbour's file
fcntl.fcntl(FIRST + 6, fcntl.F_SETFL, os.O_APPEND)         # flags
fcntl.fcntl(FIRST + 7, fcntl.F_SETFD, 0)
fcntl.fcntl(FIRST + 8, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
os.lseek(FIRST + 9, 3, os.SEEK_SET)                        # position
os.rename(file(10), "renamed")                             # names
os.unlink(file(11))
os.link(file(12), "second")
open_at(FIRST + 12, "second", os.O_RDWR)
os.link(file(13), "third")
os.unlink(file(13))
os.rename(file(14), file(15))
os.link(file(16), "fourth")
os.rename(file(17), "moved")
open(file(17), "w").close()
os.write(FIRST + 18, b" and more")                         # size
os.ftruncate(FIRST + 19, 2)
fcntl.flock(FIRST + 20, fcntl.LOCK_EX)                     # locks
fcntl.lockf(FIRST + 21, fcntl.LOCK_EX)
open_at(FIRST + 22, "directory", os.O_RDONLY | os.O_DIRECTORY) # another kind
open_at(FIRST + 23, "/dev/null", os.O_RDWR)
put(FIRST + 24, os.eventfd(3) if hasattr(os, "eventfd") else os.open("/dev/zero", os.O_RDONLY))
open_at(FIRST + 25, file(25), os.O_RDONLY)                 # opened anew, for less
open_at(EXTRA + 10, "fresh")                               # further ones
os.dup2(FIRST + 26, EXTRA + 11)
mine, theirs = os.pipe()                                   # pipes and sockets
os.write(theirs, b"waits")
put(EXTRA + 1, mine)
put(EXTRA + 2, theirs)
one, other = socket.socketpair()
one.send(b"waits, too")
put(EXTRA + 3, one.detach())
put(EXTRA + 4, other.detach())
"""
OF_DIRECTORY = """
os.rename("directory", "gone")
os.rename("other", "directory")
open("directory/file.160", "w").close()
"""
ALL_OTHERS = """
for i in range(COUNT):
    os.close(FIRST + i)
for i in range(COUNT):
    open_at(FIRST + i, file((i + 7) % 150), os.O_RDONLY)
"""


class Descriptors(case.Case):
    def try_out(self, changes, *options):
        self.start(PROGRAM.replace("# CHANGES", changes.strip().replace("\n", "\n        ") or "pass"))
        self.await_line("ready")
        self.save("--nosync", *options)
        self.kill()
        self.back()
        self.await_line("as it was")
        self.end(7)

    def test_nothing_changes(self):
        self.try_out("pass")

    def test_several_changes(self):
        self.try_out(SEVERAL)

    def test_several_changes_with_contents(self):
        self.try_out(SEVERAL, "--save-all")

    def test_directory_exchanged(self):
        self.try_out(OF_DIRECTORY)

    def test_all_numbers_lead_elsewhere(self):
        self.try_out(ALL_OTHERS)

    def test_all_closed(self):
        self.try_out("os.closerange(FIRST, END)")

    def test_names_in_the_image(self):
        """No name of before the stop."""
        self.start(PROGRAM.replace("# CHANGES", SEVERAL.strip().replace("\n", "\n        ")))
        self.await_line("ready")
        self.save("--nosync")
        done = self.cryo("cr_inspect", "--json", "image")
        self.assertEqual(0, done.returncode, done.stderr)
        records = json.loads(done.stdout)["snapshots"][0]["images"][0]["records"]
        paths = {file["id"]: file["path"] for file in records["file"]}
        files = {one["id"]: paths[one["file"]] for one in records["open_file"]}
        names = {one["fd"]: os.path.basename(files[one["open_file"]]) for one in records["descriptor"]}
        self.assertNotIn(100, names)
        expected = {101: "elsewhere", 102: "file.2", 103: "file.2", 104: "file.5", 110: "renamed", 112: "second",
                    113: "third", 114: "file.15", 117: "moved", 120: "file.20", 310: "fresh", 311: "file.26"}
        self.assertEqual(expected, {number: names[number] for number in expected})
        self.assertEqual(1, len({one["open_file"] for one in records["descriptor"] if one["fd"] in (102, 103)}))
        self.assertEqual(2, len({one["open_file"] for one in records["descriptor"] if one["fd"] in (104, 105)}))


if __name__ == "__main__":
    case.main()
