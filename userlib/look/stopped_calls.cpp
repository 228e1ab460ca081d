// SPDX-License-Identifier: Apache-2.0
#include "look/stopped_calls.hpp"

#include "look/bpf_numbers.hpp"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <optional>

namespace cryo::capture {

namespace {

constexpr uint32_t after_last_number = 560; // of any kind of call, with some to come
constexpr uint32_t x32_bit = 0x40000000;    // in the number, for calls with pointers of 32 bits
constexpr size_t words = 12;                // lower and upper ones of the arguments
constexpr uint32_t word_bits = 32;
// Of a hostile filter with very many ways.
constexpr size_t most_steps = 1 << 25, most_calls = 1 << 16, most_open = 1 << 12;

struct Step {
    uint16_t operation;
    uint32_t operand;
    bool operator==(const Step &) const = default;
};

// What a register has: a number, or what steps make of a word that is not decided yet.
struct Value {
    std::optional<size_t> word = {};
    uint32_t number = 0; // without a word
    std::vector<Step> steps = {};
};

uint32_t with_word(const Value &value, uint32_t word)
{
    for (const Step &step : value.steps)
        word = bpf_computed(step.operation, word, step.operand);
    return word;
}

bool stops(uint32_t answer)
{
    const uint32_t action = answer & SECCOMP_RET_ACTION_FULL;
    return action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG;
}

using Candidates = std::vector<uint32_t>;

std::optional<size_t> word_at(uint32_t offset)
{
    constexpr uint32_t first = offsetof(seccomp_data, args);
    return offset >= first && offset < sizeof(seccomp_data)
               ? std::optional<size_t>((offset - first) / sizeof(uint32_t))
               : std::nullopt;
}

// Which words a register may have, in whatever way the program comes to an instruction.
struct Origins {
    std::bitset<words> a = {}, x = {};
    std::array<std::bitset<words>, BPF_MEMWORDS> memory = {};

    void add(const Origins &others)
    {
        a |= others.a;
        x |= others.x;
        for (size_t i = 0; i < memory.size(); i++)
            memory[i] |= others.memory[i];
    }
    void step(const sock_filter &step)
    {
        std::bitset<words> loaded;
        if (BPF_MODE(step.code) == BPF_MEM)
            loaded = memory[step.k % BPF_MEMWORDS];
        else if (const auto word = word_at(step.k); word && BPF_MODE(step.code) == BPF_ABS)
            loaded.set(*word);
        switch (BPF_CLASS(step.code)) {
        case BPF_LD:
            a = loaded;
            break;
        case BPF_LDX:
            x = loaded;
            break;
        case BPF_ST:
            memory[step.k % BPF_MEMWORDS] = a;
            break;
        case BPF_STX:
            memory[step.k % BPF_MEMWORDS] = x;
            break;
        case BPF_MISC:
            (BPF_MISCOP(step.code) == BPF_TAX ? x : a) = BPF_MISCOP(step.code) == BPF_TAX ? a : x;
            break;
        default:
            break;
        }
    }
};

// Values of each word among which the program tells apart, as its instructions show: those by which
// it jumps, their neighbours, and their bits. Zero is the first.
std::array<Candidates, words> candidates_of(std::span<const sock_filter> program)
{
    std::array<Candidates, words> candidates;
    candidates.fill({1, UINT32_MAX});
    std::vector<Origins> before(program.size());
    const auto go_to = [&](size_t next, const Origins &origins) {
        if (next < before.size())
            before[next].add(origins);
    };
    for (size_t at = 0; at < program.size(); at++) {
        const sock_filter &step = program[at];
        Origins origins = before[at];
        origins.step(step);
        const bool jumps = BPF_CLASS(step.code) == BPF_JMP;
        const bool is_compared = jumps && BPF_OP(step.code) != BPF_JA;
        if (BPF_CLASS(step.code) != BPF_RET)
            go_to(at + 1 + (jumps ? is_compared ? step.jt : step.k : 0), origins);
        if (is_compared)
            go_to(at + 1 + step.jf, origins);
        if (!is_compared && BPF_CLASS(step.code) != BPF_ALU)
            continue;
        for (size_t word = 0; word < words; word++) {
            if (!origins.a[word])
                continue;
            Candidates &found = candidates[word];
            found.insert(found.end(), {step.k, step.k - 1, step.k + 1, ~step.k});
            if (BPF_OP(step.code) == (is_compared ? BPF_JSET : BPF_AND))
                for (uint32_t bit = 1; bit != 0; bit <<= 1)
                    if ((step.k & bit) != 0)
                        found.push_back(bit);
        }
    }
    for (Candidates &found : candidates) {
        std::ranges::sort(found);
        found.erase(std::unique(found.begin(), found.end()), found.end());
        std::erase(found, 0);
        found.insert(found.begin(), 0);
    }
    return candidates;
}

// What has been asked of a word.
struct Condition {
    size_t word = 0;
    std::vector<Step> steps = {};
    uint16_t operation = 0;
    uint32_t operand = 0;
    bool holds = false;
    bool operator==(const Condition &) const = default;

