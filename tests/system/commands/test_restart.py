#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_restart's own options: where the image is, ids, signals before and after, what is run then."""
import errno
import fcntl
import os
import pty
import resource
import signal
import stat
import subprocess
import termios
import unittest

import case
import needs


class Restart(case.Case):
    def saved(self, *words, **how):
        """An image of a program that has ended; its pid was this."""
        program = self.start(**how)
        self.save("--nosync", "--kill", *(words or ("-f", "image")), program.pid)
        self.end(program)
        return program.pid

    def child_of(self, restarted):
        """The restored process."""
        def look():
            with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children",
                      encoding="ascii") as file:
                return file.read().split()
        return int(case.wait_until("the restored process", look)[0])

    def fails(self, code, *words, **how):
        done = self.run_command("cr_restart", *words, **how)
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stderr

    def test_files_about_a_process_that_is_not_saved(self):
        """At a restart it may be gone, or another one. The first process of all is neither."""
        other = self.spawn("/bin/sleep", "1000")
        for name in ("", "/stat"):
            program = self.start(f"import os\nheld = os.open('/proc/{other.pid}{name}', os.O_RDONLY)")
            said = self.refuse(errno.ENOTSUP, "--retry=0", program.pid)
            self.assertIn(f"a file about process {other.pid}, which is not saved, "
                          f"/proc/{other.pid}{name}", said)
        program = self.start("import os\nheld = os.open('/proc/1/stat', os.O_RDONLY)",
                             "assert os.pread(held, 2, 0) == b'1 '")
        self.save("--kill", "-f", "image", program.pid)
        program.wait()
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted, "one")
        self.assert_alive(restarted, "two")  # so what follows the first is done

    def test_files_about_itself(self):
        """Also the directory of them all, and what is about the main thread, with another id."""
        program = self.start("""
import os
own = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY)
place = os.open("/proc/self/.", os.O_PATH | os.O_NOFOLLOW)
thread = os.open("/proc/thread-self/stat", os.O_RDONLY)
threads = os.open("/proc/thread-self", os.O_RDONLY)
def number(fd):
    return int(os.pread(fd, 99, 0).split()[0])
""", "assert [number(os.open('stat', os.O_RDONLY, dir_fd=fd)) for fd in (own, place, threads)] + [number(thread)] "
                             "== 4 * [os.getpid()]")
        self.save("--rehearse", "--kill", "-f", "image", program.pid)
        program.wait()
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted, "one")
        self.assert_alive(restarted, "two")  # so what follows the first is done

    def test_droppable_memory(self):
        """It is empty, as after the kernel has dropped it: random numbers that come from what is in it
        are not drawn twice."""
        if needs.unmet(["droppable"]):
            self.skipTest("droppable memory, since Linux 6.11")
        program = self.start("import mmap\nheld = mmap.mmap(-1, 4096, flags=mmap.MAP_ANONYMOUS | 8)\n"
                             "held[0] = 7", "print(held[0], flush=True)")
        self.save("--nosync", "-f", "image", program.pid)
        self.assert_alive(program)
        self.assertEqual("7\n", program.stdout.readline())
        self.end(program)
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.assertEqual("0\n", restarted.stdout.readline())

    def test_files_about_a_process_that_is_gone_before(self):
        other = self.spawn("/bin/sleep", "1000")
        program = self.start(f"import os\nheld = os.open('/proc/{other.pid}/stat', os.O_RDONLY)\n"
                             "def look():\n"
                             "    try:\n"
                             "        return os.pread(held, 1, 0)\n"
                             "    except OSError as error:\n"
                             "        return error.strerror\n", "print(look(), flush=True)")
        self.end(other)
        self.save("--retry=0", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.assertEqual(os.strerror(errno.ESRCH) + "\n", restarted.stdout.readline())

    def test_sources(self):
        self.saved()
        self.assert_good("image")
        self.assert_good("-f", "image")
        with open(self.path("image"), "rb") as file:
            restarted = self.restart("-q", "-F", file.fileno(), pass_fds=[file.fileno()])
            self.assert_alive(restarted)
            self.end(restarted)
        with subprocess.Popen(["cat", self.path("image")], stdout=subprocess.PIPE) as cat:
            end = cat.stdout.fileno()
            restarted = self.restart("-q", "--fd", end, pass_fds=[end])
            self.assert_alive(restarted)
        self.saved("-d", "place")
        self.assert_good("-d", "place")
        self.assert_good("place")
        self.fails(errno.ENOTDIR, "-d", "image")
        self.fails(errno.ENOENT, "absent")
        self.fails(errno.EBADF, "-F", 77)

    def test_usage(self):
        self.saved()
        for words in ([], ["image", "-f", "image"], ["-F", "0", "-d", "place"], ["image", "more"],
                      ["--relocate", "nonsense", "image"], ["-S", "70", "image"]):
            self.fails(255, *words)
        seventeen = [word for i in range(17) for word in ("--relocate", f"/a{i}=/b")]
        self.fails(255, *seventeen, "image")

    def test_checkpoint_while_it_is_brought_back(self):
        self.saved(setup="memory = b'x' * (64 << 20)")
        restarted = self.restart("-q", "image")
        self.save("-f", "again", self.child_of(restarted))
        self.assert_alive(restarted)
        self.end(restarted)
        self.assert_good("again")

    def test_signal_before_it_goes_on(self):
        self.saved(setup="""
import signal
signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))""")
        restarted = self.restart("-q", "-S", "USR1", "image")
        self.assertEqual("handled\n", restarted.stdout.readline())
        self.assert_alive(restarted)
        self.assertEqual(-signal.SIGTERM, self.restart("-q", "--term", "image").wait(case.PATIENCE))
        self.assertEqual(-signal.SIGKILL, self.restart("-q", "--kill", "image").wait(case.PATIENCE))
        restarted = self.restart("-q", "--stop", "image")
        case.wait_until("the stop",
                        lambda: case.state(self.child_of(restarted)) == "T")
        restarted.send_signal(signal.SIGCONT)
        self.assert_alive(restarted)

    def test_signals_are_passed_on(self):
        numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
                   signal.SIGALRM, signal.SIGTERM, signal.SIGWINCH, signal.SIGIO, signal.SIGRTMIN]
        # Blocked and waited for: a handler of Python's that comes just before a read is not run
        # until that has read something.
        listed = [int(number) for number in numbers]
        self.saved(setup=f"import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {listed})",
                   each=f"print('got', int(signal.sigwait({listed})), flush=True)")
        restarted = self.restart("-q", "image")
        for number in listed:
            self.assert_alive(restarted)
            restarted.send_signal(number)
            self.assertEqual(f"got {number}\n", restarted.stdout.readline())
        os.kill(self.child_of(restarted), signal.SIGSEGV)
        self.assertEqual(-signal.SIGSEGV, restarted.wait(case.PATIENCE))

    def test_exit_status_is_that_of_the_program(self):
        self.saved(each="sys.exit(int(line))")
        restarted = self.restart("-q", "image")
        restarted.communicate("42\n")
        self.assertEqual(42, restarted.returncode)

    def test_group_and_session(self):
        self.saved()
        theirs = ["--no-restore-sid"]
        for options, group, session in ((theirs, False, False),
                                        ([*theirs, "--restore-pgid"], True, False),
                                        (["--restore-sid"], True, True),
                                        ([*theirs, "--restore-pgid", "--no-restore-pgid"],
                                         False, False),
                                        (["--restore-sid", *theirs], False, False),
                                        (["--no-restore-pgid"], False, False),
                                        (["--restore-pgid"], True, True),
                                        ([], True, True)):  # it has led one without a terminal
            restarted = self.restart("-q", *options, "image")
            self.assert_alive(restarted)
            child = self.child_of(restarted)
            self.assertEqual(group, os.getpgid(child) == child, options)
            self.assertEqual(session, os.getsid(child) == child, options)
            self.assertEqual(not group, os.getpgid(child) == restarted.pid, options)
            os.kill(child, signal.SIGKILL)
            self.assertEqual(-signal.SIGKILL, restarted.wait(case.PATIENCE))

    def test_terminal_of_a_daemon(self):
        """Interrupts and the hangup of the terminal of cr_restart are not for it; what is sent to
        cr_restart is."""
        self.saved()
        terminal, slave = pty.openpty()  # open here, too: else it would be gone with the command
        restarted = self.restart("-q", "image",
                                 preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        self.assert_alive(restarted)
        child = self.child_of(restarted)
        self.assertEqual(child, os.getsid(child))
        os.write(terminal, b"\x03")
        self.assertEqual(b"^C", os.read(terminal, 2))  # after the signal
        case.await_sleep(restarted.pid)
        self.assert_alive(restarted)
        os.close(terminal)
        case.await_sleep(restarted.pid)
        self.assert_alive(restarted)
        os.close(slave)
        restarted.send_signal(signal.SIGHUP)
        self.assertEqual(-signal.SIGHUP, restarted.wait(case.PATIENCE))

    def test_ids_of_a_group_and_session_that_are_in_use(self):
        """By the program itself, which goes on."""
        program = self.start()
        self.save("-f", "image", program.pid)
        for option, what in (("--restore-pgid", "process group"), ("--restore-sid", "session")):
            failed = self.run_command("cr_restart", "-q", "--no-restore-pid", option, "image")
            self.assertEqual(errno.EBUSY, failed.returncode, failed.stderr)
            self.assertIn(f"the id {program.pid} of the {what} is in use", failed.stderr)
        self.assert_good("image")
        self.assert_alive(program)

    def test_ids_of_the_group_and_session_of_cr_restart(self):
        """They are in use, by the shell that runs all."""
        code = ("import os, time\nprint('ready', flush=True)\n"
                "while not os.path.exists('go'): time.sleep(0.01)\nprint('there', flush=True)")
        shell = self.spawn("/bin/sh", "-c", f"""
            {case.command("cr_run")} /usr/bin/python3 -S -c "$0" </dev/null &
            read -r line
            {case.command("cr_checkpoint")} --kill -f image $!
            wait
            : > go
            {case.command("cr_restart")} -q --no-restore-pid --restore-pgid --restore-sid image
            echo ended $?""", code)
        self.assertEqual("ready\n", shell.stdout.readline())
        said, _ = shell.communicate("line\n", case.PATIENCE)
        self.assertEqual("there\nended 0\n", said)

    def test_status_of_a_command_that_is_run(self):
        self.saved()
        self.fails(42, "-q", "--run-on-fail-args=exit 42", "--no-such-option", "image")
        self.fails(43, "-q", "--run-on-fail-env=exit 43", "absent")
        self.fails(errno.ENOENT, "-q", "--run-on-fail-env=exit 0", "absent")
        restarted = self.restart("-q", "--run-on-success=kill $CRYO_PID; exit 44", "image")
        self.assertEqual(44, restarted.wait(case.PATIENCE))

    @unittest.skipUnless(os.geteuid() == 0, "ids that are free are not to be had either")
    def test_id_that_is_in_use(self):
        program = self.start()
        self.save("--nosync", "-f", "image", program.pid)
        self.fails(45, "-q", "--run-on-fail-temp=exit 45", "image")
        self.fails(errno.EBUSY, "-q", "image")

    def test_log_that_another_one_has_replaced(self):
        """It is cut back, which loses something that the program has not written: that is said."""
        log = self.path("log")
        self.saved(setup="log = open('log', 'a'); log.write('ours'); log.flush()")
        for text, replaced in (("ours, and more", False), ("something else", True)):
            if replaced:
                os.rename(log, self.path("log.1"))
            with open(log, "w", encoding="utf-8") as file:
                file.write(text)
            restarted = self.restart("image", stderr=subprocess.PIPE)
            self.assert_alive(restarted)
            self.assertEqual(4, os.stat(log).st_size)
            restarted.stdin.close()
            restarted.wait(case.PATIENCE)
            self.assertEqual(replaced, "is another file than" in restarted.stderr.read())

    def test_fifo_that_was_removed(self):
        setup = "import os; os.umask(0); os.mkfifo('fifo', 0o621); fd = os.open('fifo', os.O_RDWR)"
        self.saved(setup=setup, each="os.write(fd, b'x'); print(os.read(fd, 9), flush=True)")
        os.unlink(self.path("fifo"))
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.assertEqual("b'x'\n", restarted.stdout.readline())
        self.assertEqual(stat.S_IFIFO | 0o621, os.stat(self.path("fifo")).st_mode)
        self.end(restarted)

    def comes_back(self, program):
        """Kills a program that has saved itself; it says in a file what its command came to."""
        case.wait_until("its last word", lambda: case.status(program.pid, "Name") == "sleep")
        os.kill(program.pid, signal.SIGKILL)
        program.wait(case.PATIENCE)
        with open(self.path("said"), encoding="ascii") as file:
            self.assertEqual("0\n", file.read())
        os.unlink(self.path("said"))
        with_ids = [] if os.geteuid() == 0 else ["--pidns"]
        self.fails(5, *with_ids, "image")
        with open(self.path("said"), encoding="ascii") as file:
            self.assertEqual("0\n", file.read())
        os.unlink(self.path("said"))
        os.unlink(self.path("image"))

    def test_programs_that_save_themselves(self):
        save = f"{case.command('cr_checkpoint')} -q --nosync -f image"
        # When it goes on, it waits for its end; when it comes back there is a file of this name.
        then = "mv word said; [ -e back ] && exit 5; touch back; exec sleep 1000"
        shell = self.spawn(case.command("cr_run"), "sh", "-c",
                           f"{save} $$; echo $? > word; {then}", start_new_session=False)
        self.comes_back(shell)
        os.unlink(self.path("back"))
        python = f"""
import os, signal, subprocess
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
command = subprocess.Popen("exec {save} $PPID", shell=True)
signal.sigwait([signal.SIGCHLD])
with open("word", "w") as file:
    print(os.waitstatus_to_exitcode(os.waitpid(command.pid, 0)[1]), file=file)
os.execv("/bin/sh", ["sh", "-c", "{then}"])
"""
        # The program's id is not a group's: the image's writer may stay in that for a moment.
        self.comes_back(self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c", python,
                                   start_new_session=False))

    def test_commands_that_are_run_then(self):
        self.saved(each="sys.exit(3)")
        restarted = self.restart("-q", "--run-on-success", "echo $CRYO_PID > pid", "image")
        child = self.child_of(restarted)
        case.wait_until("the command", lambda: os.path.exists(self.path("pid")) and
                        os.path.getsize(self.path("pid")))
        with open(self.path("pid"), encoding="ascii") as file:
            self.assertEqual(child, int(file.read()))
        restarted.communicate("end\n")
        self.assertEqual(3, restarted.returncode)

        def said(code, *words, **how):
            hooks = [f"--run-on-fail-{kind}=echo {kind} $CRYO_ERROR >> said"
                     for kind in ("args", "temp", "env", "perm")]
            self.fails(code, *hooks, "--run-on-failure=echo any >> said", *words, **how)
            with open(self.path("said"), encoding="ascii") as file:
                text = file.read()
            os.unlink(self.path("said"))
            return text
        self.assertEqual("args 0\n", said(255, "--no-such-option", "image"))
        self.assertEqual("args 0\n", said(255))
        self.assertEqual(f"env {errno.ENOENT}\n", said(errno.ENOENT, "absent"))
        few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))}
        self.assertEqual(f"temp {errno.EMFILE}\n", said(errno.EMFILE, "image", **few))
        with open(self.path("damaged"), "wb") as file:
            file.write(b"x" * 20000)
        self.assertEqual(f"perm {errno.EBADMSG}\n", said(errno.EBADMSG, "damaged"))
        self.fails(errno.ENOENT, "--run-on-failure=echo $CRYO_ERROR > any", "absent")
        self.assertTrue(os.path.exists(self.path("any")))


if __name__ == "__main__":
    case.main()
