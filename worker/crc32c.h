#ifndef PIPESTAGE_WORKER_CRC32C_H_
#define PIPESTAGE_WORKER_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace pipestage {

// CRC-32C (Castagnoli) of `size` bytes, continuing from `crc` (0 to begin):
// Crc32c(Crc32c(0, a), b) is the checksum of a followed by b. Uses the
// processor's instruction where there is one.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);

// The same by table, for processors without the instruction.
uint32_t Crc32cByTable(uint32_t crc, const void* data, size_t size);

}  // namespace pipestage

#endif  // PIPESTAGE_WORKER_CRC32C_H_
