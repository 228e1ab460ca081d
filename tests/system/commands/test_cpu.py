#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_run --cpu: for which CPU the C library chooses its code, and what the image says of it."""
import errno
import os
import re
import subprocess

import case
import filters  # of ../programs, which `case` has made known
import needs

LINKER = "/lib64/ld-linux-x86-64.so.2"


def asked(*options, **environment):
    """What the dynamic linker, started by cr_run, says of its choices."""
    done = subprocess.run([case.command("cr_run"), *options, LINKER, "--list-diagnostics"],
                          env={**os.environ, **environment}, text=True, capture_output=True,
                          check=True)
    return done.stdout


def choices(said):
    """What may be used; what there is differs from processor to processor (its number is in it)."""
    return [line for line in said.splitlines()
            if line.startswith("x86.cpu_features.") and (".active[" in line or ".preferred." in line)]


class Cpu(case.Case):
    def test_baseline_chooses_nothing(self):
        said = asked("--cpu=baseline")
        self.assertIn("dl_hwcaps_subdirs_active=0x0", said)
        self.assertIn("x86.cpu_features.xsave_state_size=0x0\n", said)
        # AVX and XSAVE are bits of one word, AVX2 and AVX-512 of another.
        first = re.search(r"features\[0x0\]\.active\[0x2\]=(0x\w+)", said).group(1)
        second = re.search(r"features\[0x1\]\.active\[0x1\]=(0x\w+)", said).group(1)
        self.assertEqual(0, int(first, 16) & (1 << 28 | 1 << 26 | 1 << 12 | 1 << 20))
        self.assertEqual(0, int(second, 16) & (1 << 5 | 1 << 16))

    def test_what_the_user_says_stays(self):
        said = asked("--cpu=baseline",
                     GLIBC_TUNABLES="glibc.malloc.check=1:glibc.cpu.hwcaps=-Slow_BSF")
        value = re.search(r'"GLIBC_TUNABLES=([^"]*)"', said).group(1)
        self.assertIn("glibc.malloc.check=1:glibc.cpu.hwcaps=-Slow_BSF,-AVX,", value)
        self.assertIn("dl_hwcaps_subdirs_active=0x0", said)

    def test_native_is_the_default(self):
        self.assertEqual(choices(asked("--cpu=native")), choices(asked()))
        self.assertNotEqual(choices(asked("--cpu=baseline")), choices(asked()))

    def test_image_says_it(self):
        for cpu, said in (("native", False), ("baseline", True)):
            with self.subTest(cpu=cpu):
                program = self.spawn(case.command("cr_run"), f"--cpu={cpu}", "/usr/bin/python3",
                                     "-S", "-c", case.ECHO.format(setup="", each="pass"))
                self.assertEqual("ready\n", program.stdout.readline())
                self.save("--nosync", "--kill", "-f", cpu, program.pid)
                self.end(program)
                shown = self.run_command("cr_inspect", "--records", cpu).stdout
                self.assertEqual(said, "\n      baseline = " in shown)
                self.assert_good(cpu)

    def test_traps_that_are_not_here(self):
        """A filter says that CPUID is a signal for the program (ARCH_GET_CPUID gives 0)."""
        arch_prctl, get_cpuid = 158, 0x1011
        program = self.start(preexec_fn=filters.skip_when(arch_prctl, get_cpuid, 0))
        self.save("-f", "image", program.pid)
        self.end(program)
        if not needs.unmet(["cpuid_fault"]):
            self.assert_alive(self.restart("--other-surroundings", "image"))
            return
        done = self.run_command("cr_restart", "--other-surroundings", "--no-restore-pid", "image")
        self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
        self.assertIn("ARCH_SET_CPUID", done.stderr)

    def test_other_words_are_refused(self):
        done = subprocess.run([case.command("cr_run"), "--cpu=fast", "true"], text=True,
                              capture_output=True, check=False)
        self.assertEqual(255, done.returncode)
        self.assertIn("--cpu", done.stderr)


if __name__ == "__main__":
    case.main()
