#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cryo's components in the stock Open MPI: what ompi_info shows, what Open MPI's own framework code
does with mca_crs_cryo, what mca_hook_cryo says in a job.

    components_test.py --bin DIRECTORY --components DIRECTORY --driver FILE --hello FILE
        --traffic FILE --mpirun FILE
    components_test.py ... --build DIRECTORY Information Hook

With --build: in Open MPI 5.0, and this build of Cryo.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "mpi"), str(TESTS / "system" / "commands")]
import inside  # noqa: E402
import run_mpi  # noqa: E402
from case import wait_until  # noqa: E402

OPTIONS = argparse.Namespace()
PATIENCE = 150 # a job of two ranks on a busy machine


class Case(unittest.TestCase):
    def setUp(self):
        # pylint: disable=consider-using-with
        scratch = tempfile.TemporaryDirectory(prefix="cryo-mca-", dir="/tmp")
        self.addCleanup(scratch.cleanup)
        self.directory = scratch.name
        self.settings = run_mpi.environment(self.directory, "vader")
        self.settings.update(
            CRYO_RUNTIME_DIR=f"{self.directory}/run", CRYO_LISTEN="127.0.0.1")
        self.settings.pop("PMIX_MCA_gds")
        self.prefix = [] # of what runs where that Open MPI is
        if OPTIONS.build:
            self.settings |= inside.environment(OPTIONS.build, self.directory)
            self.prefix = inside.prefix(OPTIONS.build)
            self.settings.update( # docs/components.md
                OMPI_MCA_mca_base_component_path=OPTIONS.components,
                PMIX_MCA_mca_base_component_path="/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix")
        else:
            self.settings["OMPI_MCA_mca_base_component_path"] = \
                f"{OPTIONS.components}:SYSTEM_DEFAULT:USER_DEFAULT"

    def run_words(self, *words, **more):
        with run_mpi.eager(self.settings):
            return subprocess.run(words, capture_output=True, text=True, check=False,
                                  timeout=PATIENCE, env={**self.settings, **more},
                                  stdin=subprocess.DEVNULL)

    def end(self, program):
        if program.poll() is None:
            for pid in reversed(run_mpi.descendants(program.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        program.wait()
        for stream in (program.stdin, program.stdout):
            if stream is not None:
                stream.close()

    def start(self, *words, **more):
        with run_mpi.eager(self.settings):
            # pylint: disable=consider-using-with
            program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       env={**self.settings, **more})
        self.addCleanup(self.end, program)
        return program


class Information(Case):
    def test_ompi_info_shows_them(self):
        shown = self.run_words(*self.prefix, "ompi_info", "--all", "--parsable").stdout
        parameters = {"hook": ("directory", "interval", "backend", "keep", "local", "redundancy",
                               "verbose")}
        if not OPTIONS.build: # 5.0 has no such framework any more
            parameters["crs"] = ("priority", "restore_ids")
        for framework, names in parameters.items():
            self.assertRegex(shown, rf"mca:{framework}:cryo:version:\"?mca:2\.1")
            for name in names:
                self.assertIn(f":param:{framework}_cryo_{name}:", shown)


class Crs(Case):
    """mca_crs_cryo behind Open MPI's own opal_crs."""

    def setUp(self):
        super().setUp()
        self.snapshot = Path(self.directory) / "snapshot"
        self.snapshot.mkdir()
        self.settings["OMPI_MCA_crs"] = "cryo"

    def driver(self, *words, **more):
        return self.run_words(OPTIONS.driver, *map(str, words), **more)

    def metadata(self):
        return (self.snapshot / "snapshot_meta.data").read_text()

    def test_it_is_selected_when_asked_for(self):
        done = self.driver("selected")
        self.assertEqual((done.returncode, done.stdout), (0, "cryo\n"), done.stderr)
        done = self.driver("selected", OMPI_MCA_crs="none")
        self.assertEqual(done.stdout, "none\n")

    def check_self(self, *before):
        done = self.run_words(*before, OPTIONS.driver, "self", str(self.snapshot))
        self.assertEqual((done.returncode, done.stdout), (0, "Continue 42\n"), done.stderr)
        pid = re.search(r"^# PID: (\d+)$", self.metadata(), re.M)[1]
        self.assertEqual(self.metadata(), f"# PID: {pid}\n# OPAL CRS Component: cryo\n"
                                          f"# CONTEXT: context.{pid}\n")
        for how in ("restart", "become"):
            done = self.driver(how, self.snapshot)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn("Restart 42\n", done.stdout)
        self.assertEqual(done.stdout, "Restart 42\n")
        done = self.run_words(f"{OPTIONS.bin}/opal-restart", "-l", self.directory, "-r", "snapshot")
        self.assertEqual((done.returncode, done.stdout), (7, "Restart 42\n"), done.stderr)

    def test_a_process_saves_itself(self):
        self.check_self()

    def test_a_process_under_cr_run_saves_itself(self):
        self.check_self(f"{OPTIONS.bin}/cr_run")

    def counter(self, *before):
        code = ("import sys\nprint('ready', flush=True)\n"
                "for line in sys.stdin: print('got', line.strip(), flush=True)\nsys.exit(9)\n")
        program = self.start(*before, "/usr/bin/python3", "-c", code)
        self.assertEqual(program.stdout.readline(), "ready\n")
        return program

    def test_another_process(self):
        program = self.counter(f"{OPTIONS.bin}/cr_run")
        done = self.driver("save", program.pid, self.snapshot)
        self.assertEqual(done.returncode, 0, done.stderr)
        print("on", file=program.stdin, flush=True)
        self.assertEqual(program.stdout.readline(), "got on\n")
        program.kill()
        program.wait()
        again = self.start(OPTIONS.driver, "restart", str(self.snapshot))
        print("back", file=again.stdin, flush=True)
        self.assertEqual(again.stdout.readline(), "got back\n")
        again.stdin.close()
        self.assertEqual(again.stdout.readline(), "restored 9\n")
        self.assertEqual(again.wait(PATIENCE), 9)

    def test_it_is_ended_then(self):
        program = self.counter(f"{OPTIONS.bin}/cr_run")
        done = self.driver("save", program.pid, self.snapshot, "term")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(program.wait(PATIENCE), -signal.SIGTERM)

    def test_it_is_stopped_then(self):
        program = self.counter(f"{OPTIONS.bin}/cr_run")
        done = self.driver("save", program.pid, self.snapshot, "stop")
        self.assertEqual(done.returncode, 0, done.stderr)
        _, status = os.waitpid(program.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))

    def test_one_that_cannot_be_saved(self):
        program = self.counter()
        done = self.driver("save", program.pid, self.snapshot)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cr_run", done.stderr)

    def test_a_snapshot_of_another_component(self):
        (self.snapshot / "snapshot_meta.data").write_text(
            "# PID: 1\n# OPAL CRS Component: blcr\n# CONTEXT: context.1\n")
        done = self.driver("restart", self.snapshot)
        self.assertEqual(done.returncode, 3)
        self.assertIn("another component", done.stderr)

    def test_disabled_means_later(self):
        program = self.start(OPTIONS.driver, "disabled", f"{self.directory}/image")
        self.assertEqual(program.stdout.readline(), "disabled\n")
        asking = self.start(f"{OPTIONS.bin}/cr_checkpoint", "-f", f"{self.directory}/image",
                            str(program.pid))
        self.assertEqual(program.stdout.readline(), "enabled\n")
        self.assertEqual(asking.wait(PATIENCE), 0)
        print("a", end="", file=program.stdin, flush=True)
        self.assertEqual(program.wait(PATIENCE), 0)

    def test_a_process_that_is_launched_can_be_saved(self):
        code = "import sys; print('ready', flush=True); sys.stdin.read()"
        program = self.start(OPTIONS.driver, "launch", "/usr/bin/python3", "-c", code)
        self.assertEqual(program.stdout.readline(), "ready\n")
        done = self.run_words(f"{OPTIONS.bin}/cr_checkpoint", "-f", f"{self.directory}/image",
                              str(program.pid))
        self.assertEqual(done.returncode, 0, done.stderr)


