// SPDX-License-Identifier: Apache-2.0
#include "store/contents.hpp"

#include "base/printable.hpp"
#include "base/write_all.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

namespace cryo::store {

std::string_view name_of(Kind kind)
{
    switch (kind) {
    case Kind::image:
        return "image";
    case Kind::directory:
        return "directory";
    case Kind::snapshot:
        return "snapshot";
    }
    return "";
}

Result<Fd> file_of_text(const std::string &text)
{
    Fd file(memfd_create("cryo", MFD_CLOEXEC));
    if (!file)
        return Error::from_errno("memfd_create", errno);
    if (Result<void> written = write_all(file.get(), "a file in memory", text); !written)
        return written.error();
    return file;
}

bool is_safe_name(std::string_view name)
{
    constexpr size_t longest = 4000;
    if (name.empty() || name.size() > longest || name.ends_with('/') || !is_utf8(name) ||
        name.find('\0') != std::string_view::npos)
        return false;
    while (!name.empty()) {
        const size_t end = std::min(name.find('/'), name.size());
        const std::string_view component = name.substr(0, end);
        if (component.empty() || component == "." || component == ".." || component.size() > 255)
            return false;
        name.remove_prefix(std::min(end + 1, name.size()));
    }
    return true;
}

} // namespace cryo::store
