// SPDX-License-Identifier: Apache-2.0
//
// Protects what hosts send each other: TLS 1.3 between two peers that share a key (an external
// PSK), by OpenSSL. No certificates, no tickets, no early data: a peer without a key gets no
// further than the first message, and a recorded conversation opens no second connection.
//
//     Tls server([](const std::string &identity) { return key_of(identity); });   // or nothing
//     Tls client("join/node7", key);
//     tls.received(bytes_from_network);      // false: the connection must be closed
//     tls.take_output(to_network);
//     if (tls.established())                 // both ends have proven that they have the key
//         tls.read(plain), tls.write(plain), tls.peer() ...
//
// It has no socket and no clock: Channel has those, and a fuzzer needs none.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct ssl_st;

namespace cryo::coord {

using Key = std::array<uint8_t, 32>;

// The key for one purpose, derived from the job's secret by
// HKDF. A key reveals nothing about those for other purposes.
Key derived_key(const std::string &secret, const std::string &purpose);
Key random_key();
std::string random_hex(size_t bytes);
std::string to_hex(const Key &key);
std::optional<Key> key_from_hex(const std::string &text);

class Tls
{
  public:
    using Find = std::function<std::optional<Key>(const std::string &identity)>;

    explicit Tls(Find find);                   // the end that is connected to
    Tls(const std::string &identity, Key key); // the end that connects
    ~Tls();
    Tls(const Tls &) = delete;
    Tls &operator=(const Tls &) = delete;

    bool received(std::string_view bytes);
    void take_output(std::string &to); // appends
    bool established() const { return established_; }
    const std::string &peer() const { return identity_; } // of the end that has connected
    bool read(std::string &to);                           // appends what is there
    bool write(std::string_view bytes);

  private:
    struct Hooks;
    bool advance();

    Find find_;
    std::string identity_;
    Key key_ = {};
    std::unique_ptr<ssl_st, void (*)(ssl_st *)> ssl_;
    bool established_ = false;
};

} // namespace cryo::coord
