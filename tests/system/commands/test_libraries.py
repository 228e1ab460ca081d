#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program whose libraries only LD_LIBRARY_PATH finds comes back: also when it has written a title
over its environment, and from another directory than the one that the path is relative to. Another
preloaded library hears of the calls that Cryo's stands in front of. A program with GCC's
AddressSanitizer runs behind Cryo's library, and comes back."""
import os
import resource
import shutil
import subprocess

import case
import processes

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
# Stands in front of the C library, as the JVM's libjsig.so does.
COUNTING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#define COUNTED(name, parameters, arguments) \
    int calls_of_##name; \
    int name parameters \
    { \
        static int (*next) parameters; \
        if (next == NULL) \
            next = dlsym(RTLD_NEXT, #name); \
        calls_of_##name++; \
        return next arguments; \
    }
COUNTED(sigaction, (int n, const struct sigaction *to, struct sigaction *old), (n, to, old))
COUNTED(pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
COUNTED(sigprocmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
COUNTED(signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
COUNTED(dup2, (int from, int to), (from, to))
COUNTED(dup3, (int from, int to, int flags), (from, to, flags))
"""
# What it allocates, and what it finds, is as before; "bad" makes it go beyond the end.
SANITIZED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    char *line = malloc(100), *kept = strdup("kept");
    const char *options = getenv("ASAN_OPTIONS");
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    puts(options != NULL ? options : "none");
    while (fgets(line, 100, stdin) != NULL) {
        char *more = malloc(64);
        strcpy(more, kept);
        if (strcmp(line, "bad\n") == 0)
            more[strlen(line) + 60] = 1;
        printf("echo %s", strcmp(more, "kept") == 0 ? line : "lost\n");
        free(more);
    }
    return 0;
}
"""
COUNTED = ("sigaction", "pthread_sigmask", "sigprocmask", "signalfd", "dup2", "dup3")
CALLS = f"""
import ctypes, os, signal
LIBC = ctypes.CDLL(None)
SET = ctypes.create_string_buffer(128)
def calls():
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    LIBC.sigprocmask(signal.SIG_BLOCK, SET, None)
    os.close(LIBC.signalfd(-1, SET, 0))
    os.close(os.dup2(1, 50))
    os.close(os.dup2(1, 50, inheritable=False))
    return [name for name in {COUNTED} if ctypes.c_int.in_dll(LIBC, "calls_of_" + name).value > 0]
"""


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))


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

    def save_and_end(self, how, path, *options):
        program = self.spawn(case.command("cr_run"), *options, "./program", how,
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

    def test_title_over_the_number_of_the_signal(self):
        """The copy uses that signal, too."""
        self.save_and_end("title", self.path("libraries"), "--signal", "40")
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.save("-f", "again", processes.children(restarted.pid)[0])
        self.end(restarted)

    def test_relative_path(self):
        self.save_and_end("none", "/nowhere:libraries")
        self.assert_good_elsewhere()

    def test_relative_path_and_title(self):
        self.save_and_end("title", "libraries")
        self.assert_good_elsewhere()

    def assert_heard(self, program):
        self.assert_alive(program)
        self.assertEqual(f"{list(COUNTED)}\n", program.stdout.readline())

    def test_large_program(self):
        """Only what names its libraries is read of its file."""
        shutil.copy("/bin/true", self.path("large"))
        os.truncate(self.path("large"), 1 << 36)
        done = self.run_command("cr_run", self.path("large"), preexec_fn=limit_memory)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_another_preloaded_library(self):
        self.build(COUNTING, "libcounting.so", "-shared", "-fPIC")
        program = self.start(CALLS, "print(calls(), flush=True)",
                             env={**os.environ, "LD_PRELOAD": self.path("libcounting.so")})
        self.assert_heard(program)
        self.save("-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "image")
        self.assert_heard(restarted)
        self.end(restarted)


class Sanitized(case.Case):
    def setUp(self):
        super().setUp()
        with open(self.path("program.c"), "w", encoding="ascii") as file:
            file.write(SANITIZED)
        built = subprocess.run(["gcc", "-g", "-fsanitize=address", "-o", "program", "program.c"],
                               check=False, cwd=self.directory)
        if built.returncode != 0:
            self.skipTest("this compiler has no AddressSanitizer")

    def start_it(self, options=None):
        environment = {**os.environ}
        environment.pop("ASAN_OPTIONS", None)
        if options is not None:
            environment["ASAN_OPTIONS"] = options
        return self.spawn(case.command("cr_run"), "./program", env=environment,
                          stderr=subprocess.PIPE)

    def assert_finds_errors(self, program):
        program.stdin.write("bad\n")
        program.stdin.flush()
        self.assertIn("heap-buffer-overflow", program.stderr.read())
        self.assertNotEqual(0, program.wait(case.PATIENCE))

    def test_it_comes_back(self):
        program = self.start_it()
        self.assertEqual("ready\n", program.stdout.readline())
        self.assertEqual("verify_asan_link_order=0\n", program.stdout.readline())
        self.assert_alive(program)
        self.save("--nosync", "-f", "image", program.pid)
        self.assert_finds_errors(program)
        restarted = self.restart("-q", "image", stderr=subprocess.PIPE)
        self.assert_alive(restarted)
        self.save("--nosync", "-f", "again", processes.children(restarted.pid)[0])
        self.assert_finds_errors(restarted)
        self.assert_good("again")

    def test_what_the_user_says(self):
        program = self.start_it("exitcode=23")
        self.assertEqual("ready\n", program.stdout.readline())
        self.assertEqual("exitcode=23:verify_asan_link_order=0\n", program.stdout.readline())
        self.assert_finds_errors(program)
        self.assertEqual(23, program.returncode)
        program = self.start_it("verify_asan_link_order=1")
        self.assertNotEqual(0, program.wait(case.PATIENCE))
        self.assertIn("does not come first", program.stderr.read())

    def test_other_programs_hear_nothing_of_it(self):
        done = self.run_command("cr_run", "sh", "-c", "echo ${ASAN_OPTIONS-none}", env={
            name: value for name, value in os.environ.items() if name != "ASAN_OPTIONS"})
        self.assertEqual("none\n", done.stdout)


if __name__ == "__main__":
    case.main()
