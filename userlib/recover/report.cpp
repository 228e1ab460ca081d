// SPDX-License-Identifier: Apache-2.0
#include "recover/report.hpp"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <unistd.h>

namespace cryo::recover {

namespace {

constexpr size_t most_line = size_t(4) << 20;    // it may name thousands of nodes
constexpr size_t most_at_once = size_t(1) << 20; // then the caller looks at other things, too

} // namespace

void Report::begin(Fd pipe)
{
    pipe_ = std::move(pipe);
    fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
    text_.clear();
    has_ended_ = false;
}

std::vector<nlohmann::json> Report::read()
{
    std::vector<nlohmann::json> lines;
    if (!pipe_)
        return lines;
    char some[PIPE_BUF];
    ssize_t n = 1;
    size_t begin = 0;
    for (size_t all = 0; all < most_at_once; all += static_cast<size_t>(n)) {
        n = ::read(pipe_.get(), some, sizeof(some));
        if (n <= 0)
            break;
        const size_t looked_at = text_.size();
        text_.append(some, static_cast<size_t>(n));
        for (size_t end = text_.find('\n', looked_at); end != std::string::npos;
             end = text_.find('\n', begin)) {
            nlohmann::json line =
                nlohmann::json::parse(text_.begin() + static_cast<ptrdiff_t>(begin),
                                      text_.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
            if (line.is_object())
                lines.push_back(std::move(line));
            begin = end + 1;
        }
    }
    text_.erase(0, begin);
    has_ended_ = n == 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || text_.size() > most_line)
        pipe_.reset();
    return lines;
}

std::optional<bool> flag_in(const nlohmann::json &line, const char *name)
{
    const auto at = line.find(name);
    return at != line.end() && at->is_boolean() ? std::optional(at->get<bool>()) : std::nullopt;
}

std::optional<int64_t> number_in(const nlohmann::json &line, const char *name)
{
    const auto at = line.find(name);
    return at != line.end() && at->is_number_integer() ? std::optional(at->get<int64_t>())
                                                       : std::nullopt;
}

pid_t process_in(const nlohmann::json &line, const char *name)
{
    const int64_t number = number_in(line, name).value_or(0);
    return number > 0 && number <= INT_MAX ? static_cast<pid_t>(number) : 0;
}

} // namespace cryo::recover
