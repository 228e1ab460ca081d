// SPDX-License-Identifier: Apache-2.0
//
// A directory of a test's own, removed at the end.
//
//     const Scratch dir;
//     write_image(dir / "image");
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace cryo {

class Scratch
{
  public:
    Scratch()
    {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "cryo-unit.XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr)
            throw std::runtime_error("cannot make " + pattern);
        path_ = pattern;
    }
    ~Scratch()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    std::string operator/(const std::string &name) const { return (path_ / name).string(); }
    const std::filesystem::path &path() const { return path_; }

  private:
    std::filesystem::path path_;
};

} // namespace cryo
