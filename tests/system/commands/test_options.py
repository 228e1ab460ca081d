#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a command says to an option's value that it cannot use."""
import case

ABOVE = "wants a whole number above 0, not '{}'"
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

    def test_types_in_the_help(self):
        done = self.checkpoint("--help")
        for text in ("ID INT:POSITIVE REQUIRED ", "-F,--fd INT:DESCRIPTOR ",
                     "-t,--time SECONDS:POSITIVE "):
            self.assertIn(text, done.stdout)


if __name__ == "__main__":
    case.main()
