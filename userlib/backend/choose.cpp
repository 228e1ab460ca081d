// SPDX-License-Identifier: Apache-2.0
// Chooses the backend: the one asked for, or the best that works here.
#include "backend/criu.hpp"
#include "backend/native.hpp"
#include "backend/open_image.hpp"
#include "backend/plugin.hpp"
#include "backend/self.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::backend {

namespace {

bool is_native(std::string_view name)
{
    return name == "auto" || name == "kmod" || name == "user";
}

bool is_foreign(std::string_view name)
{
    return name == "criu" || name == "self";
}

// An image that only a plug-in can read: its owner is checked all the same.
Result<void> check_file(const RestartRequest &request, const std::string &file)
{
    if (request.fd >= 0)
        return request.trust->check(request.fd, file);
    const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd)
        return Error::from_errno(file, errno);
    return request.trust->check(fd.get(), file);
}

} // namespace

Result<std::unique_ptr<Backend>> choose(std::string_view wanted, Purpose purpose,
                                        const std::function<void(std::string_view)> &say)
{
    const auto chosen = [&](std::unique_ptr<Backend> backend, std::string_view why = {}) {
        if (say)
            say(why.empty() ? fmt::format("backend {}", backend->name())
                            : fmt::format("backend {} ({})", backend->name(), why));
        return Result<std::unique_ptr<Backend>>(std::move(backend));
    };
    if (wanted == "user")
        return chosen(make_user());
    if (wanted == "self")
        return chosen(make_self());
    if (wanted == "auto" || wanted == "kmod") {
        Result<Device> device = find_module(purpose);
        if (device)
            return chosen(make_kmod(std::move(*device)));
        if (wanted == "kmod")
            return device.error();
        return chosen(make_user(), device.error().text());
    }
    Result<std::unique_ptr<Backend>> other = wanted == "criu" ? make_criu() : load_plugin(wanted);
    if (!other)
        return other.error();
    return chosen(std::move(*other));
}

Result<std::unique_ptr<Backend>> choose_for_image(std::string_view wanted, const std::string &file,
                                                  RestartRequest &request,
                                                  const std::function<void(std::string_view)> &say)
{
    if (!is_native(wanted) && !is_foreign(wanted)) {
        Result<void> trusted = check_file(request, file);
        return trusted ? choose(wanted, Purpose::restart, say) : trusted.error();
    }
    Result<std::shared_ptr<image::Snapshot>> image = open_image(request, file);
    if (!image)
        return image.error();
    request.image = std::move(*image);
    const std::string &maker = request.image->maker();
    if (maker.empty() && !is_foreign(wanted))
        return choose(wanted, Purpose::restart, say);
    if (maker.empty())
        return Error(ENOTSUP, fmt::format("{}: was not taken by backend {}; restart it without "
                                          "--backend",
                                          file, wanted));
    if (!is_foreign(maker))
        return Error(EPROTO, fmt::format("{}: was taken by backend {}, which this cr_restart does "
                                         "not have",
                                         file, maker));
    if (wanted != "auto" && wanted != maker)
        return Error(ENOTSUP, fmt::format("{}: was taken by backend {}, and no other can restart "
                                          "it; use --backend={}, or auto",
                                          file, maker, maker));
    return choose(maker, Purpose::restart, say);
}

} // namespace cryo::backend
