#ifndef PIPESTAGE_WORKER_TORCH_MEMORY_READER_H_
#define PIPESTAGE_WORKER_TORCH_MEMORY_READER_H_

#include <algorithm>
#include <cstring>

#include "absl/strings/string_view.h"
#include "caffe2/serialize/read_adapter_interface.h"

namespace pipestage {

// Lets LibTorch read an archive from memory: the bytes whose digest was
// verified, not the file again. `bytes` outlives it.
class MemoryReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryReader(absl::string_view bytes) : bytes_(bytes) {}

  size_t size() const override { return bytes_.size(); }

  size_t read(uint64_t pos, void* buf, size_t n,
              const char* what) const override {
    if (pos >= bytes_.size()) return 0;
    const size_t count = std::min(n, bytes_.size() - pos);
    std::memcpy(buf, bytes_.data() + pos, count);
    return count;
  }

 private:
  const absl::string_view bytes_;
};

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_TORCH_MEMORY_READER_H_
