// SPDX-License-Identifier: Apache-2.0
#include "restore/daemon.hpp"

#include <unistd.h>

namespace cryo::restore {

namespace {

// Whether the open file comes back as a standard stream of cr_restart.
bool becomes_ours(const Saved &tree, uint32_t open_file)
{
    const auto opened = tree.open_files().find(open_file);
    if (opened == tree.open_files().end())
        return false;
    const uint32_t id = opened->second.file;
    const auto file = tree.files().find(id);
    if (file != tree.files().end() && file->second.kind == image::FileKind::terminal)
        return true;
    const auto pipe = tree.of<image::Pipe>().find(id);
    return pipe != tree.of<image::Pipe>().end() && pipe->second.outside != 0;
}

bool has_terminal_of_ours(const Saved &process, const Saved &tree)
{
    for (const image::Descriptor &one : process.descriptors()) {
        if (one.fd <= STDERR_FILENO && isatty(static_cast<int>(one.fd)) != 0 &&
            becomes_ours(tree, one.open_file))
            return true;
    }
    return false;
}

} // namespace

bool was_daemon(const Saved &process, const Saved &tree)
{
    const image::Process &p = process.process;
    return p.no_terminal && p.sid == p.pid && p.sid != static_cast<uint32_t>(getsid(0)) &&
           !has_terminal_of_ours(process, tree);
}

} // namespace cryo::restore
