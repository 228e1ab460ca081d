// SPDX-License-Identifier: Apache-2.0
#include "keeper/metrics.hpp"

#include "base/contents.hpp"
#include "base/trust.hpp"
#include "metrics/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>

namespace cryo::keeper {

Result<Metrics> Metrics::open(const std::string &directory, pid_t pid, uint64_t restarts)
{
    Result<Directory> opened = Directory::open(directory);
    if (!opened)
        return opened.error().within("--metrics");
    if (Result<void> own =
            check_own(opened->fd(), directory, "metrics are written to a directory of your own");
        !own)
        return own.error().within("--metrics");
    return Metrics(std::move(*opened), pid, restarts);
}

Metrics::Metrics(Directory directory, pid_t pid, uint64_t restarts)
    : directory_(std::move(directory)), program_{.pid = pid}
{
    for (const metrics::Value counted :
         {metrics::checkpoints, metrics::failures, metrics::stopped_in_all, metrics::bytes_in_all})
        program_.values[counted] = 0;
    program_.values[metrics::restarts] = static_cast<double>(restarts);
}

// Of a checkpoint that there was not, nothing is said: until the first one, its values are missing.
void Metrics::saved(double stopped_s, uint64_t bytes, double at)
{
    auto &values = program_.values;
    const auto size = static_cast<double>(bytes);
    *values[metrics::checkpoints] += 1;
    *values[metrics::stopped_in_all] += stopped_s;
    *values[metrics::bytes_in_all] += size;
    values[metrics::stopped_last] = stopped_s;
    values[metrics::bytes_last] = size;
    values[metrics::complete_at] = at;
}

void Metrics::failed()
{
    *program_.values[metrics::failures] += 1;
}

std::string Metrics::name() const
{
    return metrics::file_name(program_.pid);
}

void Metrics::name_command(std::string name)
{
    if (program_.command.empty())
        program_.command = std::move(name);
}

std::string Metrics::text() const
{
    return metrics::text_of(program_);
}

Result<void> Metrics::write()
{
    const Result<ino_t> written = metrics::write_for_all(directory_, name(), text());
    if (!written)
        return written.error();
    written_ = *written;
    return {};
}

void Metrics::remove()
{
    const Result<std::optional<struct stat>> there = directory_.look(name());
    if (written_ != 0 && there && *there && (*there)->st_ino == written_)
        static_cast<void>(directory_.remove(name()));
    written_ = 0;
}

std::string command_of(pid_t pid)
{
    const std::string path = fmt::format("/proc/{}/comm", pid);
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    Result<std::string> text = fd ? contents(fd.get(), path) : Error::from_errno(path, errno);
    if (!text)
        return "";
    while (text->ends_with('\n'))
        text->pop_back();
    return *text;
}

} // namespace cryo::keeper
