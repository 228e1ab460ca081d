#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/lint finds what it is there to find: each fault is planted in a small tree of its own."""
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
APACHE = "SPDX-License-Identifier: Apache-2.0\n"
SPOILT = APACHE.replace("Apache-2.0", "MIT")

SPEC = """Name: a
Version: 1
Release: 1
Summary: One file
License: Apache-2.0
URL: https://example.org/
BuildRoot: %{_tmppath}/a

%description
It has one file.

%prep

%build

%install

%files
/usr/bin/a

%changelog
"""

# check, file, its contents, what the complaint must say (None: there must be none)
FAULTS = (
    ("spdx", "docs/a.md", f"<!-- {APACHE.strip()} -->\n", None),
    ("spdx", "docs/a.md", "no licence\n", "docs/a.md:1: no 'SPDX"),
    ("spdx", "userlib/a.c", f"// {SPOILT}", "userlib/a.c:1: licence is 'MIT'"),
    ("spdx", "kmod/a.c", f"// {APACHE}", "here it is 'GPL-2.0-only'"),
    ("spdx", "kmod/uapi/a.h", "/* SPDX-License-Identifier: GPL-2.0-only */\n",
     "here it is 'GPL-2.0-only WITH Linux-syscall-note'"),
    ("spdx", "a.json", "{}\n", None),
    ("spdx", "debian/changelog", "cryo (0.1.0-1) unstable; urgency=medium\n", None),
    ("spdx", "debian/control", "Source: cryo\n", "debian/control:1: no 'SPDX"),
    ("openings", "userlib/a.hpp", "// Counts the waiters.\nint a; // waiters\n", None),
    ("openings", "userlib/a.hpp", "// Waiters, for all of\n// Those threads.\nint a;\n", None),
    ("openings", "userlib/a.hpp", "// Who waits is counted.\n", "a.hpp:1: a comment begins with 'Who'"),
    ("openings", "userlib/a.c", "int a; // The same for b.\n", "a.c:1: a comment begins with 'The same'"),
    ("openings", "userlib/a.c", "/* a\n * Its b\n */\nint a;\n/* Its c */\n",
     "a.c:5: a comment begins with 'Its'"),
    ("openings", "userlib/a.c", "const char *a = \"x // Its\";\n", None),
    ("openings", "a.py", "#!/usr/bin/python3\n# They come later.\n", "a.py:2: a comment begins"),
    ("tree", "docs/a.md", "text\n", None),
    ("tree", "docs/a.md", "text \n", "docs/a.md:1: blanks at the end"),
    ("tree", "docs/a.md", "text", "exactly one newline"),
    ("tree", "docs/a.md", "text\n\n", "exactly one newline"),
    ("tree", "docs/a.md", "", "empty"),
    ("tree", "docs/a.md", "line\n" * 501, "501 lines"),
    ("tree", "docs/a.md", "[there](b.md#part), [out](https://example.org/)\n", "links to b.md"),
    ("tree", "a.hpp", f"// {APACHE}//\n// What it owns.\n", None),
    ("tree", "a.hpp", f"// {APACHE}#pragma once\n\nint a;\n", "a.hpp:3: a header opens"),
    ("tree", "a.hpp", f"// {APACHE}", "a.hpp:3: a header opens"),
    ("tree", "a.py", "if x:\n\ty()\n", "a.py:2: a tab"),
    ("tree", "a.sh", "#!/bin/sh\n", "executable if, and only if"),
    ("tree", "a.sh", "cp /" + "root/x .\n", "a.sh:1: a path of one machine"),
    ("tree", "a.sh", "cp /" + "home/alice/x .\n", "a.sh:1: a path of one machine"),
    ("tree", "a.sh", "cp /home/user/x .\n", None),
    ("tree", "a.sh", "wget ftp.debian" + ".org\n", "a package archive's address"),
    ("tree", "a.sh", "# TO" + "DO: more\n", "unfinished work"),
    ("tree", "a.sh", "<" * 7 + " ours\n", "a conflict marker"),
    ("shell", "a", "#!/bin/bash\nrm $1\n", "SC2086"),
    ("shell", "a.sh", "# shellcheck shell=bash\necho fine\n", None),
    ("python", "a", "#!/usr/bin/env python3\nimport os\n", "'os' imported but unused"),
    ("man", "man/a.1", ".Dd January 1, 2026\n.Dt A 1\n.Os\n.Sh NAME\n.Nm a\n.Nd b\n.Xx c\n", "Xx"),
    ("format", "a.cpp", "int  main() {}\n", "a.cpp:1:4: error: not formatted"),
    ("format", "kmod/a.c", "int  main() {}\n", None),
    ("variables", "userlib/a.cpp", 'f(getenv("CRYO_JOB"));\n', "a.cpp:1: getenv(\"CRYO_JOB\")"),
    ("variables", "cr_run/a.cpp", "f(getenv(name));\n", "a.cpp:1: getenv(name)"),
    ("variables", "userlib/a.cpp", 'f(getenv("HOME"), secure_getenv("CRYO_SELF"));\n', None),
    ("headers", "userlib/include/a.h", "int f(size_t n);\n", "size_t"),
    ("headers", "userlib/include/a.h", "int f(int class);\n", "class"),
    ("headers", "userlib/include/a.h", "int f(int n);\n", None),
)
RULES = "groups: [{name: a, rules: [{alert: A, expr: b > 1}]}]\n"
DASHBOARD = '{"panels": [{"targets": [{"expr": "rate(b{c=~\\"$c\\"}[1h])"}]}]}\n'
# By tools that only a full run installs.
CLUSTER_FAULTS = (
    ("rpm", "a.spec", SPEC, None),
    ("rpm", "a.spec", SPEC.replace("Version: 1", ""), "a.spec: error: Version field must be present"),
    ("rpm", "a.spec", SPEC.replace("/usr/bin/a", "/usr/lib/a"), "hardcoded-library-path"),
    ("metrics", "a.rules.yml", RULES, None),
    ("metrics", "a.rules.yml", RULES.replace("b > 1", "b >"), "a.rules.yml: "),
    ("metrics", "prometheus-a.yml", "scrape_configs: [{job_name: a}]\n", None),
    ("metrics", "prometheus-a.yml", "scrape_configs: [{job: a}]\n", "prometheus-a.yml: "),
    ("metrics", "grafana-a.json", DASHBOARD, None),
    ("metrics", "grafana-a.json", DASHBOARD.replace("rate(", "rate"), "grafana-a.json: "),
    ("metrics", "grafana-a.json", "{}", "grafana-a.json: is no dashboard"),
    ("ansible", "a/galaxy.yml", "namespace: a\n", "a/galaxy.yml:1: schema[galaxy]"),
)