    // The bits that decide; none: any may.
    std::optional<uint32_t> bits() const
    {
        if (steps.size() > 1 || (steps.size() == 1 && steps.front().operation != BPF_AND))
            return {};
        return (steps.empty() ? UINT32_MAX : steps.front().operand) &
               (operation == BPF_JSET ? operand : UINT32_MAX);
    }
    bool is_plain() const { return steps.empty() && operation != BPF_JSET; }
};

struct State {
    size_t next = 0;
    Value a = {}, x = {};
    std::array<Value, BPF_MEMWORDS> memory = {};
    std::array<Candidates, words> candidates = {}; // that lead here
    std::bitset<words> decides = {};               // it has jumped by these words
    std::vector<Condition> decided = {};           // how

    // Bits of the word that are known for sure.
    uint32_t known(size_t word) const
    {
        uint32_t bits = 0;
        for (const Condition &one : decided)
            if (one.word == word && one.operation == BPF_JEQ && one.holds)
                bits |= one.bits().value_or(0);
        return bits;
    }
};

// The calls with one number.
class Ways
{
  public:
    Ways(std::span<const sock_filter> program, std::array<Candidates, words> candidates,
         FullCall call, size_t &steps, StoppedCalls &found)
        : program_(program), call_(call), all_(candidates), steps_(steps), found_(found)
    {
        if (call.is_32_bit)
            for (size_t upper = 1; upper < words; upper += 2)
                candidates[upper] = {0};
        State first;
        first.candidates = std::move(candidates);
        open_.push_back(std::move(first));
    }

    void go_all()
    {
        while (!open_.empty() && found_.are_all) {
            State state = std::move(open_.back());
            open_.pop_back();
            go(std::move(state));
        }
    }

  private:
    // Whether it is a number by now; else there is a state for each that it may be.
    bool is_decided(Value &value, const State &state)
    {
        if (!value.word)
            return true;
        const size_t word = *value.word;
        if (state.known(word) != UINT32_MAX && !is_none(word))
            found_.are_all = false; // it may have any value
        if (state.candidates[word].size() == 1) {
            value = {{}, with_word(value, state.candidates[word].front()), {}};
            return true;
        }
        for (const uint32_t one : state.candidates[word]) {
            State other = state;
            other.next = state.next - 1;
            other.candidates[word] = {one};
            other.decides.set(word);
            add(std::move(other));
        }
        return false;
    }

    void add(State state)
    {
        found_.are_all = found_.are_all && open_.size() < most_open;
        open_.push_back(std::move(state));
    }

    void go(State state)
    {
        while (state.next < program_.size() && steps_++ < most_steps) {
            const sock_filter &step = program_[state.next++];
            const uint16_t operation = BPF_OP(step.code);
            const bool by_x = BPF_SRC(step.code) == BPF_X;
            switch (BPF_CLASS(step.code)) {
            case BPF_LD:
            case BPF_LDX:
                (BPF_CLASS(step.code) == BPF_LD ? state.a : state.x) = load(state, step);
                break;
            case BPF_ST:
                state.memory[step.k % BPF_MEMWORDS] = state.a;
                break;
            case BPF_STX:
                state.memory[step.k % BPF_MEMWORDS] = state.x;
                break;
            case BPF_ALU:
                if (by_x && operation != BPF_NEG && !is_decided(state.x, state))
                    return;
                if (!compute(state, operation, by_x ? state.x.number : step.k))
                    return stopped(state);
                break;
            case BPF_MISC:
                if (BPF_MISCOP(step.code) == BPF_TAX)
                    state.x = state.a;
                else
                    state.a = state.x;
                break;
            case BPF_RET:
                if (BPF_RVAL(step.code) == BPF_A && !is_decided(state.a, state))
                    return;
                if (stops(BPF_RVAL(step.code) == BPF_A ? state.a.number : step.k))
                    stopped(state);
                return;
            default: // BPF_JMP
                if (operation == BPF_JA) {
                    state.next += step.k;
                    break;
                }
                if (by_x && !is_decided(state.x, state))
                    return;
                jump(state, step, by_x ? state.x.number : step.k);
            }
        }
        found_.are_all = false;
    }

    // False: the program ends, and so does the process.
    static bool compute(State &state, uint16_t operation, uint32_t operand)
    {
        if (operation == BPF_DIV && operand == 0)
            return false;
        if (state.a.word)
            state.a.steps.push_back({operation, operand});
        else
            state.a.number = bpf_computed(operation, state.a.number, operand);
        return true;
    }

    // The upper word of a call that has none.
    bool is_none(size_t word) const { return call_.is_32_bit && word % 2 != 0; }

