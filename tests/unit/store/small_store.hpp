// SPDX-License-Identifier: Apache-2.0
//
// A little of an object store, in threads of the test: objects of one piece, in memory. Signatures
// are not looked at.
//
//     SmallStore store;
//     push(contents, place, store.settings(), options);
//     store.keys();
#pragma once

#include "base/fd.hpp"
#include "store/settings.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace cryo::store {

class SmallStore
{
  public:
    SmallStore();
    ~SmallStore();
    SmallStore(const SmallStore &) = delete;
    SmallStore &operator=(const SmallStore &) = delete;

    Settings settings() const;
    // "bucket/key" of all objects.
    std::vector<std::string> keys();
    void put(const std::string &key, const std::string &contents);
    void make_older(const std::string &key, int64_t seconds);

    bool knows_conditions = true;
    // Answers a request in the store's place, unless it returns "".
    std::function<std::string(const std::string &method, const std::string &target)> instead = {};
    // Of a request that is carried out: whether the client hears that it has failed.
    std::function<bool(const std::string &method, const std::string &target)> loses_answer = {};

  private:
    struct Object {
        std::string contents = {};
        std::string version = {};
        int64_t when = 0;
    };
    struct Request {
        std::string method = {}, key = {}, body = {};
        std::map<std::string, std::string> headers = {}; // names in lower case
    };

    void serve();
    void serve(Fd socket);
    std::string answer(const Request &request);

    Fd listener_;
    uint16_t port_ = 0;
    std::mutex mutex_;
    std::map<std::string, Object> objects_;
    uint64_t versions_ = 0;
    std::vector<int> open_;
    std::vector<std::jthread> threads_;
    std::jthread accepting_;
};

} // namespace cryo::store
