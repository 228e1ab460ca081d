// SPDX-License-Identifier: Apache-2.0
#include "cli/version.hpp"

#include "cli/place.hpp"
#include "image/format.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <vector>

namespace cryo::cli {

namespace {

// A build, or a package, has the parts for the MPI libraries that it was made for.
std::vector<std::string_view> mpi_libraries()
{
    constexpr struct {
        std::string_view file;
        std::string_view name;
    } parts[] = {{"cryo/libcryo_openmpi.so", "Open MPI"}, {"cryo/libcryo_mpich.so", "MPICH"}};
    std::vector<std::string_view> names;
    for (const auto &[file, name] : parts) {
        if (access(library(file).c_str(), R_OK) == 0)
            names.push_back(name);
    }
    return names;
}

} // namespace

std::string version_text(std::string_view command)
{
    const std::vector<std::string_view> mpi = mpi_libraries();
    return fmt::format("{} (Cryo) " CRYO_VERSION "\nimages: format {}, compressed by lz4 or zstd\n"
                       "jobs of MPI: {}",
                       command, image::kFormatVersion,
                       mpi.empty() ? "no part for any MPI library is installed"
                                   : fmt::format("{}", fmt::join(mpi, ", ")));
}

} // namespace cryo::cli
