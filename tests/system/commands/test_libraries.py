#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program whose libraries only LD_LIBRARY_PATH finds comes back: also when it has written a title
over its environment, and from another directory than the one that the path is relative to."""
import os
import subprocess

import case

LIBRARY = "int answer(void) { return 42; }"
# The program's title takes all the room of arguments and environment, as setproctitle()'s does.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
int answer(void);
int main(int argc, char **argv, char **environment)
{
    char line[100], *end = argv[argc - 1];
    for (char **one = environment; *one != NULL; one++)
        end = *one;
    if (strcmp(argv[1], "title") == 0) {
        memset(argv[0], 0, (size_t)(end + strlen(end) - argv[0]));
        strcpy(argv[0], "a title");
        environment[0] = NULL;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (fgets(line, sizeof(line), stdin) != NULL)
        printf("echo %.*s\n", answer() == 42 ? (int)strcspn(line, "\n") : 0, line);
    return 0;
}
"""


class Libraries(case.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("away"))
        os.mkdir(self.path("libraries"))
        self.build(LIBRARY, "libraries/libanswer.so", "-shared", "-fPIC")
        self.build(PROGRAM, "program", "-Llibraries", "-lanswer")

    def build(self, text, result, *flags):
        subprocess.run(["cc", "-O1", "-x", "c", "-o", result, "-", "-x", "none", *flags],
                       input=text, text=True, check=True, cwd=self.directory)

    def save_and_end(self, how, path):
        program = self.spawn(case.command("cr_run"), "./program", how,
                             env={**os.environ, "LD_LIBRARY_PATH": path})
        self.assertEqual("ready\n", program.stdout.readline())
        self.assert_alive(program)
        self.save("-f", "image", program.pid)
        self.end(program)

    def assert_good_elsewhere(self):
        away = self.path("away")
        restarted = self.restart("-q", "../image", cwd=away)
        self.assert_alive(restarted)
        self.end(restarted)

    def test_title_over_the_environment(self):
        self.save_and_end("title", self.path("libraries"))
        self.assert_good_elsewhere()

    def test_relative_path(self):
        self.save_and_end("none", "/nowhere:libraries")
        self.assert_good_elsewhere()

    def test_relative_path_and_title(self):
        self.save_and_end("title", "libraries")
        self.assert_good_elsewhere()


if __name__ == "__main__":
    case.main()
