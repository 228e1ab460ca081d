// SPDX-License-Identifier: Apache-2.0
#include "look/filter_program.hpp"

#include "look/bpf_numbers.hpp"

#include <algorithm>
#include <cerrno>
#include <compare>
#include <cstddef>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <set>
#include <utility>

namespace cryo::capture {

namespace {

using Word = std::optional<uint32_t>; // nothing: not known

constexpr size_t most_states = 1 << 13; // of a hostile filter with very many branches
constexpr unsigned word_bits = 32;

struct State {
    size_t next = 0;
    Word a = 0, x = 0;
    std::array<Word, BPF_MEMWORDS> memory = [] {
        std::array<Word, BPF_MEMWORDS> zeros;
        zeros.fill(0);
        return zeros;
    }();

    auto operator<=>(const State &) const = default;
};

Word loaded(const PartlyKnownCall &call, uint32_t offset)
{
    constexpr uint32_t first = offsetof(seccomp_data, args);
    if (offset == offsetof(seccomp_data, nr))
        return call.number;
    if (offset == offsetof(seccomp_data, arch))
        return AUDIT_ARCH_X86_64;
    if (offset < first || offset >= sizeof(seccomp_data))
        return {}; // where the program stands
    const std::optional<uint64_t> &argument = call.arguments[(offset - first) / sizeof(uint64_t)];
    if (!argument)
        return {};
    const bool is_upper = (offset - first) % sizeof(uint64_t) != 0;
    return static_cast<uint32_t>(is_upper ? *argument >> word_bits : *argument);
}

Word computed(uint16_t operation, Word a, Word b)
{
    if (operation == BPF_NEG)
        b = 0;
    if (!a || !b || (operation == BPF_DIV && *b == 0))
        return {};
    return bpf_computed(operation, *a, *b);
}

// Whether the jump is taken; nothing: it may be or not.
std::optional<bool> jumps(uint16_t operation, Word a, Word b)
{
    return a && b ? std::optional<bool>(bpf_jumps(operation, *a, *b)) : std::nullopt;
}

unsigned meaning(Word answer)
{
    if (!answer)
        return answer_other;
    const uint32_t action = *answer & SECCOMP_RET_ACTION_FULL;
    const uint32_t data = *answer & SECCOMP_RET_DATA;
    if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG)
        return answer_allows;
    return action == SECCOMP_RET_ERRNO && (data == EPERM || data == ENOSYS) ? answer_refuses
                                                                            : answer_other;
}

// All ways through a program, which only jumps forward.
class Ways
{
  public:
    Ways(std::span<const sock_filter> program, const PartlyKnownCall &call)
        : program_(program), call_(call)
    {
        add({});
    }

    unsigned go_all()
    {
        while (!open_.empty() && found_ != (answer_allows | answer_refuses | answer_other)) {
            const State state = open_.extract(open_.begin()).value();
            found_ |= go(state);
        }
        return found_;
    }

  private:
    void add(const State &state)
    {
        if (seen_.insert(state).second)
            open_.insert(state);
    }

    // Until its end, or to a jump that may be taken or not.
    unsigned go(State state)
    {
        while (state.next < program_.size() && seen_.size() < most_states) {
            const sock_filter &step = program_[state.next++];
            const uint16_t operation = BPF_OP(step.code);
            const Word b = BPF_SRC(step.code) == BPF_X ? state.x : Word(step.k);
            switch (BPF_CLASS(step.code)) {
            case BPF_LD:
                state.a = load(state, step);
                break;
            case BPF_LDX:
                state.x = load(state, step);
                break;
            case BPF_ST:
                state.memory[step.k % BPF_MEMWORDS] = state.a;
                break;
            case BPF_STX:
                state.memory[step.k % BPF_MEMWORDS] = state.x;
                break;
            case BPF_ALU:
                if (operation == BPF_DIV && b.value_or(0) == 0) {
                    found_ |= meaning(SECCOMP_RET_KILL_THREAD); // which is 0, what a filter gives
                    if (b)                                      // that divides by 0
                        return 0;
                }
                state.a = computed(operation, state.a, b);
                break;
            case BPF_MISC:
                (BPF_MISCOP(step.code) == BPF_TAX ? state.x : state.a) =
                    BPF_MISCOP(step.code) == BPF_TAX ? state.a : state.x;
                break;
            case BPF_RET:
                return meaning(BPF_RVAL(step.code) == BPF_A ? state.a : Word(step.k));
            case BPF_JMP:
                if (operation == BPF_JA) {
                    state.next += step.k;
                } else if (const std::optional<bool> taken = jumps(operation, state.a, b)) {
                    state.next += *taken ? step.jt : step.jf;
                } else {
                    State other = state;
                    other.next += step.jt;
                    add(other);
                    state.next += step.jf;
                    add(state);
                    return 0;
                }
                break;
            default:
                return answer_other;
            }
        }
        return answer_other;
    }

    Word load(const State &state, const sock_filter &step) const
    {
        switch (BPF_MODE(step.code)) {
        case BPF_ABS:
            return loaded(call_, step.k);
        case BPF_IMM:
            return step.k;
        case BPF_LEN:
            return static_cast<uint32_t>(sizeof(seccomp_data));
        case BPF_MEM:
            return state.memory[step.k % BPF_MEMWORDS];
        default:
            return {};
        }
    }

    std::span<const sock_filter> program_;
    const PartlyKnownCall &call_;
    std::set<State> open_, seen_;
    unsigned found_ = 0;
};

} // namespace

unsigned possible_answers(std::span<const sock_filter> program, const PartlyKnownCall &call)
{
    return Ways(program, call).go_all();
}

bool may_ask_listener(std::span<const sock_filter> program)
{
    return std::ranges::any_of(program, [](const sock_filter &step) {
        return BPF_CLASS(step.code) == BPF_RET &&
               (BPF_RVAL(step.code) == BPF_A ||
                (step.k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF);
    });
}

} // namespace cryo::capture
