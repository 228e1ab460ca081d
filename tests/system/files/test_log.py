#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A log that a program and others write to, such as a batch script, which brings the program back.

    test_log.py --bin build/release/bin [TestCase.test_name]
"""
import case


class Log(case.Case):
    def restart_into_its_log(self, *options, mode, again=""):
        """As a batch script does it: the log is its own, too, and has its lines."""
        log = self.path("job")
        with open(log, "wb") as job:
            job.write(b"script begins\n")
            job.flush()
            self.start("print('before', flush=True)", "print('after', flush=True)\n" + again,
                       stdout=job, stderr=job)
        self.save()
        with open(log, mode) as job:
            job.write(b"script goes on\n")
            job.flush()
            printed = self.back(*options, stdout=job)
            job.write(b"script ends\n")
        return printed, self.read(log)

    def test_the_log_of_a_batch_script(self):
        told, log = self.restart_into_its_log(mode="ab")
        self.assertEqual("script begins\nbefore\nafter\nscript ends\n", log)
        self.assertIn(f"{self.path('job')} is cut back to what it held at the checkpoint, by 15 "
                      "bytes", told)
        self.assertIn("--keep-output", told)

    def test_the_log_of_a_batch_script_is_kept(self):
        """What the program writes comes behind it, on standard error, too."""
        told, log = self.restart_into_its_log(
            "--keep-output", mode="ab",
            again="print('to error', file=sys.stderr, flush=True)")
        self.assertEqual("script begins\nbefore\nscript goes on\nafter\nto error\nscript ends\n",
                         log)
        self.assertNotIn("cut back", told)

    def test_a_log_that_was_emptied_is_kept(self):
        """As Slurm empties it at a requeue, unless it is told otherwise."""
        _, log = self.restart_into_its_log("--keep-output", mode="wb")
        self.assertEqual("script goes on\nafter\nscript ends\n", log)

    def test_only_the_own_output_is_kept(self):
        with open(self.path("job"), "wb") as job:
            self.start("f = open('data', 'a'); g = open('job', 'a')",
                       "f.write('mine'); f.close(); g.write('apart'); g.close()", stdout=job)
        self.save()
        with open(self.path("data"), "a", encoding="ascii") as file:
            file.write("of another")
        with open(self.path("job"), "ab") as job:
            job.write(b"kept, ")
            job.flush()
            self.assertNotIn("data", self.back("--keep-output", stdout=job))
        self.assertEqual("mine", self.read(self.path("data")))
        self.assertEqual("kept, apart", self.read(self.path("job")))


if __name__ == "__main__":
    case.main()
