# SPDX-License-Identifier: Apache-2.0
"""Containers of podman with a store of their own, of root or of another user.

    with Podman("/usr/bin/podman", BIN, uid=None) as podman:
        podman.start("one", "cr_run", "sleep", "1000")
        podman.within("one", "cr_checkpoint", "-f", "/images/one", "1")

The image is a few directories, and /usr is the machine's own: what is in /images, and what a program
does, is all that such a test is about. There is no network, and no cgroup of a container's own.
"""
import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import tarfile
import tempfile

from waiting import wait_until

PATIENCE = 120  # for one command of podman's
NEW_MOUNTS, RECURSIVE, SLAVE = 0x20000, 0x4000, 0x80000


def leave_hybrid_cgroups():
    """crun does not start containers where both versions of cgroups are mounted and the second has
    controllers. This process and its children live without that mount. Only for root."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [(line.split()[4], line.split(" - ")[1].split()[0]) for line in file]
    second = [place for place, kind in mounts
              if kind == "cgroup2" and place.startswith("/sys/fs/cgroup/")]
    if not second or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS) or libc.mount(b"none", b"/", None, RECURSIVE | SLAVE, None):
        raise OSError(ctypes.get_errno(), "no mounts of our own")
    for place in second:
        libc.umount2(place.encode(), 0)


def limit(which, most):
    """Not more than ours, as there may be no privilege to raise it."""
    hard = resource.getrlimit(which)[1]
    return most if hard == resource.RLIM_INFINITY else min(most, hard)


def make_image(path):
    with tarfile.open(path, "w") as image:
        for name in ("etc", "tmp", "var", "var/tmp", "root", "proc", "sys", "dev", "run", "usr", "images"):
            one = tarfile.TarInfo(name)
            one.type, one.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            image.addfile(one)
        for name in ("bin", "lib", "lib64", "sbin"):
            if os.path.islink("/" + name):
                one = tarfile.TarInfo(name)
                one.type, one.linkname = tarfile.SYMTYPE, os.readlink("/" + name)
                image.addfile(one)
        for name in ("passwd", "group", "ld.so.cache"):
            image.add("/etc/" + name, "etc/" + name)


class Podman:
    def __init__(self, program, commands, uid=None):
        self.uid = uid
        self.top = tempfile.mkdtemp(prefix="cryo-containers.")
        self.images = os.path.join(self.top, "images")
        for name in ("images", "store", "run", "tmp", "home", "runtime"):
            os.mkdir(os.path.join(self.top, name), 0o700)
        make_image(os.path.join(self.top, "image.tar"))
        if uid is not None:
            for name in ("", *os.listdir(self.top)):
                os.chown(os.path.join(self.top, name), uid, uid)
        self.prefix = [program, "--root", self.top + "/store", "--runroot", self.top + "/run",
                       "--tmpdir", self.top + "/tmp", "--storage-driver", "vfs", "--cgroup-manager",
                       "cgroupfs", "--events-backend", "none", "--log-level", "error"]
        release = os.path.dirname(commands)
        self.options = [
            "--cgroups=disabled", "--network=none", "--volume=/usr:/usr:ro",
            f"--volume={release}:{release}:ro", f"--volume={self.images}:/images",
            f"--env=PATH={commands}:/usr/bin:/usr/sbin",
            f"--ulimit=nofile=1024:{limit(resource.RLIMIT_NOFILE, 4096)}",
            "--ulimit=nproc={0}:{0}".format(limit(resource.RLIMIT_NPROC, 4000))]
        self.environment = {
            **{name: value for name, value in os.environ.items()
               if not name.startswith(("CRYO_", "LD_", "XDG_", "DBUS_", "CONTAINER"))},
            "HOME": self.top + "/home", "XDG_RUNTIME_DIR": self.top + "/runtime",
            "TMPDIR": self.top + "/tmp"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self("rm", "--force", "--time=0", "--all", check=False)
        # What keeps the user namespace of a user's containers.
        for folder in ("tmp", "runtime/libpod/tmp"):
            with contextlib.suppress(OSError, ValueError), \
                    open(f"{self.top}/{folder}/pause.pid", encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGKILL)
        try:
            # podman tidies up behind each container, and would make the directory again.
            wait_until("the end of podman's own processes", lambda: not self._working())
        finally:
            shutil.rmtree(self.top)

    def _working(self):
        """What names our directory on its command line."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                if os.fsencode(self.top) in file.read():
                    found.append(int(pid))
        return found

    def _become_user(self):
        if self.uid is not None:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def __call__(self, *words, check=True):
        """What it says on standard output, and behind that on standard error."""
        done = subprocess.run([*self.prefix, *words], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                              check=False, env=self.environment, cwd=self.top,
                              preexec_fn=self._become_user)
        if check and done.returncode != 0:
            raise AssertionError(f"podman {' '.join(words)}: {done.returncode}\n{done.stderr}")
        own = 'time="'  # begins podman's own remarks
        return done.stdout + "".join(line + "\n" for line in done.stderr.splitlines()
                                     if not line.startswith(own))

    def import_image(self):
        self("import", self.top + "/image.tar", "cryo-test")

    def start(self, name, *words, options=()):
        """A container of that name, whose first process executes the words."""
        self("run", "--detach", "--name", name, *self.options, *options, "localhost/cryo-test:latest",
             *words)

    def run(self, *words, options=()):
        """In a container that is removed at once."""
        return self("run", "--rm", *self.options, *options, "localhost/cryo-test:latest", *words)

    def within(self, name, *words, check=True):
        return self("exec", name, *words, check=check)

    def remove(self, name):
        self("rm", "--force", "--time=0", name)

    def look(self, name, what):
        """podman inspect: what="State.Pid"."""
        return self("inspect", "--format", "{{." + what + "}}", name).strip()
