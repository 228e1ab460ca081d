// SPDX-License-Identifier: Apache-2.0
//
// Reads the files of /proc/PID.
//
//     Proc proc(412);
//     Result<std::string> status = proc.read("status");
//     Result<std::string> exe = proc.link("exe");
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class Proc
{
  public:
    explicit Proc(pid_t pid) : pid_(pid), base_("/proc/" + std::to_string(pid) + "/") {}

    pid_t pid() const { return pid_; }
    std::string path(std::string_view name) const { return base_ + std::string(name); }
    Result<std::string> read(std::string_view name) const;
    Result<std::string> link(std::string_view name) const;
    Result<Fd> open(std::string_view name, int flags) const;
    // The numeric entries of a directory, ascending: threads, descriptors.
    Result<std::vector<int>> numbers(std::string_view directory) const;

  private:
    pid_t pid_;
    std::string base_;
};

// The rest of the line that starts with "key:", without surrounding blanks; empty if none.
std::string_view field(std::string_view text, std::string_view key);

// Parses an unsigned number at the start of `text`; skips it and the blanks after it.
uint64_t take_number(std::string_view &text, int base = 10);
// Takes the word at the start of `text`; skips it and the blanks after it.
std::string_view take_word(std::string_view &text);
std::string_view take_line(std::string_view &text);

} // namespace cryo::capture
