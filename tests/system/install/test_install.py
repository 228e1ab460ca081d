#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs a build tree into scratch places and uses it from there, as a packager and a user would.

    test_install.py BUILD_DIR
"""
import fnmatch
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
CONSUMER = os.path.join(HERE, "consumer")
BUILD = None  # the build tree, from the command line


def run(*command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def cache_value(name):
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(rf"^{name}:\w+=(.*)$", file.read(), re.MULTILINE).group(1)


class Installed(unittest.TestCase):
    """One installation below a scratch prefix, moved away from where it was made."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = os.path.realpath(tempfile.mkdtemp(prefix="cryo-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        first = os.path.join(cls.scratch, "first")
        # An earlier version was there, with a source of the module that there is no more.
        os.makedirs(os.path.join(first, "share", "cryo", "module", "kmod"))
        with open(os.path.join(first, "share", "cryo", "module", "kmod", "gone.c"), "xb"):
            pass
        run("cmake", "--install", BUILD, "--prefix", first)
        cls.prefix = os.path.join(cls.scratch, "moved")
        os.rename(first, cls.prefix)
        cls.libdir = os.path.join(cls.prefix, cache_value("CMAKE_INSTALL_LIBDIR"))
        cls.library = os.path.join(cls.libdir, "libcr.so")
        cls.header = os.path.join(cls.prefix, "include", "libcr.h")
        cls.version = cache_value("CMAKE_PROJECT_VERSION")

    def files(self):
        for folder, _, names in os.walk(self.prefix):
            for name in names:
                yield os.path.join(folder, name)

    def in_prefix(self, *path):
        found = os.path.join(self.prefix, *path)
        self.assertTrue(os.path.exists(found), f"{found} was not installed")
        return found

    def test_expected_files(self):
        # "man/*.1" in the source tree must be installed as "share/man/man1/*.1", and so on.
        for page in os.listdir(os.path.join(TOP, "man")):
            self.in_prefix("share", "man", f"man{page[-1]}", page)
        for completion in os.listdir(os.path.join(TOP, "completions")):
            self.in_prefix("share", "bash-completion", "completions", completion)
        for licence in os.listdir(os.path.join(TOP, "LICENSES")):
            self.in_prefix("share", "doc", "cryo", "LICENSES", licence)

    def test_every_file_is_in_a_package(self):
        """Where a Debian package has it: what is in none fails the build of the packages."""
        patterns = []
        for listing in [*glob.glob(os.path.join(TOP, "debian", "*.install")),
                        os.path.join(TOP, "debian", "not-installed")]:
            with open(listing, encoding="utf-8") as file:
                patterns += [line.split()[0] for line in file if not line.startswith("#")]
        self.assertGreater(len(patterns), 20)
        libdir = os.path.join("usr", cache_value("CMAKE_INSTALL_LIBDIR"))
        modules = os.path.join("usr", cache_value("CRYO_PYTHON_DIR"))
        for path in self.files():
            path = os.path.join("usr", os.path.relpath(path, self.prefix))
            # Debian's libraries are below its name of the machine, here or not.
            names = {path, re.sub(rf"^{libdir}/", "usr/lib/x86_64-linux-gnu/", path),
                     re.sub(rf"^{modules}/", "usr/lib/python3/dist-packages/", path)}
            self.assertTrue(any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name, pattern + "/*")
                                for name in names for pattern in patterns), path)

    def test_every_file_is_in_an_rpm(self):
        """Or removed by the specification, which leaves out what belongs to MPI libraries."""
        libdir = os.path.join("usr", cache_value("CMAKE_INSTALL_LIBDIR"))
        places = {"bindir": "usr/bin", "libdir": libdir, "datadir": "usr/share",
                  "mandir": "usr/share/man", "docdir": "usr/share/doc", "includedir": "usr/include",
                  "unitdir": "usr/lib/systemd/system", "userunitdir": "usr/lib/systemd/user", "sysusersdir": "usr/lib/sysusers.d",
                  "udevrulesdir": "usr/lib/udev/rules.d",
                  "python3_sitearch": os.path.join("usr", cache_value("CRYO_PYTHON_DIR"))}
        with open(os.path.join(TOP, "packaging", "rpm", "cryo.spec"), encoding="utf-8") as file:
            said = re.findall(r"^(?:%doc |rm (?:-r )?%\{buildroot\})?%\{_?(\w+)\}(/\S*)$", file.read(),
                              re.MULTILINE)
        patterns = [places[place] + rest for place, rest in said]
        self.assertGreater(len(patterns), 25)
        files = [os.path.join("usr", os.path.relpath(path, self.prefix)) for path in self.files()]
        for path in files:
            if not re.search(r"/cryo/(libcryo_|openmpi)", path): # parts that are not built there
                self.assertTrue(any(fnmatch.fnmatch(path, one) or fnmatch.fnmatch(path, one + "/*")
                                    for one in patterns), path)
        for one in patterns: # none of a file that there is no more
            self.assertTrue(fnmatch.filter(files, one) or fnmatch.filter(files, one + "/*"), one)

    def test_an_rpm_is_built_with_every_library(self):
        """What cmake requires but for tests is named in the specification."""
        with open(os.path.join(TOP, "cmake", "CryoDependencies.cmake"), encoding="utf-8") as file:
            text = re.sub(r"(?ms)^if\(BUILD_TESTING\)$.*?^endif\(\)$", "", file.read())
        required = re.findall(r"^ *pkg_check_modules\(\w+ REQUIRED (?:IMPORTED_TARGET )?(.*)\)$", text,
                              re.MULTILINE)
        modules = {re.sub("[<>=].*", "", name) for names in required for name in names.split()}
        self.assertGreater(len(modules), 6)
        with open(os.path.join(TOP, "packaging", "rpm", "cryo.spec"), encoding="utf-8") as file:
            named = re.findall(r"^BuildRequires: +pkgconfig\((.*?)\)", file.read(), re.MULTILINE)
        self.assertEqual(set(), modules - set(named))

    def test_every_command_has_page_and_completion(self):
        folder = os.path.join(self.prefix, "bin")
        for command in os.listdir(folder) if os.path.isdir(folder) else ():
            self.in_prefix("share", "man", "man1", f"{command}.1")
            self.in_prefix("share", "bash-completion", "completions", command)
            self.assertIn(self.version, run(os.path.join(folder, command), "--version"))

    def test_every_option_is_in_the_page(self):
        folder = os.path.join(self.prefix, "bin")
        for command in os.listdir(folder) if os.path.isdir(folder) else ():
            listing = run(os.path.join(folder, command), "--help")
            options = re.findall(r"^ +(?:-[\w?], )*--([\w-]+)", listing, re.MULTILINE)
            self.assertIn("help", options)
            page = self.in_prefix("share", "man", "man1", f"{command}.1")
            with open(page, encoding="utf-8") as file:
                described = re.findall(r"Fl Fl ([\w-]+)", file.read())
            self.assertEqual(set(options) - set(described), set(), f"missing in {page}")

    def test_completions_are_bash(self):
        folder = os.path.join(self.prefix, "share", "bash-completion", "completions")
        for completion in os.listdir(folder) if os.path.isdir(folder) else ():
            path = os.path.join(folder, completion)
            registered = run("bash", "-euc", '. "$1" && complete -p "$2"', "-", path, completion)
            self.assertIn(completion, registered)

    def test_module_sources_are_complete(self):
        """The kernel's build and DKMS find all they need; building it is tested elsewhere."""
        module = self.in_prefix("share", "cryo", "module")
        with open(self.in_prefix(module, "dkms.conf"), encoding="utf-8") as file:
            self.assertIn(f'PACKAGE_VERSION="{self.version}"\n', file.read())
        with open(self.in_prefix(module, "Kbuild"), encoding="utf-8") as file:
            self.assertIn("$(wildcard $(src)/kmod/*.c)", file.read())
        sources = [name for name in os.listdir(os.path.join(TOP, "kmod"))
                   if name.endswith(".c") and not name.endswith(("_kunit.c", ".mod.c"))]
        self.assertIn("main.c", sources)
        installed = os.listdir(self.in_prefix(module, "kmod"))
        self.assertEqual(sorted(sources), sorted(name for name in installed if name.endswith(".c")))
        for name in sources:
            with open(self.in_prefix(module, "kmod", name), encoding="utf-8") as file:
                for header in re.findall(r'^#include "(.*)"', file.read(), re.MULTILINE):
                    self.in_prefix(module, "kmod", header)

    def test_every_file_names_the_same_version(self):
        """What a release has to raise: CMakeLists.txt, dkms.conf, the module, and the changelogs."""
        for name, pattern in (("dkms.conf", r'^PACKAGE_VERSION="(.*)"$'),
                              ("kmod/main.c", r'^MODULE_VERSION\("(.*)"\);$'),
                              ("packaging/rpm/cryo.spec", r"^Version: +(.*)$"),
                              ("ansible/galaxy.yml", r"^version: (.*)$"),
                              ("debian/changelog", r"\Acryo \((.*)-\d+\) "),
                              ("CHANGELOG.md", r"^## \[(\d.*)\] - \d{4}-\d\d-\d\d$")):
            with open(os.path.join(TOP, name), encoding="utf-8") as file:
                said = re.search(pattern, file.read(), re.MULTILINE)
            self.assertIsNotNone(said, name)
            self.assertEqual(said.group(1), self.version, name)

    def test_dkms_passes_over_kernels_that_the_module_is_not_for(self):
        """A kernel's installation would fail with the module's build otherwise."""
        conf = self.in_prefix("share", "cryo", "module", "dkms.conf")
        matches = 'source "$1" && [[ $2 =~ ${!3} ]] && echo yes || echo no'

        def taken(word, variable):
            return run("bash", "-ec", matches, "-", conf, word, variable).strip() == "yes"

        for release in ("6.1.0-9-amd64", "6.1", "6.10.3", "6.12.117+deb12-cloud-amd64", "7.0.0",
                        "7.3.4+deb13-amd64", "10.0"):
            self.assertTrue(taken(release, "BUILD_EXCLUSIVE_KERNEL"), release)
        for release in ("6.0.19", "6.0.0-6.1-amd64", "5.10.0-39-amd64", "5.6.1", "4.19", "3.7.1"):
            self.assertFalse(taken(release, "BUILD_EXCLUSIVE_KERNEL"), release)
        self.assertTrue(taken("x86_64", "BUILD_EXCLUSIVE_ARCH"))
        for machine in ("aarch64", "i686"):
            self.assertFalse(taken(machine, "BUILD_EXCLUSIVE_ARCH"), machine)

    def test_nothing_knows_where_it_was_built(self):
        for path in self.files():
            with open(path, "rb") as file:
                content = file.read()
            if b"\0" in content:
                runpath = run("readelf", "-d", path) if content[:4] == b"\x7fELF" else ""
                # One that is relative to the file moves with it.
                self.assertNotRegex(runpath, r"\(R(UN)?PATH\).*\[(?!\$ORIGIN/)", path)
                continue
            for place in (TOP, BUILD, os.path.join(self.scratch, "first")):
                self.assertNotIn(place.encode(), content, f"{path} names {place}")

    def test_soname_and_links(self):
        self.assertRegex(run("readelf", "-d", self.library), r"SONAME.*\[libcr\.so\.0\]")
        self.assertEqual(os.readlink(self.library), "libcr.so.0")
        self.assertEqual(os.readlink(self.library + ".0"), f"libcr.so.{self.version}")

    def test_ldconfig_takes_no_library_for_another(self):
        """What has the SONAME of an MPI library would be what every MPI program loads."""
        before = sorted(os.listdir(self.libdir))
        run("/sbin/ldconfig", "-n", self.libdir)
        self.assertEqual(sorted(os.listdir(self.libdir)), before)

    def test_library_needs_only_libc(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", self.library))
        self.assertEqual(needed, ["libc.so.6"])
        # ldd sees what the needed ones need, too.
        loaded = [line.split()[0] for line in run("ldd", self.library + ".0").splitlines()]
        rest = [name for name in loaded
                if not re.search(r"linux-vdso|ld-linux|^libc\.so\.6$", name)]
        self.assertEqual(rest, [])

    def test_exported_is_what_is_declared(self):
        exported = [line.split()[-1] for line in
                    run("nm", "--dynamic", "--defined-only", self.library).splitlines()]
        listing = os.path.join(self.scratch, "declared")
        run("gcc", "-std=c99", "-fsyntax-only", "-aux-info", listing, "-x", "c", self.header)
        with open(listing, encoding="utf-8") as file:
            own = "".join(line for line in file if f"{self.header}:" in line)
        declared = re.findall(r"(\w+) \([^()]*\);", own)
        self.assertIn("cr_strerror", declared)
        with open(self.header, encoding="utf-8") as file:
            declared += re.findall(r"^extern int (\w+);", file.read(), re.MULTILINE)
        self.assertEqual(sorted(exported), sorted(declared))
        self.assertEqual([name for name in exported if not re.match("cri?_", name)], [])

    def test_preloaded_libraries_have_no_function_of_the_header(self):
        for kind in ("run", "omit"):
            exported = [line.split()[-1] for line in
                        run("nm", "--dynamic", "--defined-only",
                            os.path.join(self.libdir, f"libcr_{kind}.so")).splitlines()]
            self.assertEqual([name for name in exported if name.startswith("cr_")],
                             [f"cr_{kind}_link_me"])

    def test_page_lists_the_codes_of_the_header(self):
        with open(self.header, encoding="utf-8") as file:
            codes = re.findall(r"^    (CR_E\w+) = (\d+)", file.read(), re.MULTILINE)
        with open(self.in_prefix("share", "man", "man3", "libcr.3"), encoding="utf-8") as file:
            listed = re.findall(r"^\.It Dv (CR_E\w+) Ta (\d+) Ta (\d+)", file.read(), re.MULTILINE)
        self.assertEqual([(name, code, str(int(code) & 0xff)) for name, code in codes], listed)

    def assert_speaks(self, program):
        output = run(program, LD_LIBRARY_PATH=self.libdir)
        self.assertRegex(output, rf"^{re.escape(self.version)}: \w.+\n$")

    def test_program_by_pkg_config(self):
        search = {"PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig")}
        self.assertEqual(run("pkg-config", "--modversion", "libcr", **search).strip(), self.version)
        flags = run("pkg-config", "--cflags", "--libs", "libcr", **search).split()
        for compiler in (("gcc", "-std=c99", "consumer.c"), ("g++", "-std=c++20", "consumer.cpp"),
                         ("g++", "-std=c++98", "consumer.cpp")):
            program = os.path.join(self.scratch, "consumer" + compiler[1])
            run(*compiler[:2], "-Wall", "-Wextra", "-pedantic", "-Werror",
                os.path.join(CONSUMER, compiler[2]), *flags, "-o", program)
            self.assert_speaks(program)

    def test_program_by_find_package(self):
        build = os.path.join(self.scratch, "consumer-build")
        run("cmake", "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        for program in ("consumer_c", "consumer_cpp"):
            self.assert_speaks(os.path.join(build, program))


    def test_python_module(self):
        """Finds the library where it was moved to."""
        modules = os.path.join(self.prefix, cache_value("CRYO_PYTHON_DIR"))
        told = run("/usr/bin/python3", "-B", "-c", "import cryo; print(cryo.__version__, cryo.restarts())",
                   PYTHONPATH=modules)
        self.assertEqual(f"{self.version} 0\n", told)


class Staged(unittest.TestCase):
    def test_everything_lies_below_the_prefix(self):
        """With DESTDIR, as packagers install: the prefix as configured, below another root."""
        with tempfile.TemporaryDirectory(prefix="cryo-stage-") as stage:
            run("cmake", "--install", BUILD, DESTDIR=stage)
            prefix = stage + cache_value("CMAKE_INSTALL_PREFIX")
            outside = [os.path.join(folder, name) for folder, _, names in os.walk(stage)
                       for name in names if not folder.startswith(prefix)]
            self.assertEqual(outside, [])
            self.assertTrue(os.path.isfile(os.path.join(prefix, "include", "libcr.h")))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
