// SPDX-License-Identifier: Apache-2.0
#include "coord/tls.hpp"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <openssl/ssl.h>
#include <openssl/x509.h>

using namespace cryo;
using namespace cryo::coord;

namespace {

const std::string secret(64, '7');

Tls::Find keys(const std::map<std::string, Key> &all)
{
    return [all](const std::string &name) -> std::optional<Key> {
        const auto at = all.find(name);
        return at != all.end() ? std::optional(at->second) : std::nullopt;
    };
}

// Passes each side's output to the other until both are silent. False: one rejected its input.
bool talk(Tls &a, Tls &b, std::string *said_by_a = nullptr)
{
    for (;;) {
        std::string from_a;
        std::string from_b;
        a.take_output(from_a);
        if (said_by_a != nullptr)
            *said_by_a += from_a;
        if (!from_a.empty() && !b.received(from_a))
            return false;
        b.take_output(from_b);
        if (!from_b.empty() && !a.received(from_b))
            return false;
        if (from_a.empty() && from_b.empty())
            return true;
    }
}

bool meet(const std::string &name, const Key &key, Tls &server)
{
    Tls client(name, key);
    const bool good = talk(client, server);
    EXPECT_EQ(good && client.established(), server.established());
    return server.established();
}

} // namespace

TEST(Keys, AreOfOnePurpose)
{
    EXPECT_EQ(derived_key(secret, "join/a"), derived_key(secret, "join/a"));
    EXPECT_NE(derived_key(secret, "join/a"), derived_key(secret, "join/b"));
    EXPECT_NE(derived_key(secret, "join/a"), derived_key(secret + "0", "join/a"));
    EXPECT_NE(derived_key(secret, "join/a"), derived_key(secret, std::string("join/a\0b", 8)));
    EXPECT_NE(random_key(), random_key());
    const Key key = random_key();
    EXPECT_EQ(key_from_hex(to_hex(key)), key);
    EXPECT_FALSE(key_from_hex(to_hex(key) + "0"));
    EXPECT_FALSE(key_from_hex(std::string(64, 'g')));
}

TEST(Connections, AreBetweenThoseWithTheKey)
{
    Tls server(keys({{"a", Key{1}}, {"b", Key{2}}}));
    Tls client("b", Key{2});
    ASSERT_TRUE(talk(client, server));
    ASSERT_TRUE(client.established() && server.established());
    EXPECT_EQ(server.peer(), "b");
    const std::string text(300'000, 'x');
    ASSERT_TRUE(client.write(text) && server.write("answer"));
    ASSERT_TRUE(talk(client, server));
    std::string heard;
    ASSERT_TRUE(server.read(heard));
    EXPECT_EQ(heard, text);
    heard.clear();
    ASSERT_TRUE(client.read(heard));
    EXPECT_EQ(heard, "answer");
}

TEST(Connections, AreRefusedWithoutIt)
{
    const auto all = keys({{"a", Key{1}}, {"b", Key{2}}});
    for (const auto &[name, key] : std::map<std::string, Key>{{"a", Key{2}},
                                                              {"b", Key{}},
                                                              {"c", Key{1}},
                                                              {std::string("a\0", 2), Key{1}},
                                                              {std::string(511, 'a'), Key{1}}}) {
        Tls server(all);
        EXPECT_FALSE(meet(name, key, server)) << name;
        std::string heard;
        EXPECT_FALSE(server.write("secret"));
        EXPECT_TRUE(server.read(heard));
        EXPECT_EQ(heard, "");
    }
}

TEST(Connections, AreNotMadeOfOldOnes)
{
    Tls server(keys({{"a", Key{1}}}));
    Tls client("a", Key{1});
    std::string said;
    ASSERT_TRUE(talk(client, server, &said));
    ASSERT_TRUE(client.write("open the door"));
    ASSERT_TRUE(talk(client, server, &said));
    ASSERT_TRUE(server.established());
    Tls again(keys({{"a", Key{1}}}));
    EXPECT_FALSE(again.received(said));
    EXPECT_FALSE(again.established());
}

TEST(Connections, DoNotSurviveAChangedBit)
{
    Tls first("a", Key{1});
    std::string hello;
    first.take_output(hello);
    for (size_t at = 0; at < hello.size(); at += 3) {
        Tls server(keys({{"a", Key{1}}}));
        Tls client("a", Key{1});
        std::string said;
        client.take_output(said);
        said[at] = static_cast<char>(said[at] ^ 0x10);
        if (server.received(said))
            talk(client, server);
        EXPECT_FALSE(server.established()) << at;
    }
}

// A man in the middle has a certificate instead of the key.
TEST(Connections, AreNotMadeByCertificates)
{
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY *)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const std::unique_ptr<X509, void (*)(X509 *)> certificate(X509_new(), X509_free);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
    const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX *)> context(SSL_CTX_new(TLS_server_method()),
                                                                SSL_CTX_free);
    ASSERT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
    ASSERT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
    const std::unique_ptr<SSL, void (*)(SSL *)> server(SSL_new(context.get()), SSL_free);
    SSL_set_bio(server.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(server.get());

    Tls client("a", Key{1});
    std::string said;
    client.take_output(said);
    BIO_write(SSL_get_rbio(server.get()), said.data(), static_cast<int>(said.size()));
    SSL_do_handshake(server.get());
    char *bytes = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(server.get()), &bytes);
    ASSERT_GT(size, 100); // the server would have accepted the client
    EXPECT_FALSE(client.received({bytes, static_cast<size_t>(size)}));
    EXPECT_FALSE(client.established());
}
