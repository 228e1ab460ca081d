// SPDX-License-Identifier: Apache-2.0
#include "coord/tls.hpp"
#include "base/print.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fmt/format.h>
#include <new>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

namespace cryo::coord {

namespace {

constexpr char cipher[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char cipher_id[] = {0x13, 0x01};
constexpr size_t most_identity = 512;

// Without random numbers, or OpenSSL, the daemon
// cannot continue: an invalid key must never be used.
void insist(bool good, const char *what)
{
    if (good)
        return;
    print(stderr, "{}: {}\n", program_invocation_short_name, what);
    abort();
}

// Loads no configuration file: it is meant for the administrator's
// web servers, and the environment could name another one.
void start_library()
{
    static const bool started =
        OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
    insist(started, "OpenSSL does not start");
}

// What TLS takes for an earlier session: it has our key, and the only cipher.
SSL_SESSION *session_of(SSL *ssl, const Key &key)
{
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *which = SSL_CIPHER_find(ssl, static_cast<const unsigned char *>(cipher_id));
    if (session != nullptr && which != nullptr &&
        SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
        SSL_SESSION_set_cipher(session, which) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
        return session;
    SSL_SESSION_free(session);
    return nullptr;
}

} // namespace

// What OpenSSL calls back.
struct Tls::Hooks {
    static Tls &of(const SSL *ssl) { return *static_cast<Tls *>(SSL_get_app_data(ssl)); }

    static int find(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **session)
    {
        Tls &self = of(ssl);
        *session = nullptr;
        if (length == 0 || length > most_identity)
            return 1; // without a key the handshake fails
        const std::string name(reinterpret_cast<const char *>(identity), length);
        const std::optional<Key> key = self.find_(name);
        if (!key)
            return 1;
        *session = session_of(ssl, *key);
        self.identity_ = name;
        return *session != nullptr ? 1 : 0;
    }

    static int use(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *length,
                   SSL_SESSION **session)
    {
        Tls &self = of(ssl);
        *session = nullptr;
        if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256)
            return 0;
        *identity = reinterpret_cast<const unsigned char *>(self.identity_.data());
        *length = self.identity_.size();
        *session = session_of(ssl, self.key_);
        return *session != nullptr ? 1 : 0;
    }

    static SSL_CTX *make_context(bool server)
    {
        start_library();
        SSL_CTX *context = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
        insist(context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_ciphersuites(context, cipher) == 1 &&
                   SSL_CTX_set_num_tickets(context, 0) == 1 &&
                   SSL_CTX_set_max_early_data(context, 0) == 1,
               "this OpenSSL has no TLS 1.3");
        SSL_CTX_set_options(context, SSL_OP_NO_TICKET); // nor accept tickets
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        if (server) {
            SSL_CTX_set_psk_find_session_callback(context, find);
        } else {
            // No certificate is trusted, so none can replace the key.
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
            SSL_CTX_set_psk_use_session_callback(context, use);
        }
        return context;
    }

    static SSL_CTX *context(bool server)
    {
        static SSL_CTX *const both[] = {make_context(false), make_context(true)};
        return both[server ? 1 : 0];
    }

    static std::unique_ptr<ssl_st, void (*)(ssl_st *)> connection(SSL_CTX *context, Tls *self)
    {
        std::unique_ptr<ssl_st, void (*)(ssl_st *)> made(SSL_new(context), SSL_free);
        BIO *in = BIO_new(BIO_s_mem());
        BIO *out = BIO_new(BIO_s_mem());
        if (made == nullptr || in == nullptr || out == nullptr)
            throw std::bad_alloc();
        SSL_set_bio(made.get(), in, out);
        SSL_set_app_data(made.get(), self);
        return made;
    }
};

Key derived_key(const std::string &secret, const std::string &purpose)
{
    start_library();
    Key key = {};
    const std::unique_ptr<EVP_PKEY_CTX, void (*)(EVP_PKEY_CTX *)> hkdf(
        EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
    constexpr char salt[] = "cryo mpi-daemon 1";
    const auto bytes = [](const char *text) {
        return reinterpret_cast<const unsigned char *>(text);
    };
    size_t length = key.size();
    insist(hkdf != nullptr && EVP_PKEY_derive_init(hkdf.get()) == 1 &&
               EVP_PKEY_CTX_set_hkdf_md(hkdf.get(), EVP_sha256()) == 1 &&
               EVP_PKEY_CTX_set1_hkdf_salt(hkdf.get(), bytes(salt), sizeof(salt) - 1) == 1 &&
               EVP_PKEY_CTX_set1_hkdf_key(hkdf.get(), bytes(secret.data()),
                                          static_cast<int>(secret.size())) == 1 &&
               EVP_PKEY_CTX_add1_hkdf_info(hkdf.get(), bytes(purpose.data()),
                                           static_cast<int>(purpose.size())) == 1 &&
               EVP_PKEY_derive(hkdf.get(), key.data(), &length) == 1 && length == key.size(),
           "OpenSSL makes no keys");
    return key;
}

Key random_key()
{
    start_library();
    Key key = {};
    insist(RAND_bytes(key.data(), key.size()) == 1, "there are no random numbers");
    return key;
}

std::string random_hex(size_t bytes)
{
    start_library();
    std::string text;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = 0;
        insist(RAND_bytes(&byte, 1) == 1, "there are no random numbers");
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

Tls::Tls(Find find) : find_(std::move(find)), ssl_(Hooks::connection(Hooks::context(true), this))
{
    SSL_set_accept_state(ssl_.get());
}

Tls::Tls(const std::string &identity, Key key)
    : identity_(identity), key_(key), ssl_(Hooks::connection(Hooks::context(false), this))
{
    SSL_set_connect_state(ssl_.get());
    advance(); // the first message is ours
}

Tls::~Tls()
{
    OPENSSL_cleanse(key_.data(), key_.size());
}

// False: the handshake has failed.
bool Tls::advance()
{
    if (established_)
        return true;
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done == 1) {
        // Only if the key was used, and not a certificate, or nothing.
        established_ = SSL_session_reused(ssl_.get()) == 1;
        return established_;
    }
    const int why = SSL_get_error(ssl_.get(), done);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

bool Tls::received(std::string_view bytes)
{
    if (bytes.size() > INT_MAX)
        return false;
    const int size = static_cast<int>(bytes.size());
    return (size == 0 || BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), size) == size) &&
           advance();
}

void Tls::take_output(std::string &to)
{
    BIO *out = SSL_get_wbio(ssl_.get());
    char *bytes = nullptr;
    const long size = BIO_get_mem_data(out, &bytes);
    if (size > 0)
        to.append(bytes, static_cast<size_t>(size));
    static_cast<void>(BIO_reset(out));
}

bool Tls::read(std::string &to)
{
    char bytes[16384];
    while (established_) {
        size_t n = 0;
        ERR_clear_error();
        if (SSL_read_ex(ssl_.get(), bytes, sizeof(bytes), &n) == 1) {
            to.append(bytes, n);
            continue;
        }
        const int why = SSL_get_error(ssl_.get(), 0);
        return why == SSL_ERROR_WANT_READ;
    }
    return true;
}

bool Tls::write(std::string_view bytes)
{
    size_t n = 0;
    ERR_clear_error();
    return established_ &&
           (bytes.empty() ||
            (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &n) == 1 && n == bytes.size()));
}

} // namespace cryo::coord
