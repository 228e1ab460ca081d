// SPDX-License-Identifier: Apache-2.0
// In place of coord/imager.cpp: an image that is taken is there at once.
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>

#include "coord/coordinator.hpp"

namespace cryo::coord {

ImageOptions image_options(const nlohmann::json &)
{
    return {};
}
nlohmann::json to_json(const ImageOptions &)
{
    return nlohmann::json::object();
}

Imager::~Imager()
{
    loop_.call_off(static_cast<uint64_t>(child_));
}

Result<void> Imager::start(pid_t, const ImagePlace &place, const ImageOptions &, Events events)
{
    if (mkdir(place.directory.c_str(), 0700) != 0)
        return Error::from_errno(place.directory, errno);
    const std::string file = place.directory + "/" + place.name;
    report_ = Fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const auto cut = std::move(events.cut); // which may destroy this
    events_ = std::move(events);
    child_ = static_cast<pid_t>(loop_.after(0, [this] {
        const auto told = std::move(events_.end);
        Taken taken;
        taken.bytes = 1;
        told(taken);
    }));
    cut();
    return {};
}

bool Imager::is_stopped_for(std::chrono::milliseconds)
{
    return false;
}

} // namespace cryo::coord
