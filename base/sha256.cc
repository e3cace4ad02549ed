#include "base/sha256.h"

#include "absl/strings/escaping.h"
#include "base/log.h"
#include "openssl/evp.h"

namespace pipestage {

std::string Sha256Hex(absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  // Fails only without memory or without SHA-256 in the library.
  PIPESTAGE_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &size,
                             EVP_sha256(), /*impl=*/nullptr) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace pipestage
