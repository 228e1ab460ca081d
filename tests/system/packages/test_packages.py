#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages of the last commit (scripts/package): what is in them, and that they are
installed, used and removed in a clean system of Debian 12, where nothing else is installed than what
they say they need.

MPI jobs are not run there: mpi.* runs them, with the same libraries. The module is built by DKMS for
the kernel of that release, and not loaded, which vm.dkms.* does.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
CONSUMER = os.path.join(TOP, "tests", "system", "install", "consumer")
sys.path.insert(0, os.path.join(TOP, "scripts"))

from vmlib import clean  # noqa: E402 (needs the path above)

SUITE = "bookworm"
NAMES = ["cryo", "cryo-dkms", "cryo-metrics", "cryo-mpi", "cryo-slurm", "cryo-store", "libcr-dev", "python3-cryo"]
USER = "1000:1000"
LIBDIR = "usr/lib/x86_64-linux-gnu"
HEADERS = "linux-headers-cloud-amd64"

# What dpkg, apt, systemd and DKMS write for themselves when any package comes or goes.
NOT_OURS = re.compile(
    r"/(var/(lib/(apt|dpkg)|cache|log)|tmp|run|proc|sys|dev|packages)(/.*)?|"
    r"/etc/(passwd|shadow|group|gshadow)-|/etc/\.pwd\.lock|/etc/ld\.so\.cache|"
    r"/var/lib/dkms/mok\.(key|pub)|/usr/lib/modules/[^/]+/modules\.[^/]+")

DEBS = {}  # path by the package's name


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def setUpModule():
    said = run(os.path.join(TOP, "scripts", "package"), "--no-install")
    for path in re.findall(r"^ +(/\S+\.deb)$", said, re.MULTILINE):
        DEBS[run("dpkg-deb", "-f", path, "Package").strip()] = path


def files_of(name):
    """Paths in a package that are not directories."""
    listing = run("dpkg-deb", "-c", DEBS[name])
    return [line.split()[5].removeprefix("./") for line in listing.splitlines() if line[0] != "d"]


class Contents(unittest.TestCase):
    def test_names(self):
        self.assertEqual([name for name in sorted(DEBS) if not name.endswith("-dbgsym")], NAMES)

    def test_no_file_is_in_two_packages(self):
        owner = {}
        for name in NAMES:
            for path in files_of(name):
                self.assertNotIn(path, owner, f"in {name} and {owner.get(path)}")
                owner[path] = name

    def test_commands_have_page_and_completion(self):
        """In the command's own package."""
        commands = 0
        for name in NAMES:
            paths = files_of(name)
            for path in paths:
                folder, command = os.path.split(path)
                if folder == "usr/bin":
                    commands += 1
                    self.assertIn(f"usr/share/man/man1/{command}.1.gz", paths)
                    self.assertIn(f"usr/share/bash-completion/completions/{command}", paths)
        self.assertGreaterEqual(commands, 11)

    def test_what_belongs_where(self):
        for name, path in (("cryo", f"{LIBDIR}/libcr.so.0"), ("cryo", f"{LIBDIR}/libcr_run.so"),
                           ("cryo", "usr/bin/cr_run"), ("libcr-dev", f"{LIBDIR}/libcr.so"),
                           ("libcr-dev", "usr/include/linux/cryo.h"),
                           ("cryo-mpi", f"{LIBDIR}/cryo/libcryo_openmpi.so"),
                           ("cryo-mpi", f"{LIBDIR}/cryo/libcryo_mpich.so"),
                           ("cryo-mpi", f"{LIBDIR}/cryo/openmpi/mca_hook_cryo.so"),
                           ("cryo-slurm", f"{LIBDIR}/cryo/spank_cryo.so"),
                           ("cryo-metrics", "usr/lib/systemd/system/cryo-metrics.service"),
                           ("cryo", "usr/lib/systemd/system/cryo@.service"),
                           ("python3-cryo", "usr/lib/python3/dist-packages/cryo/_cryo.abi3.so"),
                           ("cryo-dkms", "usr/lib/udev/rules.d/60-cryo.rules"),
                           ("cryo-dkms", "usr/lib/sysusers.d/cryo.conf")):
            self.assertIn(path, files_of(name))

    def test_mpi_part_needs_no_mpi_library(self):
        """Nobody has to install MPICH for Open MPI's part, or the other way round."""
        needed = run("dpkg-deb", "-f", DEBS["cryo-mpi"], "Depends", "Recommends")
        self.assertNotRegex(needed, "mpich|openmpi")


