// SPDX-License-Identifier: Apache-2.0
#include "plan/program.hpp"

#include <cstring>

namespace cryo::restore {

namespace {

template <class T>
uint64_t append(std::string &plan, const std::vector<T> &items)
{
    const uint64_t at = plan.size();
    plan.append(reinterpret_cast<const char *>(items.data()), items.size() * sizeof(T));
    return at;
}

} // namespace

Operand Program::data(const void *bytes, size_t size)
{
    data_.resize((data_.size() + 15) & ~size_t(15));
    const uint64_t at = data_.size();
    data_.append(static_cast<const char *>(bytes), size);
    return {Arg::data, at}; // from the start of the data, until finish() knows where that is
}

Operand Program::text(std::string_view text)
{
    const std::string ended(text);
    return data(ended.c_str(), ended.size() + 1);
}

Op &Program::add(Do what, std::string_view message, std::initializer_list<Operand> arguments)
{
    Op op = {};
    op.what = what;
    int i = 0;
    for (const Operand &argument : arguments) {
        op.kind[i] = argument.kind;
        op.arg[i++] = argument.number;
    }
    (in_thread_ ? thread_messages_ : main_messages_).emplace_back(message);
    target().push_back(op);
    return target().back();
}

Op &Program::call(std::string_view message, long number, std::initializer_list<Operand> arguments,
                  uint16_t to_slot)
{
    Op &op = add(Do::syscall, message, arguments);
    op.nr = static_cast<uint32_t>(number);
    op.slot = to_slot;
    return op;
}

Op &Program::try_call(std::string_view message, long number,
                      std::initializer_list<Operand> arguments)
{
    Op &op = call(message, number, arguments);
    op.expect = Expect::anything;
    return op;
}

Op &Program::call_exact(std::string_view message, long number, uint64_t want,
                        std::initializer_list<Operand> arguments)
{
    Op &op = call(message, number, arguments);
    op.expect = Expect::exact;
    op.want = want;
    return op;
}

void Program::begin_thread(const Thread &thread)
{
    in_thread_ = true;
    threads_.push_back(thread);
    threads_.back().first_op = static_cast<uint32_t>(thread_ops_.size());
}

void Program::end_thread()
{
    Thread &thread = threads_.back();
    thread.op_count = static_cast<uint32_t>(thread_ops_.size()) - thread.first_op;
    in_thread_ = false;
}

std::string Program::finish(Header header)
{
    header.magic = plan_magic;
    header.version = 1;
    header.op_count = main_ops_.size();
    std::vector<Op> ops = main_ops_;
    ops.insert(ops.end(), thread_ops_.begin(), thread_ops_.end());
    std::vector<Thread> threads = {main_};
    for (Thread thread : threads_) {
        thread.first_op += static_cast<uint32_t>(main_ops_.size());
        threads.push_back(thread);
    }
    header.thread_count = threads.size();
    header.avoid_count = avoid_.size();
    const uint64_t data_at = sizeof(header) + ops.size() * sizeof(Op) +
                             threads.size() * sizeof(Thread) + avoid_.size() * sizeof(Range);
    for (Op &op : ops) {
        for (int i = 0; i < 6; i++) {
            if (op.kind[i] == Arg::data || op.kind[i] == Arg::load)
                op.arg[i] += data_at;
        }
    }
    std::string plan(sizeof(header), 0);
    header.ops = append(plan, ops);
    header.threads = append(plan, threads);
    header.avoid = append(plan, avoid_);
    plan += data_;
    header.size = plan.size();
    memcpy(plan.data(), &header, sizeof(header));
    return plan;
}

std::string_view Program::message(uint32_t op) const
{
    if (op < main_messages_.size())
        return main_messages_[op];
    op -= static_cast<uint32_t>(main_messages_.size());
    return op < thread_messages_.size() ? std::string_view(thread_messages_[op])
                                        : std::string_view("preparing the process");
}

} // namespace cryo::restore
