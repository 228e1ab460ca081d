// SPDX-License-Identifier: Apache-2.0
#include "restore/daemon.hpp"

#include "base/fd.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// A leader of a session, whose number is that of no process here.
Saved leader()
{
    Saved saved;
    saved.process.pid = saved.process.sid = 0x7fffffff;
    saved.process.no_terminal = true;
    return saved;
}

// Descriptor 1 is a pipe to a process outside the image, or a terminal.
Saved with_output(image::FileKind kind)
{
    Saved saved = leader();
    image::File file;
    file.id = 1;
    file.kind = kind;
    saved.own.add(file);
    image::OpenFile open_file;
    open_file.id = 1;
    open_file.file = 1;
    saved.own.add(open_file);
    image::Descriptor descriptor;
    descriptor.fd = STDOUT_FILENO;
    descriptor.open_file = 1;
    saved.own.add(descriptor);
    if (kind == image::FileKind::pipe) {
        image::Pipe pipe;
        pipe.file = 1;
        pipe.outside = 2;
        saved.own.add(pipe);
    }
    return saved;
}

// Our standard output is another file as long as this lives.
class Output
{
  public:
    explicit Output(int fd) : before_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3))
    {
        dup2(fd, STDOUT_FILENO);
    }
    ~Output() { dup2(before_.get(), STDOUT_FILENO); }
    Output(const Output &) = delete;
    Output &operator=(const Output &) = delete;

  private:
    Fd before_;
};

} // namespace

TEST(Daemon, LedASessionWithoutATerminal)
{
    const Saved saved = leader();
    EXPECT_TRUE(was_daemon(saved, saved));
}

TEST(Daemon, IsNoneWithAConsole)
{
    Saved saved = leader();
    saved.process.no_terminal = false; // nor is it told by images of earlier releases
    EXPECT_FALSE(was_daemon(saved, saved));
}

TEST(Daemon, IsNoneInASessionOfOthers)
{
    Saved saved = leader();
    saved.process.sid--;
    EXPECT_FALSE(was_daemon(saved, saved));
    saved.process.pid = saved.process.sid = static_cast<uint32_t>(getsid(0));
    EXPECT_FALSE(was_daemon(saved, saved));
}

TEST(Daemon, IsNoneIfAStreamBecomesATerminal)
{
    const Fd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(master);
    const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const image::FileKind kind : {image::FileKind::pipe, image::FileKind::terminal}) {
        const Saved saved = with_output(kind);
        const auto is_one = [&](int output) {
            const Output at(output);
            return was_daemon(saved, saved);
        };
        EXPECT_TRUE(is_one(nothing.get()));
        EXPECT_FALSE(is_one(master.get()));
    }
    const Saved file = with_output(image::FileKind::regular);
    const Output at(master.get());
    const bool is_one = was_daemon(file, file);
    EXPECT_TRUE(is_one);
}

} // namespace cryo::restore
