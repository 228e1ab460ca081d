#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a command says to an option's value that it cannot use."""
import errno
import json
import os

import case

ABOVE = "wants a whole number above 0, not '{}'"
COMMANDS = ("cr_run", "cr_checkpoint", "cr_restart", "cr_inspect", "cr_delta", "cr_status", "cr_top", "cr_metrics", "cr_server",
            "ompi-checkpoint", "ompi-restart", "mpi-checkpoint", "mpi-restart", "opal-checkpoint", "opal-restart")

MORE = "wants a whole number, 0 or more, not '{}'"
DESCRIPTOR = "--fd: wants the number of an open descriptor, not '{}'; a file is named by -f, --file"


class Numbers(case.Case):
    def check(self, wanted, name, *words):
        done = self.run_command(name, *words)
        self.assertEqual(255, done.returncode, (name, words))
        self.assertIn(wanted + "\n", done.stderr, (name, words))

    def test_descriptor(self):
        for word in ("text", "-1", "1.5", "1x", "0x1"):
            self.check(DESCRIPTOR.format(word), "cr_checkpoint", f"--fd={word}", "1")
            self.check(DESCRIPTOR.format(word), "cr_restart", f"--fd={word}")
        self.check(DESCRIPTOR.format("text"), "cr_checkpoint", "-F", "text", "1")
        self.check(DESCRIPTOR.format("text"), "cr_restart", "-F", "text")

    def test_number_above_zero(self):
        for name, option, *words in (
                ("cr_checkpoint", "--time", "1"), ("cr_inspect", "--pid", "image"),
                ("cr_delta", "--keep", "prune"), ("cr_delta", "--every", "prune"),
                ("cr_delta", "--onto", "merge"), ("ompi-checkpoint", "--keep", "1"),
                ("ompi-checkpoint", "--hnp-pid")):
            where = 1 if name == "cr_delta" else 0
            for word in ("text", "0", "-1", "1.5"):
                self.check(f"{option}: {ABOVE.format(word)}", name, *words[:where],
                           f"{option}={word}", *words[where:])
        self.check("ID: " + ABOVE.format("many"), "cr_checkpoint", "many")
        for name in ("ompi-checkpoint", "opal-checkpoint"):
            self.check("PID: " + ABOVE.format("many"), name, "many")
        self.check("--time: " + MORE.format("soon"), "ompi-checkpoint", "--time=soon", "1")

    def test_number_that_is_too_large(self):
        for word in ("2147483648", "9" * 40):
            self.check(f"ID: wants a number of at most 2147483647, not '{word}'",
                       "cr_checkpoint", word)

    def test_leading_zeros(self):
        program = self.start()
        self.save("--nosync", "-f", "image", f"00{program.pid}")
        self.assert_good("image")

    def test_compression_of_what_is_small(self):
        """By default: of a process with no more than 1 MiB, and of no larger one."""
        small = self.spawn(case.command("cr_run"), "/bin/sleep", "1000")
        case.wait_until("the program", lambda: os.readlink(f"/proc/{small.pid}/exe").endswith("/sleep"))
        large = self.start("held = bytearray(b'x' * (2 << 20))")
        sizes = {}
        for name, program in ("small", small), ("large", large):
            for kind, words in ("default", ()), ("raw", ("--compress=none",)):
                self.save("--nosync", "--backend=user", *words, "-f", f"{name}.{kind}", program.pid)
                sizes[name, kind] = os.path.getsize(self.path(f"{name}.{kind}"))
        self.assertLess(sizes["small", "default"], sizes["small", "raw"] / 2)
        self.assertGreater(sizes["large", "default"], 2 << 20)
        self.end(small)
        restarted = self.restart("-q", "--run-on-success", "echo back", "small.default")
        self.assertEqual("back\n", restarted.stdout.readline())

    def test_types_in_the_help(self):
        done = self.checkpoint("--help")
        for text in ("Usage: cr_checkpoint [OPTIONS] ID\n", "\n  ID   ", " -F, --fd DESCRIPTOR ",
                     " -t, --time SECONDS ", " --compress none|auto|always", " --pipes refuse|close"):
            self.assertIn(text, done.stdout)
        self.assertIn("Usage: cr_run [OPTIONS] PROGRAM [ARGS]...\n",
                      self.run_command("cr_run", "--help").stdout)

    def test_no_internals_in_the_help(self):
        for name in ("cr_run", "cr_checkpoint", "cr_restart", "cr_inspect", "cr_delta", "cr_status",
                     "cr_top", "cr_metrics", "cr_server", "ompi-checkpoint", "ompi-restart", "opal-checkpoint",
                     "opal-restart"):
            said = self.run_command(name, "--help").stdout
            for word in ("INT", "FLOAT", "{", "REQUIRED", "Needs:", "Excludes:", " in ["):
                self.assertNotIn(word, said, name)
        said = self.run_command("cr_run", "--help").stdout
        for text in ("--signal N ", "--keep N ", "--max-overhead PERCENT ", "--failure-interval TIME "):
            self.assertIn(text, said)

    def test_examples_at_the_end_of_the_help(self):
        for name in COMMANDS:
            examples = self.run_command(name, "--help").stdout.split("\nExamples:\n")[1]
            for line in examples.splitlines():
                self.assertRegex(line, rf"^  {name} .*\S  +\w")

    def test_version_with_what_is_there(self):
        libraries = os.path.join(case.BIN, "..", "lib", "cryo")
        os.mkdir(self.path("cryo"))
        for name in COMMANDS:
            said = self.run_command(name, "--version").stdout.splitlines()
            self.assertRegex(said[0], rf"^{name} \(Cryo\) \d+\.\d+\.\d+$")
            self.assertEqual("images: format 1, compressed by lz4 or zstd", said[1])
            for part, library in (("openmpi", "Open MPI"), ("mpich", "MPICH")):
                there = os.path.exists(os.path.join(libraries, f"libcryo_{part}.so"))
                self.assertEqual(there, library in said[2], said)
        without = {**os.environ, "CRYO_LIBDIR": self.directory}
        none = "jobs of MPI: no part for any MPI library is installed\n"
        self.assertIn(none, self.run_command("cr_run", "--version", env=without).stdout)
        with open(self.path("cryo/libcryo_mpich.so"), "xb"):
            self.assertIn("jobs of MPI: MPICH\n",
                          self.run_command("cr_run", "--version", env=without).stdout)

    def test_neutral_names(self):
        for name in "mpi-checkpoint", "mpi-restart":
            self.assertIn(f"Usage: {name} ", self.run_command(name, "--help").stdout)
            self.assertIn(f"o{name} ", self.run_command(f"o{name}", "--help").stdout)
        self.assertIn("mpi-restart: ", self.run_command("mpi-restart", "nothing").stderr)

    def test_snapshot_of_a_job_as_an_image(self):
        os.mkdir(self.path("snapshot.ckpt"))
        done = self.run_command("cr_restart", "snapshot.ckpt")
        self.assertEqual(errno.ENOENT, done.returncode)
        self.assertIn("is brought back by ompi-restart", done.stderr)

    def test_image_as_a_snapshot_of_a_job(self):
        with open(self.path("context.412"), "xb"):
            done = self.run_command("ompi-restart", "./context.412")
        self.assertEqual(errno.ENOTDIR, done.returncode)
        self.assertIn("is brought back by cr_restart", done.stderr)

    def test_option_that_is_misspelled(self):
        for name, word, meant, *others in (
                ("cr_checkpoint", "--snapshoot=fork", "--snapshot", "412"),
                ("cr_checkpoint", "--jsno", "--json"), # without the operand
                ("cr_restart", "--restore-pids", "--restore-pid", "image"),
                ("cr_restart", "--no-restore-pdi", "--no-restore-pid", "image"),
                ("cr_inspect", "--veri", "--verify", "image"),
                ("ompi-checkpoint", "--wehre", "--where", "412"),
                ("mpi-restart", "--host-file", "--hostfile", "snapshot.ckpt")):
            done = self.run_command(name, word, *others)
            self.assertEqual((255, ""), (done.returncode, done.stdout))
            self.assertEqual(f"{name}: there is no option {word.split('=')[0]} (did you mean {meant}?); "
                             f"try {name} --help\n", done.stderr)
        done = self.run_command("cr_delta", "restore", "--servise", "series")
        self.assertIn("(did you mean --service?)", done.stderr)
        for word in "--elephants", "-z", "--heartbeet": # the last is like one that is for Cryo itself
            done = self.run_command("cr_restart", word, "image")
            self.assertEqual(f"cr_restart: there is no option {word}; try cr_restart --help\n",
                             done.stderr)

    def test_option_of_cr_run_that_is_none(self):
        done = self.run_command("cr_run", "--intervall", "5", "true")
        self.assertEqual((255, ""), (done.returncode, done.stdout))
        self.assertEqual("cr_run: there is no option --intervall (did you mean --interval?); try "
                         "cr_run --help (or -- before a program of that name)\n", done.stderr)
        self.assertEqual(0, self.run_command("cr_run", "--", "true").returncode)

    def test_wrong_usage_as_json(self):
        for name in "cr_checkpoint", "cr_restart":
            done = self.run_command(name, "--json", "--no-such-option", "1")
            self.assertEqual(255, done.returncode)
            error = json.loads(done.stdout)["error"]
            self.assertEqual(errno.EINVAL, error["code"])
            self.assertIn("--no-such-option", error["text"])
        for name in "cr_checkpoint", "ompi-checkpoint":
            error = json.loads(self.run_command(name, "--json", "abc").stdout)["error"]
            self.assertEqual(errno.EINVAL, error["code"])
            self.assertIn("not 'abc'", error["text"])

        done = self.run_command("cr_run", "--signal", "5", "true", "--json") # which is true's
        self.assertEqual((255, ""), (done.returncode, done.stdout))

    def test_program_that_cannot_be_entered(self):
        """cr_run says so at once, wherever the program is found."""
        os.mkdir(self.path("bin"))
        with open(self.path("bin/of_32_bits"), "wb") as file:
            file.write(b"\x7fELF\x01" + bytes(100))
        os.chmod(self.path("bin/of_32_bits"), 0o755)
        for name, path in (("bin/of_32_bits", "/usr/bin"), ("of_32_bits", self.path("bin"))):
            done = self.run_command("cr_run", name, env={**os.environ, "PATH": path})
            self.assertIn(f"cr_run: {name} is a 32-bit program: it cannot be saved\n", done.stderr)


if __name__ == "__main__":
    case.main()
