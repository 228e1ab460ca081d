// SPDX-License-Identifier: Apache-2.0
//
// Writes a restart plan (restorer/plan.hpp): operations, their data, and the threads that run them.
//
//     Program p;
//     uint16_t file = p.slot();
//     p.call("opening", SYS_openat, {value(AT_FDCWD), p.text("/etc/motd"), value(0)}, file);
//     p.call("seeking", SYS_lseek, {result(file), value(10), value(SEEK_SET)});
//     std::string bytes = p.finish(...);
#pragma once

#include "restorer/plan.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::restore {

struct Operand {
    Arg kind = Arg::value;
    uint64_t number = 0;
};

template <class T>
Operand value(T number)
{
    if constexpr (std::is_signed_v<T>)
        return {Arg::value, static_cast<uint64_t>(static_cast<int64_t>(number))};
    else
        return {Arg::value, static_cast<uint64_t>(number)};
}

inline Operand result(uint16_t slot)
{
    return {Arg::slot, slot};
}

class Program
{
  public:
    // Data in the plan, 16-byte aligned; the operand is its address.
    Operand data(const void *bytes, size_t size);
    Operand text(std::string_view text);
    uint16_t slot() { return next_slot_++; }
    bool too_many_slots() const { return next_slot_ > max_slots; }

    // An operation whose failure is reported as `message`.
    Op &add(Do what, std::string_view message, std::initializer_list<Operand> arguments);
    Op &call(std::string_view message, long number, std::initializer_list<Operand> arguments,
             uint16_t to_slot = 0);
    // A call whose failure does not matter.
    Op &try_call(std::string_view message, long number, std::initializer_list<Operand> arguments);
    // A call that must return exactly this.
    Op &call_exact(std::string_view message, long number, uint64_t want,
                   std::initializer_list<Operand> arguments);

    // Between begin_thread() and end_thread(), operations belong to that thread, not the main one.
    void begin_thread(const Thread &thread);
    void end_thread();
    void set_main_thread(const Thread &thread) { main_ = thread; }
    void avoid(uint64_t start, uint64_t end) { avoid_.push_back({start, end}); }

    // The finished plan. The header's place and counts are filled in.
    std::string finish(Header header);
    // The message of a failed operation.
    std::string_view message(uint32_t op) const;

  private:
    std::vector<Op> &target() { return in_thread_ ? thread_ops_ : main_ops_; }

    std::vector<Op> main_ops_, thread_ops_;
    std::vector<std::string> main_messages_, thread_messages_;
    std::vector<Thread> threads_; // all but the main one; first_op counts from thread_ops_
    Thread main_ = {};
    std::vector<Range> avoid_;
    std::string data_;
    uint16_t next_slot_ = 1;
    bool in_thread_ = false;
};

} // namespace cryo::restore
