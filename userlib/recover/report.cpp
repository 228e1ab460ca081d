// SPDX-License-Identifier: Apache-2.0
#include "recover/report.hpp"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <unistd.h>

namespace cryo::recover {

void Report::begin(Fd pipe)
{
    pipe_ = std::move(pipe);
    fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
    text_.clear();
}

std::vector<nlohmann::json> Report::read()
{
    std::vector<nlohmann::json> lines;
    if (!pipe_)
        return lines;
    char some[PIPE_BUF];
    ssize_t n;
    while ((n = ::read(pipe_.get(), some, sizeof(some))) > 0)
        text_.append(some, static_cast<size_t>(n));
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        pipe_.reset();
    for (size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
        nlohmann::json line = nlohmann::json::parse(
            text_.begin(), text_.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
        if (line.is_object())
            lines.push_back(std::move(line));
    }
    return lines;
}

} // namespace cryo::recover