class Hook(Case):
    """mca_hook_cryo in jobs."""

    def job(self, *parameters, cr_run=True, **more):
        before = [f"{OPTIONS.bin}/cr_run"] if cr_run else []
        done = self.run_words(*self.prefix, *before, OPTIONS.mpirun, "-n", "2", *parameters, OPTIONS.hello,
                              **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.findall(r"\] cryo: (.*)", done.stderr)

    def test_one_that_is_covered(self):
        self.assertEqual(self.job(), [])
        self.assertEqual(sorted(self.job("--mca", "hook_cryo_verbose", "1")),
                         [f"rank {rank} is covered: ompi-checkpoint can save it"
                          for rank in (0, 1)])

    def test_one_that_is_not(self):
        said = self.job(cr_run=False)
        self.assertEqual(len(said), 1)
        self.assertIn("runs without Cryo", said[0])

    def test_without_a_daemon(self):
        done = self.run_words(*self.prefix, OPTIONS.mpirun, "-n", "1", f"{OPTIONS.bin}/cr_run", "--no-mpi",
                              OPTIONS.hello)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no daemon for ompi-checkpoint", done.stderr)

    def test_a_directory_and_a_backend_that_are_not_there(self):
        said = self.job("--mca", "hook_cryo_directory", "/dev/null/nowhere")
        self.assertEqual(len(said), 1)
        self.assertIn("hook_cryo_directory=/dev/null/nowhere", said[0])
        if not os.path.exists("/dev/cryo"):
            said = self.job("--mca", "hook_cryo_backend", "kmod")
            self.assertEqual(len(said), 1)
            self.assertIn("the module is not there", said[0])

    def test_the_directory_of_the_job(self):
        where = Path(self.directory) / "there"
        program = self.start(*self.prefix, f"{OPTIONS.bin}/cr_run", OPTIONS.mpirun, "-n", "2", "--mca",
                             "hook_cryo_directory", str(where), OPTIONS.traffic, "100000000")
        reference = f"ompi_global_snapshot_{program.pid}.ckpt"
        wait_until("a job", lambda: program.poll() is not None or inside.is_job(program.pid), PATIENCE)
        done = self.run_words(f"{OPTIONS.bin}/ompi-checkpoint", str(program.pid))
        while done.returncode != 0 and "has not become mpirun yet" in done.stderr:
            done = self.run_words(f"{OPTIONS.bin}/ompi-checkpoint", str(program.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((where / reference / "global_snapshot_meta.data").is_file())

    def test_the_interval_of_the_job(self):
        where = Path(self.directory) / "there"
        program = self.start(*self.prefix, f"{OPTIONS.bin}/cr_run", OPTIONS.mpirun, "-n", "2", "--mca",
                             "hook_cryo_directory", str(where), "--mca", "hook_cryo_interval",
                             "100ms", OPTIONS.traffic, "100000000")
        log = where / "keeper.log"
        wait_until("two automatic snapshots", lambda: program.poll() is not None or (
            log.exists() and log.read_text().count("on the disk") > 1), PATIENCE)
        self.assertIsNone(program.poll())


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "components", "hello", "traffic", "mpirun"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("driver", "build"):
        parser.add_argument(f"--{name}")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
