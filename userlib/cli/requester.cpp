// SPDX-License-Identifier: Apache-2.0
#include "cli/requester.hpp"

#include "sys/own_variable.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace cryo::cli {

namespace {

int report_fd()
{
    const char *number = sys::own_variable("CRYO_REPORT_FD");
    const int fd = number != nullptr ? atoi(number) : -1;
    // A restored process must not inherit the descriptors of the report.
    for (int i = 0; i < 3 && fd >= 0; i++)
        fcntl(fd + i, F_SETFD, FD_CLOEXEC);
    return fd;
}

} // namespace

bool has_requester()
{
    return report_fd() >= 0;
}

bool log_for_requester(std::string_view line)
{
    if (!has_requester())
        return false;
    const std::string whole = std::string(line) + "\n";
    return write(report_fd() + 2, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size());
}

void tell_requester(int error, int value)
{
    if (!has_requester())
        return;
    const RequestReport report = {error, value};
    if (write(report_fd(), &report, sizeof(report)) < 0)
        return; // the requester has gone away
    close(report_fd());
    unsetenv("CRYO_REPORT_FD");
}

} // namespace cryo::cli
