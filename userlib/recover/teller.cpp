// SPDX-License-Identifier: Apache-2.0
#include "recover/teller.hpp"

#include "cli/command.hpp"

#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::recover {

Teller::Teller(const std::vector<std::string> &words, const std::string &directory)
    : said_(from_here())
{
    said_.supervisor = getpid();
    said_.supervisor_started = started(getpid());
    said_.command = fmt::format("{}", fmt::join(words, " "));
    said_.directory = directory;
}

void Teller::open()
{
    Result<Publisher> publisher = Publisher::open();
    if (publisher)
        publisher_.emplace(std::move(*publisher));
    else
        fail(publisher.error());
}

void Teller::fail(const Error &error)
{
    say("cr_status will not know of this program: " + error.text());
    publisher_.reset();
}

void Teller::publish()
{
    if (!publisher_)
        return;
    if (const Result<void> done = publisher_->publish(said_); !done)
        fail(done.error());
}

void Teller::note_program(pid_t pid, pid_t own_pid)
{
    said_.program = pid;
    said_.own_pid = own_pid;
    said_.program_started = started(pid);
    publish();
}

void Teller::withdraw()
{
    if (publisher_)
        publisher_->withdraw();
}

// A restart cuts the program's files back, and standard error may be one of them: then nothing is
// written where it ended before.
void Teller::say(const std::string &text) const
{
    struct stat status = {};
    if (fstat(STDERR_FILENO, &status) == 0 && S_ISREG(status.st_mode))
        lseek(STDERR_FILENO, 0, SEEK_END);
    cli::say("cr_run", fmt::format("{:%H:%M:%S} {}", fmt::localtime(time(nullptr)), text));
}

} // namespace cryo::recover
