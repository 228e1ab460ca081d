#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that forked children have in common with their parents: still in common after a restart, and
no longer as soon as one of them writes. What a restart leaves behind that cannot make a child: nothing."""
import ast
import errno
import json
import os
import signal
import subprocess

import case
import tools
from case import processes

# A process with children ("fan"), or with a child that has a child that … ("chain"). Each of them has
# changed 1/64 of the memory that it was forked with, four pages in a row. Arguments: shape, MiB, number
# of the forked, and {number: what else it does}. Lines of input are expressions.
FAMILY = """
import fcntl, mmap, os, sys
shape, mib, count, more = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), eval(sys.argv[4])
PAGE = 4096
memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
numbers = range(len(memory) // PAGE)
ancestry = [0]
def owner(number):
    group = number // 4 % 64
    return group if group in ancestry else 0
def page(number):
    return (b"page %d of process %d " % (number, owner(number))).ljust(PAGE, b".")
def put(number):
    memory[number * PAGE:(number + 1) * PAGE] = page(number)
def is_right():
    return all(memory[n * PAGE:(n + 1) * PAGE] == page(n) for n in numbers)
for n in numbers:
    put(n)
common = os.open("common", os.O_RDWR | os.O_CREAT)
pipes = [(os.pipe(), os.pipe()) for _ in range(count)]
for number in range(1, count + 1):
    if ancestry[-1] == (number - 1 if shape == "chain" else 0) and os.fork() == 0:
        ancestry.append(number)
        for n in numbers:
            if owner(n) == number:
                put(n)
        exec(more.get(number, ""))
own_number = ancestry[-1]
own = os.open(f"own.{own_number}", os.O_RDWR | os.O_CREAT)
os.write(own, bytes(10 + own_number))
for number, (down, up) in enumerate(pipes, 1):
    mine = {0: (down[1], up[0]), number: (down[0], up[1])}.get(own_number, ())
    for fd in (*down, *up):
        if fd not in mine:
            os.close(fd)
def is_open(fd):
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFD) >= 0
    except OSError:
        return False
def about():
    return [os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0), is_right(),
            [fd for fd in range(64) if is_open(fd)], os.lseek(common, 0, 1), os.lseek(own, 0, 1)]
if own_number:
    down, up = pipes[own_number - 1]
    while os.read(down[0], 1):
        os.write(up[1], repr(about()).encode())
    os._exit(0)
def ask(number):
    down, up = pipes[number - 1]
    os.write(down[1], b"?")
    return eval(os.read(up[0], 4096))
def everybody():
    return [about(), *map(ask, range(1, count + 1))]
everybody()
print("ready", flush=True)
for said in sys.stdin:
    print(eval(said), flush=True)
"""
PID, PARENT, GROUP, SESSION, IS_RIGHT, DESCRIPTORS, COMMON = range(7)

# Children that are not made by a fork of their restored parent, and one that is.
A_ZOMBIE = """
pid = os.fork()
if pid == 0:
    os._exit(3)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
"""
ANOTHER_PROGRAM = """
end, its_end = os.pipe()
if os.fork() == 0:
    os.execv("/bin/sleep", ["sleep", "1000"])
