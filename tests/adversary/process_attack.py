# SPDX-License-Identifier: Apache-2.0
"""An attack on processes by another user: a small program with its own verdict.

    class Mine(process_attack.Attack):
        def test_it(self):
            program = self.start(user=VICTIM)
            ...                              # what the attacker does, as user=ATTACKER
            self.assert_alive(program)
    process_attack.main()

It runs as root, who becomes the users concerned, and in a mount namespace of its own. Cryo lies in
PLACE there, where all of them see it.
"""
import ctypes
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "commands"))
import case  # noqa: E402

PLACE = "/mnt"  # as in CMakeLists.txt
VICTIM, ATTACKER = 1000, 65534


def user(uid):
    """As further arguments of a function that starts a program."""
    return {"user": uid, "group": uid, "extra_groups": []}


def leave_out(why):
    print(f"left out: {why}")
    sys.exit(77)


def have_own_place():
    """Of root. What is mounted is gone with us, and was never to be seen elsewhere."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, recursive_private = 0x20000, 0x44000
    if (libc.unshare(new_mounts) != 0
            or libc.mount(b"none", b"/", None, recursive_private, None) != 0
            or libc.mount(b"none", PLACE.encode(), b"tmpfs", 0, b"mode=755") != 0):
        leave_out(f"nothing may be mounted here: {os.strerror(ctypes.get_errno())}")


def copy_cryo(build):
    """The commands, the daemon, and libraries without those of MPI, so that all users may see them."""
    for folder, _, files in os.walk(build):
        part = os.path.relpath(folder, build)
        if part.split(os.sep)[0] not in ("bin", "lib", "lib64"):
            continue
        for name in files:
            if part == "bin" or name.startswith("libcr") or name == "mpi-daemon":
                os.makedirs(os.path.join(PLACE, part), exist_ok=True)
                shutil.copy(os.path.join(folder, name), os.path.join(PLACE, part),
                            follow_symlinks=False)


class Attack(case.Case):
    """Paths are relative to a directory that everybody may read and write."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o1777)

    def write(self, name, text, mode=0o644, owner=0):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chown(self.path(name), owner, owner)
        os.chmod(self.path(name), mode)
        return self.path(name)


def main():
    """The first argument is Cryo's build tree."""
    if os.geteuid() != 0:
        leave_out("it takes root to become another user")
    build = sys.argv[1]
    have_own_place()
    copy_cryo(build)
    sys.argv[1] = os.path.join(PLACE, "bin")
    case.main()
