#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another user takes the names that Cryo's parts meet at, before they do: programs are saved all the
same, and MPI jobs start."""
import os
import re
import shutil
import time

import process_attack
from process_attack import ATTACKER, VICTIM, case, user

PATIENCE = 10  # seconds, of a command that meets what the attacker has left
NOBODYS = 64123  # a user without a directory for jobs

# Takes the abstract address of each of these numbers, as ATTACKER; listens there where asked.
TAKE = """
import os, socket, sys
names = sys.argv[2:]
taken = []
for name in names:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.bind("\\0" + name)
    if sys.argv[1] == "listen":
        one.listen()
    taken.append(one)
print("ready", flush=True)
sys.stdin.read()
"""


class Squatting(process_attack.Attack):
    def take(self, how, names):
        squatter = self.spawn("/usr/bin/python3", "-S", "-c", TAKE, how, *names, **user(ATTACKER))
        self.assertEqual("ready\n", squatter.stdout.readline())
        return squatter

    @staticmethod
    def names_of(pid):
        space = os.readlink(f"/proc/{pid}/ns/pid")
        return [f"cryo.{space}.{pid}", f"cryo.{space}.{pid}.turn"]

    def save_and_measure(self, pid, name, who):
        begun, before = time.monotonic(), os.times()
        done = self.checkpoint("-q", "--nosync", "-f", name, pid, timeout=PATIENCE, **user(who))
        self.assertEqual(0, done.returncode, done.stderr)
        after = os.times()
        spent = (after.children_user + after.children_system - before.children_user -
                 before.children_system)
        self.assertLess(time.monotonic() - begun, PATIENCE)
        self.assertLess(spent, 2)  # it does not spin

    def test_addresses_taken(self):
        """Those at which agents listened once, and those by which checkpoints take turns."""
        program = self.start(**user(VICTIM))
        for how in ("listen", "only bind"):
            squatter = self.take(how, [name for name in self.names_of(program.pid)])
            for who in (VICTIM, 0):
                self.save_and_measure(program.pid, f"image.{how[0]}.{who}", who)
            self.end(squatter)
        self.assert_alive(program)

    def test_addresses_taken_before(self):
        """The attacker knows which number comes next, and is there first."""
        space = os.readlink("/proc/self/ns/pid")
        with open("/proc/sys/kernel/ns_last_pid", encoding="ascii") as last:
            first = int(last.read())
        numbers = range(first, first + 300)
        self.take("only bind", [f"cryo.{space}.{number}" for number in numbers])
        program = self.start(**user(VICTIM))
        self.save_and_measure(program.pid, "image", VICTIM)
        self.assert_alive(program)

    def test_place_of_jobs_taken(self):
        place = f"/tmp/cryo-{NOBODYS}"
        os.mkdir(place, 0o777)
        self.addCleanup(shutil.rmtree, place)
        os.chown(place, ATTACKER, ATTACKER)
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("XDG_RUNTIME_DIR", "CRYO_RUNTIME_DIR")}
        done = self.run_command("cr_run", "--mpi", "sh", "-c", "env; stat -c %u:%a $CRYO_RUNTIME_DIR",
                                env={**environment, "CRYO_LISTEN": "127.0.0.1"}, **user(NOBODYS))
        self.assertEqual(0, done.returncode, done.stderr)
        found = re.search(rf"^CRYO_RUNTIME_DIR=({place}\.\w+)$", done.stdout, re.MULTILINE)
        self.assertTrue(found, done.stdout)
        self.assertIn(f"\n{NOBODYS}:700\n", done.stdout)
        self.assertEqual([], os.listdir(place))
        # The job's daemon ends with the launcher, and leaves nothing.
        case.wait_until("its end", lambda: not os.path.exists(found.group(1)))

    def test_private_place_of_jobs(self):
        """Where the user has a directory of his own, nothing is in /tmp."""
        self.addCleanup(shutil.rmtree, f"/tmp/cryo-{NOBODYS}", ignore_errors=True)
        own = self.path("own")
        os.mkdir(own, 0o700)
        os.chown(own, NOBODYS, NOBODYS)
        done = self.run_command("cr_run", "--mpi", "sh", "-c", "find $XDG_RUNTIME_DIR",
                                env={**os.environ, "CRYO_LISTEN": "127.0.0.1",
                                     "XDG_RUNTIME_DIR": own}, **user(NOBODYS))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, rf"{own}/cryo/\d+-\w+/\.root")
        self.assertFalse(os.path.exists(f"/tmp/cryo-{NOBODYS}"))

    def test_directory_of_others_is_not_used(self):
        """An XDG_RUNTIME_DIR in which others may write: the agent listens elsewhere."""
        open_to_all = self.path("open")
        os.mkdir(open_to_all)
        os.chmod(open_to_all, 0o777)
        program = self.start(env={**os.environ, "XDG_RUNTIME_DIR": open_to_all}, **user(VICTIM))
        doors = [os.readlink(f"/proc/{program.pid}/fd/{fd}")
                 for fd in os.listdir(f"/proc/{program.pid}/fd")]
        self.assertTrue([door for door in doors if re.search(r"/cryo\.\d+\.\w{16} \(deleted\)$", door)])
        self.assertFalse([door for door in doors if door.startswith(open_to_all)])
        self.save_and_measure(program.pid, "image", VICTIM)


if __name__ == "__main__":
    process_attack.main()
