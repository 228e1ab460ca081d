// SPDX-License-Identifier: Apache-2.0
#include "restore/file_options.hpp"
#include "restore/saved.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::restore {

Result<Relocation> Relocation::parse(std::string_view text)
{
    Relocation made;
    std::string *part = &made.from;
    const auto wrong = [&](std::string_view why) {
        return Error(EINVAL, fmt::format("--relocate {}: {}", text, why));
    };
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == '\\') {
            if (i + 1 == text.size() || (text[i + 1] != '=' && text[i + 1] != '\\'))
                return wrong("a backslash stands before = or another one only");
            *part += text[++i];
        } else if (text[i] == '=') {
            if (part == &made.to)
                return wrong("a second = must be written \\=");
            part = &made.to;
        } else {
            *part += text[i];
        }
    }
    if (part == &made.from)
        return wrong("OLD=NEW is expected");
    for (std::string *path : {&made.from, &made.to}) {
        if (path->empty() || path->front() != '/')
            return wrong("both paths must begin with /");
        while (path->size() > 1 && path->back() == '/')
            path->pop_back();
    }
    return made;
}

bool Relocation::applies(std::string_view path) const
{
    if (from == "/")
        return !path.empty() && path.front() == '/';
    return path.substr(0, from.size()) == from &&
           (path.size() == from.size() || path[from.size()] == '/');
}

std::string relocated(const FileOptions &options, std::string_view path)
{
    for (const Relocation &one : options.relocations) {
        if (!one.applies(path))
            continue;
        std::string_view rest = path.substr(one.from == "/" ? 0 : one.from.size());
        if (one.to == "/" && !rest.empty())
            return std::string(rest);
        return one.to == "/" ? one.to : one.to + (rest == "/" ? "" : std::string(rest));
    }
    return std::string(path);
}

void relocate(Saved &saved, const FileOptions &options)
{
    if (options.relocations.empty())
        return;
    const auto change = [&](std::string_view &path) {
        std::string to = relocated(options, path);
        const std::vector<uint8_t> &kept = saved.payloads.emplace_back(to.begin(), to.end());
        path = image::as_text(kept);
    };
    change(saved.process.exe);
    change(saved.process.cwd);
    for (auto &[id, file] : saved.files()) {
        change(file.path);
        if (file.kind == image::FileKind::fifo && !file.link.empty())
            change(file.link); // its other name
    }
    for (image::InotifyWatch &watch : saved.of<image::InotifyWatch>())
        change(watch.path);
}

} // namespace cryo::restore