class Planted(unittest.TestCase):
    """A tree in which a fault is planted."""

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-lint-")
        self.addCleanup(shutil.rmtree, self.top)
        shutil.copytree(os.path.join(TOP, "scripts", "lib", "lint"),
                        os.path.join(self.top, "scripts", "lib", "lint"))
        for name in ("scripts/lint", ".clang-format", ".clang-tidy", ".gitignore"):
            shutil.copy(os.path.join(TOP, name), os.path.join(self.top, name))
        subprocess.run(["git", "init", "-q", self.top], check=True)

    def write(self, name, text):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def lint(self, *arguments, **changes):
        environment = dict(os.environ, CRYO_CACHE=os.path.join(self.top, "build", "cache"), **changes)
        return subprocess.run([os.path.join(self.top, "scripts", "lint"), *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=environment, check=False)

    def assert_verdict(self, result, complaint):
        if complaint is None:
            self.assertEqual(result.returncode, 0, result.stdout)
        else:
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(complaint, result.stdout)

    def assert_found(self, faults):
        for check, name, text, complaint in faults:
            with self.subTest(check=check, file=name, text=text[:40]):
                self.write(name, text)
                result = self.lint(check)
                os.remove(os.path.join(self.top, name))
                self.assert_verdict(result, complaint)


class Cluster(Planted):
    def test_planted_faults(self):
        self.assert_found(CLUSTER_FAULTS)


class Lint(Planted):
    def test_planted_faults(self):
        self.assert_found(FAULTS)

    def test_ignored_and_untracked_files(self):
        self.write("build/a.cpp", "int  x;\n")
        self.assert_verdict(self.lint("format"), None)
        self.write("a.cpp", "int  x;\n")
        self.assert_verdict(self.lint("format"), "a.cpp")
        self.assert_verdict(self.lint("format", "--tracked"), None)
        self.assert_verdict(self.lint("format", "--fix"), None)

    def test_circles(self):
        def verdict(complaint):
            self.assert_verdict(self.lint("circles"), complaint)

        # Two folders, which a command includes.
        self.write("userlib/a/a.hpp", '#include "b/b.hpp"\n#include <b/b.h>\n')
        self.write("userlib/b/b.hpp", "#include <map>\n")
        self.write("cr_run/main.cpp", '#include "main.hpp"\n#include "b/b.hpp"\n#include "a/a.hpp"\n')
        self.write("cr_run/main.hpp", "")
        verdict(None)
        self.write("userlib/b/b.cpp", '#include "b/b.hpp"\n\n#include "a/a.hpp"\n')
        step = "userlib/b/b.cpp:3: includes userlib/a/a.hpp, which closes the circle "
        verdict("userlib/a/a.hpp:1: includes userlib/b/b.hpp, which closes the circle "
                "userlib/a -> userlib/b -> userlib/a\nlint circles: 1 to mend")
        self.write("userlib/b/b.h", "")  # two includes lead there now, and one leads back
        verdict(step + "userlib/a -> userlib/b -> userlib/a\nlint circles: 1 to mend")
        # A third one between them.
        self.write("userlib/a/a.hpp", '#include "c/c.hpp"\n')
        self.write("userlib/c/c.hpp", '  #  include "../b/b.hpp"\n#include "b/b.hpp"\n')
        self.write("userlib/a/a.cpp", '#include "c/c.hpp"\n')
        verdict(step + "userlib/a -> userlib/c -> userlib/b -> userlib/a\nlint circles: 1 to mend")
        self.write("userlib/b/b.cpp", '#include "b/b.hpp"\n')
        verdict(None)
        # Files of the module.
        self.write("kmod/a.c", '#include "a.h"\n#include "b.h"\n')
        self.write("kmod/a.h", "")
        self.write("kmod/b.h", "")
        verdict(None)
        self.write("kmod/b.c", '#include "a.h"\n')
        verdict("kmod/a.c:2: includes kmod/b.h, which closes the circle kmod/a -> kmod/b -> kmod/a")

    def test_definitions(self):
        def verdict(there, complaint):
            self.write("userlib/b/b.hpp", there)
            self.assert_verdict(self.lint("definitions"), complaint)

        # Other namespaces, one file alone, declarations, variables and functions.
        self.write("userlib/a/a.cpp", """
namespace cryo::a {
template <class T, class = List<T>> class [[nodiscard]] Held;
template <class T, class = List<T>>
class [[nodiscard]] Held final : public Base<T>
{
    struct Inner {
        char text[2] = {'{', '"'};
    };
};
#if ONE_KIND
enum class Kind : int { one };
#else
enum class Kind : int { other };
#endif
namespace {
class Hidden {};
} // namespace
struct Held<int> variable = {};
struct Kind made(int n) { struct Local {}; return {1'000}; }
} // namespace cryo::a
""")
        verdict("""
class Held {}; class Base {}; struct Inner {};
namespace cryo { struct Kind {}; namespace a {
class Held; enum class Kind : int; class Hidden {}; struct Local {}; struct Base {};
// class Held {};
const char *text = R"(} class Held {};)";
} }
""", None)
        clash = ("userlib/b/b.hpp:2: userlib/a/a.cpp:{} defines cryo::a::{}, too, and the linker takes "
                 "one for both\nlint definitions: 1 to mend")
        verdict("\nnamespace cryo { namespace a { class Held {}; } }\n", clash.format(4, "Held"))
        verdict("\nnamespace cryo::inline a { struct alignas(8) Held : Base {}; }\n", clash.format(4, "Held"))
        verdict("extern \"C\" {\nenum Kind {}; } namespace cryo::a {\n}\n", None)
        verdict("namespace cryo::a {\nunion Kind\n{\n}; }\n", clash.format(12, "Kind"))
        # Commands are not linked with each other, and all of them with the libraries.
        self.write("cr_run/main.hpp", "struct Options {};\n")
        self.write("cr_restart/main.hpp", "struct Options {};\n")
        verdict("", None)
        verdict("struct Options {};\n", "userlib/b/b.hpp:1: cr_run/main.hpp:1 defines Options")

    def test_costs_of_the_default_tier(self):
        self.write("tests/tiers.txt", "full a[.]long\n0/3 a[.]turn.*\ndefault [ab][.].*\n")

        def verdict(costs, complaint):
            self.write("tests/costs.txt", costs)
            self.assert_verdict(self.lint("tests"), complaint)

        fine = "a.long 300.0 1\na.turns 60.0 1\nb.short 0.1 8\n"
        verdict(fine, None)
        verdict(fine + "b.other 60.6 1\n", "b.other takes 61 s")
        verdict(fine.replace("60.0", "75.0"), "a.turns takes 75 s")
        verdict(fine + "c.unknown 1.0 1\n", "no rule of tests/tiers.txt is for c.unknown")
        verdict(fine.replace("a.turns", "b.turns"), "no test matches 'a[.]turn.*'")
        verdict(fine + "b.bad\n", "not 'NAME SECONDS SLOTS'")
        # All slices together take what one may; what one slice has more is too much for it.
        full = fine.replace("60.0 1", "0.0 1") + "".join(f"b.{n} 60.0 8\n" for n in range(15))
        verdict(full + "b.last 59.0 8\n", None)
        verdict(full + "b.last 59.0 8\na.turn 2.0 8\n", "slice 0 takes 16.0 min")
        self.assertNotIn("slice 1", self.lint("tests").stdout)
        # What cmake has found without a line, and what has got one since.
        self.write("build/release/tests-without-costs", "b.short\nb.new\n")
        verdict(fine, "no line for b.new")
        verdict(fine + "b.new 0.1 1\n", None)
        os.remove(os.path.join(self.top, "build/release/tests-without-costs"))
        # Tests that hold a promise are there.
        self.write("tests/tiers.txt", "full a[.]long\n0/3 a[.]turn.*\ndefault (unit|b)[.].*\n")
        self.write("docs/security.md", "| it holds | `unit.one`, `.two` (`Case`), `unit.one.*` |\n")
        self.write("tests/one.py", "class Case:\n    def test_it(self):\n        pass\n")
        for name in "unit.one", "unit.one.two":
            verdict(fine, "docs/security.md:1: tests/costs.txt knows no test unit.one")
            fine += name + " 1.0 1\n"
        verdict(fine, None)
        verdict(fine.replace("unit.one.two", "unit.two"), "knows no test unit.one.*")
        # So are the parts of them that it names.
        self.write("tests/two.cpp", "TEST_F(Suite, Works)\n{\n}\n")
        for named, complaint in (("(`Case`, `Suite`) test_it, `Suite.Works`, `Suite.*`", None),
                                 ("Case, Suite", None),
                                 ("Case, Other", "docs/security.md:1: no test in tests/ has a part Other"),
                                 ("(`Other`; 10)", "docs/security.md:1: no test in tests/ has a part Other"),
                                 ("(`Other`)", "docs/security.md:1: no test in tests/ has a part Other"),
                                 ("test_that", "a part test_that"), ("`Suite.Fails`", "a part Suite.Fails")):
            self.write("docs/security.md", f"| it holds | `unit.one` {named} |\n")
            verdict(fine, complaint)

    def test_tidy_since_a_commit(self):
        """Looked at is what has changed, or reads what has; all of it where the commit is unknown."""
        def git(*arguments):
            subprocess.run(["git", "-C", self.top, "-c", "user.name=a", "-c", "user.email=a@b",
                            *arguments], check=True, stdout=subprocess.DEVNULL)

        entries = []
        for name in "ab":
            self.write(f"userlib/{name}.h", f"inline int f{name}(int n) {{ return n; }}\n")
            self.write(f"userlib/{name}.c", f'#include "{name}.h"\nint g{name};\n')
            entries.append('{"directory": "%s/build", "file": "%s/userlib/%s.c", "command":'
                           ' "cc -O0 -o %s.o -c %s/userlib/%s.c"}'
                           % (self.top, self.top, name, name, self.top, name))
        self.write("build/compile_commands.json", "[" + ",".join(entries) + "]")
        git("add", ".")
        git("commit", "-qm", "all")

        def looked_at(since, *options):
            result = self.lint("tidy", "--since", since, *options,
                               "--build", os.path.join(self.top, "build"))
            self.assert_verdict(result, None)
            return result.stdout

        self.assertIn(" 0 to look at", looked_at("HEAD"))
        self.write("userlib/b.h", "inline int fb(int n) { return n + 1; }\n")
        self.assertIn("1 sources, 1 to look at", looked_at("HEAD"))
        self.write("docs/soak.md", "| 0123abc | 2026-01-01 | 1 passed |\n")
        said = looked_at("full-run", "--most", "1")
        self.assertIn("2 sources, 1 to look at", said)
        self.write("userlib/a.c", '#include "a.h"\nint ga = 1;\n')
        self.write("userlib/b.c", '#include "b.h"\nint gb = 1;\n')
        self.assertIn("2 to look at\nlint tidy: the 1 that changed last",
                      looked_at("full-run", "--most", "1"))
        self.assertIn("2 sources, 1 to look at", looked_at("full-run"))

    def test_tidy_sees_every_change(self):
        """A verdict is kept only as long as source, header, command and checks stay the same."""
        self.write("userlib/a.h", "inline int f(int n) { return n; }\n")
        self.write("userlib/a.c", '#include "a.h"\nint g(int n) { return f(n); }\n')

        def compile_with(flags):
            self.write("build/compile_commands.json", (
                '[{"directory": "%s/build", "file": "%s/userlib/a.c",'
                ' "command": "cc %s -o a.o -c %s/userlib/a.c"}]'
                % (self.top, self.top, flags, self.top)))

        def verdict(looked_at, complaint):
            result = self.lint("tidy", "--build", os.path.join(self.top, "build"))
            self.assertIn(f"1 sources, {looked_at} to look at", result.stdout)
            self.assert_verdict(result, complaint)

        bad = "inline int f(int n) { return n / (n - n); }\n"
        compile_with("-O0")
        verdict(1, None)
        verdict(0, None)
        self.write("userlib/a.h", "// why\n\ninline int f(int n) { return n; } // so\n")
        verdict(0, None)
        self.write("userlib/a.h", "inline int f(int n) { return n; } // NOLINT\n")
        verdict(1, None)
        self.write("userlib/a.h", bad)
        verdict(1, "a.h:1")
        verdict(1, "a.h:1")
        self.write("userlib/a.h", bad.replace("n - n", "n + 3"))
        verdict(1, None)
        compile_with("-O1")
        verdict(1, None)
        verdict(0, None)
        with open(os.path.join(self.top, ".clang-tidy"), "a", encoding="utf-8") as file:
            file.write("\n# other checks\n")
        verdict(1, None)

    def test_idle(self):
        """What it starts has another session, whose processors others may take."""
        told = os.path.join(self.top, "told")
        self.write("bin/git", f'#!/bin/sh\nps -o sid=,ni= -p $$ > {told}\nexec {shutil.which("git")} "$@"\n')
        os.chmod(os.path.join(self.top, "bin", "git"), 0o755)
        for words in (), ("--idle",):
            self.lint("spdx", *words, PATH=f"{self.top}/bin:{os.environ['PATH']}")
            with open(told, encoding="ascii") as file:
                session, nice = map(int, file.read().split())
            self.assertEqual(bool(words), session != os.getsid(0))
            self.assertEqual(19 if words else os.nice(0), nice)

    def test_wrong_use(self):
        self.assertEqual(self.lint("nonsense").returncode, 2)
        self.assertIn("configure", self.lint("tidy", "--build", "/nonexistent").stdout)


if __name__ == "__main__":
    unittest.main()
