#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What cr_run does for a program that starts an MPI job, whichever way: here it is one that has
only the name of MPICH's or Open MPI's launcher, and says what it has got."""
import os
import shutil
import signal

import case

SAYS_PRELOAD = "#!/bin/sh\necho \"$LD_PRELOAD\"\n"
SAYS_WORDS = "#!/bin/sh\necho \"$@\"\n"


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


class Launchers(case.Case):
    def setUp(self):
        super().setUp()
        # Cryo's libraries, with one of them for MPICH wherever the tests run.
        done = self.run_command("cr_run", "sh", "-c", SAYS_PRELOAD)
        real = os.path.dirname(done.stdout.split(":")[0])
        for folder in "lib", "lib/cryo":
            os.mkdir(self.path(folder))
            place = real + folder.removeprefix("lib")
            for name in os.listdir(place):
                if name != "cryo":
                    os.symlink(os.path.join(place, name), self.path(f"{folder}/{name}"))
        if not os.path.exists(self.path("lib/cryo/libcryo_mpich.so")):
            os.symlink(os.path.join(real, "libcr_run.so"), self.path("lib/cryo/libcryo_mpich.so"))
        os.mkdir(self.path("bin"))
        self.settings = {**os.environ, "CRYO_LIBDIR": self.path("lib"), "PATH": self.path("bin"),
                         "CRYO_RUNTIME_DIR": self.path("run"), "CRYO_LISTEN": "127.0.0.1"}

    def program(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def job(self, *words, **where):
        done = self.run_command("cr_run", *words, env=self.settings, **where)
        case.wait_until("the end of its daemon", lambda: not os.path.exists(self.path("run")) or
                        not os.listdir(self.path("run")))
        return done

    def test_library_for_what_is_started_within(self):
        self.program("bin/mpiexec.hydra", SAYS_PRELOAD)
        launcher = self.path("bin/mpiexec.hydra")
        self.program("script", SAYS_PRELOAD + f"exit\n# mpirun -n 2 x\n{launcher} -n 2 x\n")
        self.program("mpirun", SAYS_PRELOAD + f"exit\nexec {launcher} \"$@\"\n")
        for words in (["/usr/bin/env", "A=1", "mpiexec.hydra", "-n", "2"],
                      ["./script"], ["./mpirun"], ["/bin/sh", "script"],
                      ["/bin/sh", "-c", "echo \"$LD_PRELOAD\"; exit; mpiexec.hydra -n 2 x"]):
            done = self.job("--mpi", *words)
            self.assertEqual((0, ""), (done.returncode, done.stderr), words)
            self.assertIn("/libcr_run.so:", done.stdout)
            self.assertIn("/libcryo_mpich.so", done.stdout, words)

    def test_library_is_not_guessed(self):
        """The PATH's launcher need not be the one that a script finds after `module load`."""
        self.program("bin/mpiexec.hydra", SAYS_PRELOAD)
        os.symlink("mpiexec.hydra", self.path("bin/mpirun"))
        self.program("script", SAYS_PRELOAD + "exit\nmodule load another\nmpirun -n 2 $program\n")
        shell = "/bin/sh"
        loads = "echo \"$LD_PRELOAD\"; exit; module load another; mpirun -n 2 $program"
        for words, name in (([shell, "-c", "echo \"$LD_PRELOAD\"; $LAUNCHER"], shell),
                            (["./script"], "./script"),
                            ([shell, "-c", loads], shell),
                            (["/usr/bin/env", f"PATH={self.path('bin')}", "mpirun"],
                             "/usr/bin/env")):
            done = self.job("--mpi", *words)
            self.assertEqual(0, done.returncode)
            self.assertIn(f"Cryo cannot find out which MPI library {name} uses: it runs, but the "
                          "job cannot be saved", done.stderr)
            self.assertNotIn("libcryo_", done.stdout)

    def test_missing_library(self):
        os.unlink(self.path("lib/cryo/libcryo_mpich.so"))
        self.program("mpiexec.hydra", SAYS_PRELOAD)
        done = self.job("./mpiexec.hydra")
        self.assertEqual(0, done.returncode)
        self.assertIn("/libcr_run.so", done.stdout)
        self.assertIn(f"{self.path('lib/cryo/libcryo_mpich.so')} is missing: ./mpiexec.hydra runs, "
                      "but its MPI processes cannot be saved", done.stderr)

    def test_options_behind_the_launcher(self):
        """They follow it where a command executes it; the words of a script stay as they are."""
        self.program("bin/mpirun.openmpi", SAYS_WORDS)
        self.program("script", SAYS_WORDS)
        for before in [], ["/usr/bin/env", "A=1"], ["/usr/bin/timeout", "60"]:
            done = self.job("--mpi", *before, "mpirun.openmpi", "-n", "2")
            self.assertRegex(done.stdout, r"^-x CRYO_JOB .*-x LD_PRELOAD .*-n 2\n$")
        done = self.job("--mpi", "./script", "mpirun.openmpi", "2")
        self.assertEqual("mpirun.openmpi 2\n", done.stdout)

    def test_caller_that_ignores_its_children(self):
        """The program inherits that; cr_run itself sees how its own children end."""
        for options in [], ["--interval", "1h", "--into", "kept"]:
            done = self.run_command("cr_run", *options, "/bin/grep", "SigIgn",
                                    "/proc/self/status", preexec_fn=ignore_children)
            self.assertEqual(0, done.returncode, done.stderr)
            ignored = int(done.stdout.split()[1], 16)
            self.assertTrue(ignored & 1 << (signal.SIGCHLD - 1), done.stdout)
        os.unlink(self.path("lib/cryo/mpi-daemon"))
        shutil.copy("/bin/false", self.path("lib/cryo/mpi-daemon"))
        done = self.job("--mpi", "/bin/true", preexec_fn=ignore_children)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("the job's daemon did not start", done.stderr)


if __name__ == "__main__":
    case.main()
