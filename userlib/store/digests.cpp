// SPDX-License-Identifier: Apache-2.0
#include "store/digests.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <memory>
#include <openssl/evp.h>
#include <span>
#include <unistd.h>
#include <vector>

namespace cryo::store {

namespace {

struct Free {
    void operator()(EVP_MD_CTX *context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

constexpr size_t piece = 1 << 20;

std::string hexadecimal(std::span<const unsigned char> bytes)
{
    std::string text;
    for (const unsigned char byte : bytes)
        text += fmt::format("{:02x}", byte);
    return text;
}

class Both
{
  public:
    Both() : sha256_(EVP_MD_CTX_new()), md5_(EVP_MD_CTX_new())
    {
        good_ = EVP_DigestInit_ex(sha256_.get(), EVP_sha256(), nullptr) == 1 &&
                EVP_DigestInit_ex(md5_.get(), EVP_md5(), nullptr) == 1;
    }

    void add(const void *bytes, size_t size)
    {
        good_ = good_ && EVP_DigestUpdate(sha256_.get(), bytes, size) == 1 &&
                EVP_DigestUpdate(md5_.get(), bytes, size) == 1;
    }

    Result<Digests> digests()
    {
        unsigned char sha256[EVP_MAX_MD_SIZE], md5[EVP_MAX_MD_SIZE];
        unsigned sha256_size = 0, md5_size = 0;
        good_ = good_ && EVP_DigestFinal_ex(sha256_.get(), sha256, &sha256_size) == 1 &&
                EVP_DigestFinal_ex(md5_.get(), md5, &md5_size) == 1;
        if (!good_) // where only approved functions may be used, MD5 is none of them
            return Error(ENOTSUP, "OpenSSL does not compute SHA-256 and MD5 here, which the "
                                  "interface of object stores needs");
        unsigned char base64[2 * EVP_MAX_MD_SIZE];
        const int length = EVP_EncodeBlock(base64, md5, static_cast<int>(md5_size));
        return Digests{hexadecimal({sha256, sha256_size}), hexadecimal({md5, md5_size}),
                       std::string(base64, base64 + length)};
    }

  private:
    Context sha256_, md5_;
    bool good_ = false;
};

} // namespace

Result<Digests> digests_of(std::string_view bytes)
{
    Both both;
    both.add(bytes.data(), bytes.size());
    return both.digests();
}

Result<Digests> digests_of(int fd, const std::string &name, uint64_t offset, uint64_t length)
{
    Both both;
    std::vector<char> buffer(std::min<uint64_t>(piece, length));
    while (length > 0) {
        const ssize_t n = pread(fd, buffer.data(), std::min<uint64_t>(buffer.size(), length),
                                static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno(name, errno);
        if (n == 0)
            return Error(EIO, name + ": became shorter while it was read");
        both.add(buffer.data(), static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
        length -= static_cast<uint64_t>(n);
    }
    return both.digests();
}

} // namespace cryo::store
