// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/connect_lent.hpp"

#include "base/lent_mode.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace cryo::resources {

int connect_lent(const SocketName &name, const std::function<int()> &connects)
{
    const int why = connects();
    if (why != EACCES || name.path() == nullptr)
        return why;
    const Result<Found> file = look_at(name.path(), Links::not_at_end);
    return file && S_ISSOCK(file->status.st_mode) ? connect_lent(*file, connects) : why;
}

int connect_lent(const Found &file, const std::function<int()> &connects)
{
    int why = 0;
    static_cast<void>(open_lent(file, O_WRONLY, [&]() -> Result<Fd> {
        why = connects();
        return why == EACCES ? Result<Fd>(Error(why, file.path)) : Result<Fd>(Fd());
    }));
    return why;
}

} // namespace cryo::resources