class Used(unittest.TestCase):
    """The packages for programs, beside a compiler."""

    @classmethod
    def setUpClass(cls):
        cls.system = clean.System(SUITE)
        cls.addClassCleanup(cls.system.remove)
        more = ["gcc", "libc6-dev", "pkgconf"]
        cls.system.offer([DEBS[name] for name in NAMES if name != "cryo-dkms"], more)
        cls.system.run(["apt-get", "install", "cryo"])
        cls.alone = cls.system.run(["cr_run", "--version"])
        cls.system.run(["apt-get", "install", "libcr-dev", "cryo-metrics", "cryo-mpi", "python3-cryo", *more])
        cls.work = os.path.join(cls.system.root, "packages", "tried")
        os.mkdir(cls.work)
        os.chmod(cls.work, 0o777)
        for name in (os.path.join(HERE, "counter.c"), os.path.join(HERE, "save_and_restore.sh"),
                     os.path.join(CONSUMER, "consumer.c")):
            shutil.copy(name, cls.work)

    def sh(self, script, ids="0:0"):
        return self.system.run(["sh", "-euc", script], ids)

    def version(self):
        return run("dpkg-deb", "-f", DEBS["cryo"], "Version").strip().rpartition("-")[0]

    def test_cryo_needs_no_other_package_of_ours(self):
        self.assertIn(self.version(), self.alone)

    def test_commands_start(self):
        for path in files_of("cryo") + files_of("cryo-metrics") + files_of("cryo-mpi"):
            if path.startswith("usr/bin/"):
                self.assertIn(self.version(), self.system.run(["/" + path, "--version"]), path)

    def test_files_are_as_packed(self):
        for name in "cryo", "libcr-dev", "cryo-metrics", "cryo-mpi", "python3-cryo":
            self.assertEqual(self.system.run(["dpkg", "--verify", name]), "")

    def test_libraries_find_what_they_need(self):
        """Components are for those who have Open MPI, where their libraries are."""
        machine_code = rf"usr/bin/.*|{LIBDIR}/(.*\.so[\d.]*|cryo/[\w-]+)"
        for name in "cryo", "cryo-metrics", "cryo-mpi":
            for path in files_of(name):
                if re.fullmatch(machine_code, path) and "/openmpi" not in path and self.is_elf(path):
                    self.assertNotIn("not found", self.system.run(["ldd", "/" + path]), path)

    def is_elf(self, path):
        """The service is a script in the folder of programs."""
        return self.sh(f"head -c 4 '/{path}'") == "\x7fELF"

    def test_no_library_is_taken_for_mpi(self):
        self.sh("ldconfig")
        self.assertNotRegex(self.sh("ldconfig -p"), "libmpi|libmpich|/cryo/")

    def test_program_with_libcr(self):
        built = "cd /packages/tried && gcc -Wall -Werror -o consumer consumer.c $(pkg-config --cflags --libs libcr)"
        self.sh(built)
        self.assertRegex(self.sh("/packages/tried/consumer"), rf"^{re.escape(self.version())}: \w")

    def test_metrics_are_served(self):
        """From the directory of the package, by any user."""
        self.assertIn("cr_metrics: http://127.0.0.1:", self.sh("""
            said=$(mktemp)
            cr_metrics --listen 127.0.0.1:0 > "$said" &
            until [ -s "$said" ]; do kill -0 $!; sleep 0.05; done
            kill $!
            wait $!
            cat "$said"
            rm "$said" """, USER))

    def test_project_with_cmake(self):
        """Configured and linked by this machine's tools, against the system's files."""
        with tempfile.TemporaryDirectory(prefix="cryo-packages-") as place:
            run("cmake", "-S", CONSUMER, "-B", place,
                f"-DCMAKE_PREFIX_PATH={os.path.join(self.system.root, 'usr')}")
            run("cmake", "--build", place)
            needed = run("readelf", "-d", os.path.join(place, "consumer_c"))
            self.assertIn("[libcr.so.0]", needed)

    def test_python_module(self):
        told = self.system.run(["python3", "-c", "import cryo; print(cryo.__version__, cryo.available())"], USER)
        self.assertEqual(f"{self.version()} True\n", told)

    def test_save_and_restore(self):
        """As a user whom the system does not know, by what needs no module."""
        self.sh("cd /packages/tried && gcc -O2 -o counter counter.c && mkdir -m 777 saved")
        said = self.system.run(["/packages/tried/save_and_restore.sh", "/packages/tried/saved",
                                "/packages/tried/counter"], USER)
        self.assertIn("word counted", said)


class Removed(unittest.TestCase):
    """All packages, where what they depend on, and the headers of a kernel, stay."""

    @classmethod
    def setUpClass(cls):
        cls.system = clean.System(SUITE)
        cls.addClassCleanup(cls.system.remove)
        needed = cls.system.offer([DEBS[name] for name in NAMES], [HEADERS])
        cls.system.run(["apt-get", "install", *needed])

    def files(self):
        listing = self.system.run(["find", "/", "-xdev", "-print"]).splitlines()
        return {path for path in listing if not NOT_OURS.fullmatch(path)}

    def modules(self):
        return glob.glob(os.path.join(self.system.root, "usr/lib/modules/*/updates/dkms/cryo.ko*"))

    def test_purge_leaves_nothing(self):
        before = self.files()
        self.system.run(["apt-get", "install", *NAMES])
        self.assertEqual(self.system.run(["dpkg", "--verify", *NAMES]), "")
        self.assertEqual(len(self.modules()), 1, self.system.run(["dkms", "status"]))
        self.assertIn("cryo", self.system.run(["getent", "group", "cryo"]))
        self.assertIn("installed", self.system.run(["dkms", "status", "-m", "cryo"]))
        self.system.run(["apt-get", "purge", *NAMES])
        self.assertEqual(self.modules(), [])
        self.assertEqual(sorted(self.files() ^ before), [])
        left = self.system.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"])
        self.assertNotRegex(left, rf"(?m)^({'|'.join(NAMES)}) ")


if __name__ == "__main__":
    unittest.main()
