// SPDX-License-Identifier: Apache-2.0
// Virtual calls, dynamic_cast, type_info, std::function, shared_ptr counts, and a coroutine that is
// suspended.
#include "probe.h"

#include <coroutine>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>

namespace {

struct Shape {
    virtual ~Shape() = default;
    virtual int sides() const = 0;
};
struct Square : Shape {
    int sides() const override { return 4; }
};

struct Numbers {
    struct promise_type {
        int value = 0;
        Numbers get_return_object()
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int next)
        {
            value = next;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

Numbers count()
{
    for (int i = 1;; i++) {
        co_yield i;
    }
}

} // namespace

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    std::shared_ptr<Shape> shape = std::make_shared<Square>();
    const std::weak_ptr<Shape> observer = shape;
    std::function<int(int)> closure = [captured = std::string(50, 'c')](int i) {
        return static_cast<int>(captured.size()) + i;
    };
    Numbers numbers = count();
    do {
        probe_ready();
        PROBE_SABOTAGE("coroutine", numbers.handle.resume());
        PROBE_SABOTAGE("shared", shape.reset());
        probe_equal("value the coroutine yielded", probe_cycle(), numbers.handle.promise().value);
        numbers.handle.resume();
        probe_equal("owners of the shared object", 1, observer.use_count());
        probe_equal("virtual call", 4, shape->sides());
        probe_true("dynamic_cast", dynamic_cast<Square *>(shape.get()) != nullptr);
        probe_true("typeid", typeid(*shape) == typeid(Square));
        probe_equal("call of a closure", 57, closure(7));
    } while (probe_more());
    return probe_pass();
}