os.close(its_end)
os.read(end, 1)
os.close(end)
"""
APART = {1: "os.setpgid(0, 0)", 2: "os.setsid()", 3: A_ZOMBIE, 4: ANOTHER_PROGRAM}
A_THREAD = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""

NEW_IDS = ("--no-restore-pid",)
WAYS = (NEW_IDS, (), ("--pidns",))


def is_in_namespace(words):
    return words == ("--pidns",) or (not words and not processes.keep_ids())


def kilobytes(root):
    """Of memory that is no file's, of a process and its descendants: what several of them have is
    counted once. Of pages of files, processes elsewhere have a part as well."""
    total = 0
    for pid in [root, *processes.family(root)]:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as file:
            total += sum(int(line.split()[1]) for line in file
                         if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total


def own_id(pid):
    """The id that a process has in its own pid namespace."""
    return int(case.status(pid, "NSpid").split()[-1])


class SharedPages(case.Case):
    def family(self, shape, mib, count, more=None):
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c", FAMILY, shape,
                             mib, count, repr(more or {}))
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    def ask(self, program, expression):
        program.stdin.write(expression + "\n")
        program.stdin.flush()
        said = program.stdout.readline()
        self.assertNotEqual("", said, f"the program has ended before it answered {expression}")
        return ast.literal_eval(said)

    def here(self):
        """The processes of this test, by where they are."""
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/cwd") == self.directory:
                    found.add(int(pid))
            except OSError:
                pass  # another user's, or it has ended
        return found

    def await_nothing_left(self, but=frozenset()):
        case.wait_until("the end of all that was made", lambda: self.here() <= but)

    def kill_saved(self, program, *words):
        self.save("--nosync", "--kill", "-f", "image", *words, program.pid)
        self.end(program)
        self.await_nothing_left()

    def back(self, *words):
        return self.spawn(case.command("cr_restart"), "-q", *words)

    @staticmethod
    def root_of(restarted):
        return tools.Cryo(case.BIN, "").pid_of(restarted)

    def assert_back(self, restarted, words, shape, before):
        """Everybody is there as before; what they say now, and the first one."""
        now = self.ask(restarted, "everybody()")
        root = self.root_of(restarted)
        self.assertTrue(all(one[IS_RIGHT] for one in before), before)
        self.assertEqual([one[IS_RIGHT:] for one in before], [one[IS_RIGHT:] for one in now])
        parents = [one[PID] for one in now]
        for number, one in enumerate(now[1:], 1):
            self.assertEqual(parents[number - 1 if shape == "chain" else 0], one[PARENT], now)
        if NEW_IDS[0] not in words:
            self.assertEqual([one[PID] for one in before], [one[PID] for one in now])
        ours = now[0][PID]  # it led a session without a terminal
        self.assertEqual((ours, ours), (now[0][GROUP], now[0][SESSION]))
        for one, then in zip(now[1:], before[1:], strict=True):
            group = one[PID] if then[GROUP] == then[PID] else ours
            session = one[PID] if then[SESSION] == then[PID] else ours
            self.assertEqual((group, session), (one[GROUP], one[SESSION]), now)
        return now, root

    def assert_apart(self, restarted, count):
        """What the first one writes is seen by no other; of a file that all have open, all see where."""
        self.ask(restarted, "memory.write(bytes(len(memory)))")
        self.ask(restarted, "os.lseek(common, 77, 0)")
        now = self.ask(restarted, "everybody()")
        self.assertEqual([False] + [True] * count, [one[IS_RIGHT] for one in now])
        self.assertEqual([77] * (count + 1), [one[COMMON] for one in now])

    def assert_reaped_by_parent(self, restarted, now, root):
        victim = processes.children(root)[0]
        its_id = own_id(victim)
        number = [one[PID] for one in now].index(its_id)
        os.kill(victim, signal.SIGKILL)

        def reaped():
            ended = self.ask(restarted, "os.waitpid(-1, os.WNOHANG)")
            return ended if ended[0] else None
        self.assertEqual((its_id, signal.SIGKILL), case.wait_until("its end", reaped))
        others = [one for one in range(1, len(now)) if one != number]
        self.assertEqual([one[PID] for one in now if one[PID] not in (now[0][PID], its_id)],
                         self.ask(restarted, f"[ask(one)[{PID}] for one in {others}]"))
        self.assertEqual(len(others), len(processes.children(root)))

    def comes_back_sharing(self, shape, mib, count):
        program = self.family(shape, mib, count)
        before = self.ask(program, "everybody()")
        memory = kilobytes(program.pid)
        self.assertGreater(memory, mib << 10)
        self.assertLess(memory, 2 * mib << 10)
        self.kill_saved(program)
        self.assertLessEqual(os.path.getsize(self.path("image")), 1.25 * memory * 1024)
        for words in WAYS:
            with self.subTest(words):
                restarted = self.back(*words, "image")
                now, root = self.assert_back(restarted, words, shape, before)
                self.assertEqual({one[PID] for one in now},
                                 set(map(own_id, [root, *processes.family(root)])))
                self.assertLessEqual(kilobytes(root), 1.25 * memory)
                self.assert_apart(restarted, count)
                if shape == "fan":
                    self.assert_reaped_by_parent(restarted, now, root)
                self.end(restarted)
                self.await_nothing_left()

    def test_children(self):
        self.comes_back_sharing("fan", 64, 6)

    def test_grandchildren(self):
        self.comes_back_sharing("chain", 32, 3)

    def test_saved_again(self):
        """Children that a restart has forked are like those of the program."""
        program = self.family("chain", 16, 2)
        before = self.ask(program, "everybody()")
        memory = kilobytes(program.pid)
        root = program.pid
        for generation in range(3):
            self.save("--nosync", "--kill", "-f", f"image.{generation}", root)
            self.end(program)
            program = self.back(*NEW_IDS, f"image.{generation}")
            _, root = self.assert_back(program, NEW_IDS, "chain", before)
            self.assertLessEqual(kilobytes(root), 1.5 * memory)
        self.assert_apart(program, 2)

    def test_deltas(self):
        """Of images of forks, which are deltas of their parents' images themselves."""
        for mode in ("incremental", "differential"):
            program = self.family("chain", 16, 2)
            before = self.ask(program, "everybody()")
            memory = kilobytes(program.pid)
            for number in range(3):
                self.save("--nosync", f"--delta={mode}", "-f", f"{mode}.{number}", program.pid)
            self.end(program)
            self.assertLess(os.path.getsize(self.path(f"{mode}.2")), 8 << 20)
            restarted = self.back(*NEW_IDS, f"{mode}.2")
            _, root = self.assert_back(restarted, NEW_IDS, "chain", before)
            self.assertLessEqual(kilobytes(root), 1.5 * memory)
            self.assert_apart(restarted, 2)
            self.end(restarted)

    def test_delta_of_an_image_without_digests(self):
        program = self.family("chain", 16, 2)
        before = self.ask(program, "everybody()")
        memory = kilobytes(program.pid)
        self.save("--nosync", "-f", "image", program.pid)
        self.save("--nosync", "--delta", "-f", "delta", program.pid)
        self.end(program)
        self.assertLess(os.path.getsize(self.path("delta")), 8 << 20)
        restarted = self.back(*NEW_IDS, "delta")
        _, root = self.assert_back(restarted, NEW_IDS, "chain", before)
        self.assertLessEqual(kilobytes(root), 1.5 * memory)
        self.assert_apart(restarted, 2)

    def test_backups(self):
        """No image needs itself: older backups are removed."""
        program = self.family("fan", 4, 2)
        for _ in range(4):
            self.save("--nosync", "--backup=1", "-f", "image", program.pid)
        found = [name for name in os.listdir(self.directory) if name.startswith("image")]
        self.assertEqual(2, len(found), found)
        for name in found:
            self.assertEqual(0, self.run_command("cr_inspect", "--verify", name).returncode)

    def test_killed_restart(self):
        """At any moment: nothing is left that only kept an id, or waits."""
        program = self.family("fan", 16, 4)
        self.kill_saved(program)
        for made in range(1, 13):
            restarted = self.back("image")
            case.wait_until("processes", lambda most=min(made, 5), command=restarted:
                            len(self.here()) > most or command.poll() is not None)
            restarted.kill()
            restarted.wait(case.PATIENCE)
            restarted.stdin.close() # by which the program ends, where it runs already
            self.await_nothing_left()

    def test_memory_of_their_own(self):
        """Children that are not forked by their restored parent, beside one that is."""
        program = self.family("fan", 2, 5, APART)
        before = self.ask(program, "everybody()")
        self.kill_saved(program)
        for words in (*WAYS, (*NEW_IDS, "--lazy")):
            with self.subTest(words):
                restarted = self.back(*words, "image")
                self.assert_back(restarted, words, "fan", before)
                self.assert_apart(restarted, 5)
                self.end(restarted)
                self.await_nothing_left()

    def damage(self, page):
        """A copy of the image in which this page is another where it occurs last; what is found."""
        with open(self.path("image"), "rb") as file:
            content = bytearray(file.read())
        content[content.rindex(page) + len(page) // 2] ^= 1
        with open(self.path("damaged"), "wb") as file:
            file.write(content)
        done = self.run_command("cr_inspect", "--json", "--verify", "damaged")
        bad = [one for one in json.loads(done.stdout)["images"] if not one["good"]]
        self.assertEqual({1}, {len(one["findings"]) for one in bad})
        return [one["name"] for one in bad], bad[0]["findings"][0]["text"]

    def test_damaged_page(self):
        """One that a child has changed, and one that it has from its parent, whose image has it."""
        program = self.family("fan", 4, 2)
        self.kill_saved(program)
        # The last page that was compared may be in Python's heap as well.
        for number, owner in ((8, 2), (1000, 0)):
            page = (b"page %d of process %d " % (number, owner)).ljust(4096, b".")
            names, finding = self.damage(page)
            parents = f"damaged[{program.pid}]"
            self.assertRegex(names[0], r"^damaged\[\d+\]$")
            # A page of the parent's is damaged in all images that are based on it.
            self.assertEqual((parents, 3) if owner == 0 else (names[0], 1), (names[0], len(names)))
            self.assertEqual(owner == 0, parents in names, names)
            self.assertRegex(finding, r"^package \d+ at \d+ is damaged")
            for words in (*WAYS, ("--rehearse",)):
                with self.subTest((number, owner, words)):
                    failed = self.run_command("cr_restart", "-q", *words, "damaged")
                    self.assertNotEqual(0, failed.returncode)
                    self.assertIn(f"damaged: {finding}", failed.stderr)
                    self.await_nothing_left()

    def need_chosen_ids(self):
        if os.geteuid() != 0:
            self.skipTest("an id cannot be taken by choice")

    def take(self, pid, script):
        """The id is that of a shell that runs this, which has its own session. Others may be faster."""
        def taken():
            with case.next_id(pid):
                one = self.spawn("/bin/sh", "-c", script, cwd="/", stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL)
            if "exec" not in script:
                one.wait(case.PATIENCE)
            if one.pid == pid:
                return one
            os.killpg(one.pid, signal.SIGKILL)
            one.wait(case.PATIENCE)
            return None
        return case.wait_until(f"the id {pid}", taken)

    def refuses_while_taken(self, pid, script, said):
        holder = self.take(pid, script)
        try:
            failed = self.run_command("cr_restart", "-q", "image")
            self.assertEqual(errno.EBUSY, failed.returncode, failed.stderr)
            self.assertIn(said, failed.stderr)
            self.await_nothing_left()
        finally:
            os.killpg(pid, signal.SIGKILL)
            holder.wait(case.PATIENCE)

    def test_id_of_a_child_that_is_in_use(self):
        self.need_chosen_ids()
        program = self.family("fan", 4, 2)
        before = self.ask(program, "everybody()")
        self.kill_saved(program)
        child = before[2][PID]
        self.refuses_while_taken(child, "exec sleep 1000", f"pid {child} is in use here")
        restarted = self.back("image")
        self.assert_back(restarted, (), "fan", before)
        self.end(restarted)

    def test_id_of_a_child_that_is_a_group(self):
        """No process has it, which only shows when the child is made."""
        self.need_chosen_ids()
        program = self.family("chain", 4, 2)
        child = self.ask(program, "everybody()")[2][PID]
        self.kill_saved(program)
        self.refuses_while_taken(child, "sleep 1000 &", f"pid {child} ")

    def test_id_of_a_thread_of_a_child_that_is_in_use(self):
        self.need_chosen_ids()
        program = self.family("fan", 4, 2, {2: A_THREAD})
        child = self.ask(program, "everybody()")[2][PID]
        thread = max(int(tid) for tid in os.listdir(f"/proc/{child}/task"))
        self.assertNotEqual(child, thread)
        self.kill_saved(program)
        self.refuses_while_taken(thread, "exec sleep 1000", "one is in use here")

    def test_rehearsed(self):
        program = self.family("chain", 4, 2)
        before = self.ask(program, "everybody()")
        self.save("--rehearse", "-f", "image", program.pid)
        members = {program.pid, *processes.family(program.pid)}
        done = self.run_command("cr_restart", "--rehearse", "image")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("3 processes", done.stdout)
        self.await_nothing_left(members)
        self.assertEqual(before, self.ask(program, "everybody()"))


if __name__ == "__main__":
    case.main(chooses_ids=True)
