// SPDX-License-Identifier: Apache-2.0
// Which backend: what was asked for, or the best that works here.
#include "backend/native.hpp"
#include "backend/plugin.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::backend {

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
    if (wanted == "auto" || wanted == "kmod") {
        Result<Device> device = find_module(purpose);
        if (device)
            return chosen(make_kmod(std::move(*device)));
        if (wanted == "kmod")
            return device.error();
        return chosen(make_user(), device.error().text());
    }
    Result<std::unique_ptr<Backend>> plugin = load_plugin(wanted);
    if (!plugin)
        return plugin.error();
    return chosen(std::move(*plugin));
}

} // namespace cryo::backend
