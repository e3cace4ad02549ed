#include "worker/resident_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>

namespace pipestage {

int64_t ResidentBytes() {
  static const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  char text[128];
  const ssize_t size = pread(statm, text, sizeof(text) - 1, 0);
  if (size <= 0) return 0;
  text[size] = '\0';
  long total_pages = 0;
  long resident_pages = 0;
  if (std::sscanf(text, "%ld %ld", &total_pages, &resident_pages) != 2) {
    return 0;
  }
  return int64_t{resident_pages} * sysconf(_SC_PAGESIZE);
}

void RetainFreedMemory() {
  // glibc refuses more than half of one of its heaps for the first.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

}  // namespace pipestage