    // Whether no value at all is left, where none of the candidates is.
    bool is_impossible(const State &state, const Condition &condition) const
    {
        const auto is_one = [&](uint32_t value) {
            return std::ranges::find(all_[condition.word], value) != all_[condition.word].end();
        };
        const std::optional<uint32_t> bits = condition.bits();
        if (is_none(condition.word) || bits == 0U ||
            (bits && (*bits & ~state.known(condition.word)) == 0))
            return true;
        // A value that the bits cannot have.
        if (bits && condition.operation == BPF_JEQ && condition.holds &&
            (condition.operand & ~*bits) != 0)
            return true;
        Condition opposite = condition;
        opposite.holds = !condition.holds;
        if (std::ranges::find(state.decided, opposite) != state.decided.end())
            return true;
        // Between numbers by which it is compared, each range has a candidate.
        const auto is_plain = [&](const Condition &one) {
            return one.word != condition.word || one.is_plain();
        };
        return condition.is_plain() && std::ranges::all_of(state.decided, is_plain) &&
               is_one(condition.operand) && is_one(condition.operand - 1) &&
               is_one(condition.operand + 1);
    }

    // Candidates that jump go on in `state`, unless there are none.
    void jump(State &state, const sock_filter &step, uint32_t operand)
    {
        const uint16_t operation = BPF_OP(step.code);
        if (!state.a.word) {
            state.next += bpf_jumps(operation, state.a.number, operand) ? step.jt : step.jf;
            return;
        }
        const size_t word = *state.a.word;
        Candidates taken, others;
        for (const uint32_t one : state.candidates[word])
            (bpf_jumps(operation, with_word(state.a, one), operand) ? taken : others)
                .push_back(one);
        state.decides.set(word);
        Condition condition = {word, state.a.steps, operation, operand, false};
        if (taken.empty() || others.empty()) {
            condition.holds = taken.empty();
            found_.are_all = found_.are_all && is_impossible(state, condition);
        } else {
            State other = state;
            condition.holds = false;
            other.decided.push_back(condition);
            other.next += step.jf;
            other.candidates[word] = std::move(others);
            add(std::move(other));
        }
        condition.holds = !taken.empty();
        state.decided.push_back(std::move(condition));
        state.next += taken.empty() ? step.jf : step.jt;
        if (!taken.empty())
            state.candidates[word] = std::move(taken);
    }

    // An example with each value of each word that has decided.
    void stopped(const State &state)
    {
        found_.are_all = found_.are_all && found_.calls.size() < most_calls;
        std::array<uint32_t, words> chosen;
        for (size_t word = 0; word < words; word++)
            chosen[word] = state.candidates[word].front();
        keep(chosen);
        for (size_t word = 0; word < words; word++) {
            if (!state.decides[word])
                continue;
            for (size_t i = 1; i < state.candidates[word].size(); i++) {
                std::array<uint32_t, words> other = chosen;
                other[word] = state.candidates[word][i];
                keep(other);
            }
        }
    }

    void keep(const std::array<uint32_t, words> &chosen)
    {
        for (size_t i = 0; i < call_.arguments.size(); i++)
            call_.arguments[i] = chosen[2 * i] | static_cast<uint64_t>(chosen[2 * i + 1])
                                                     << word_bits;
        found_.calls.push_back(call_);
    }

    Value load(const State &state, const sock_filter &step)
    {
        switch (BPF_MODE(step.code)) {
        case BPF_MEM:
            return state.memory[step.k % BPF_MEMWORDS];
        case BPF_ABS:
            break;
        case BPF_IMM:
            return {{}, step.k, {}};
        default: // BPF_LEN
            return {{}, static_cast<uint32_t>(sizeof(seccomp_data)), {}};
        }
        if (const std::optional<size_t> word = word_at(step.k))
            return {word, 0, {}};
        if (step.k == offsetof(seccomp_data, nr))
            return {{}, call_.number, {}};
        if (step.k == offsetof(seccomp_data, arch))
            return {{}, call_.is_32_bit ? AUDIT_ARCH_I386 : AUDIT_ARCH_X86_64, {}};
        found_.are_all = false; // where the program stands
        return {};
    }

    std::span<const sock_filter> program_;
    FullCall call_;
    std::array<Candidates, words> all_;
    size_t &steps_;
    StoppedCalls &found_;
    std::vector<State> open_;
};

} // namespace

StoppedCalls stopped_calls(std::span<const sock_filter> program)
{
    StoppedCalls found;
    const std::array<Candidates, words> candidates = candidates_of(program);
    size_t steps = 0;
    struct Kind {
        bool is_32_bit;
        uint32_t first;
    };
    for (const Kind kind : {Kind{false, 0}, Kind{false, x32_bit}, Kind{true, 0}})
        for (uint32_t i = 0; i < after_last_number && found.are_all; i++)
            Ways(program, candidates, {kind.is_32_bit, kind.first + i, {}}, steps, found).go_all();
    return found;
}

std::string text_of(const FullCall &call)
{
    const bool is_x32 = !call.is_32_bit && (call.number & x32_bit) != 0;
    std::string text = fmt::format("system call {}{}", call.number & ~x32_bit,
                                   call.is_32_bit ? " of 32-bit programs"
                                   : is_x32       ? " of x32 programs"
                                                  : "");
    if (std::ranges::any_of(call.arguments, [](uint64_t one) { return one != 0; }))
        text += fmt::format(" with the arguments {:#x}", fmt::join(call.arguments, ", "));
    return text;
}

} // namespace cryo::capture
